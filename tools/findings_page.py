"""Writes docs/findings.md: every sentence that the judge can say, by code, from its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from types import ModuleType

from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings import RUNBOOKS, SEVERITIES
from uwsgi_headroom.analysis.findings.kind import Kind


def list_rows() -> list[Kind]:
    """The rows of all modules of rules, by code, the most severe first."""
    modules = [each for each in vars(findings).values() if isinstance(each, ModuleType)]
    rows = dict.fromkeys(row for module in modules for row in vars(module).values() if isinstance(row, Kind))
    return sorted(rows, key=lambda row: (row.code, SEVERITIES.index(row.severities[0]), row.title))


def show(template: str) -> str:
    """A template as people read it: `…` stands for a value, and an optional part is in brackets."""
    return re.sub(r"\{[^{}]*\}", _show_fact, re.sub(r"\[\w+\? ( *)([^]]*?)( *)\]", r"\1[\2]\3", template))


def _show_fact(match: re.Match[str]) -> str:
    """The plural of a choice of words, `Workers …` for the ids of workers, and `…` for anything else."""
    how = match[0][1:-1].partition(":")[2]
    if "|" in how:
        return how.split("|")[1]
    return f"{how}s …" if how[:1].isupper() else "…"


def lines() -> Iterator[str]:
    """The page below its introduction."""
    for code, group in groupby(list_rows(), key=lambda row: row.code):
        rows = list(group)
        yield from (f"### {code}", "")
        for title in _apart([row.title for row in rows]):
            severities = dict.fromkeys(each.upper() for row in rows if row.title == title for each in row.severities)
            yield f"- **{', '.join(severities)}** {show(title)}"
        yield from ("", f"A {rows[0].role}. {' '.join(map(show, _apart([row.meaning for row in rows])))}".rstrip(), "")
        yield from (f"- Do: {show(act)}" for act in _apart([f"{row.act} {row.then}".strip() for row in rows]))
        if runbook := RUNBOOKS.get(code):
            yield f"- Runbook: [{runbook}](../alerts/runbooks/{runbook}.md)"
        yield ""


def _apart(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))
