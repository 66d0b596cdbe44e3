"""Writes docs/findings.md: every sentence that the judge can say, by code, from its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from types import ModuleType

from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings import RUNBOOKS, SEVERITIES, Severity
from uwsgi_headroom.analysis.findings.kind import Kind, say_severity


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
        found = [(row, severity) for severity in SEVERITIES for row in rows if severity in row.severities]
        titles = [_choose(row.title, severity) for row, severity in found]
        for title in _apart(titles):
            severities = [each.upper() for (_, each), said in zip(found, titles, strict=True) if said == title]
            yield f"- **{', '.join(dict.fromkeys(severities))}** {show(title)}"
        meanings = _apart([_choose(row.meaning, severity) for row, severity in found])
        yield from ("", f"A {rows[0].role}. {' '.join(map(show, meanings))}".rstrip(), "")
        acts = [
            _choose(f"{row.act} {row.then}", severity).strip() for row, severity in found if _choose(row.act, severity)
        ]
        yield from (f"- Do: {show(act)}" for act in _apart(acts))
        if runbook := RUNBOOKS.get(code):
            yield f"- Runbook: [{runbook}](../alerts/runbooks/{runbook}.md)"
        yield ""


def _choose(template: str, severity: Severity) -> str:
    """A template with the parts that a finding of this severity has, and without those of the others."""
    for fact, is_said in say_severity(severity).items():
        template = re.sub(rf"\[{fact}\? ([^]]*)\]", r"\1" if is_said else "", template)
    return template


def _apart(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))
