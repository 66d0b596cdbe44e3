"""Writes docs/findings.md: every sentence that the judge can say, by code, from its rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from types import ModuleType

from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings import RUNBOOKS, SEVERITIES, Severity
from uwsgi_headroom.analysis.findings.kind import Kind


def list_rows() -> list[Kind]:
    """The rows of all modules of rules, by code, the most severe first."""
    modules = [each for each in vars(findings).values() if isinstance(each, ModuleType)]
    rows = dict.fromkeys(row for module in modules for row in vars(module).values() if isinstance(row, Kind))
    return sorted(rows, key=lambda row: (row.code, SEVERITIES.index(row.severities[0]), row.title))


def show(template: str, severity: Severity) -> str:
    """A template as people read it: `…` stands for a value, and an optional part is in brackets, unless it belongs to a
    severity, which its part names first: then it is there for this one."""
    others = {*SEVERITIES} - {severity}
    for holds in (severity, *(f"not {each}" for each in others)):
        template = re.sub(rf"\[{holds}\? ([^]]*)\]", r"\1", template).replace(f"[{holds}, ", "[")
    for fails in (f"not {severity}", *others):
        template = re.sub(rf"\[{fails}[,?] [^]]*\]", "", template)
    template = re.sub(r"\[[\w, ]+\? ( *)([^]]*?)( *)\]", r"\1[\2]\3", template)
    return re.sub(r"\{[^{}]*\}", _show_fact, template).strip()


def _show_fact(match: re.Match[str]) -> str:
    """The plural of a choice of words, `Workers …` for the ids of workers, and `…` for anything else."""
    how = match[0][1:-1].partition(":")[2]
    if "|" in how:
        return how.split("|")[1]
    return f"{how}s …" if how[:1].isupper() else "…"


def lines() -> Iterator[str]:
    """The page below its introduction."""
    for code, group in groupby(list_rows(), key=lambda row: row.code):
        found = [(row, severity) for row in group for severity in row.severities]
        titles: dict[str, dict[str, None]] = {}
        for row, severity in found:
            titles.setdefault(show(row.title, severity), {})[severity.upper()] = None
        meanings = dict.fromkeys(show(row.meaning, severity) for row, severity in found)
        acts = dict.fromkeys(show(f"{row.act} {row.then}", each) for row, each in found if show(row.act, each))
        yield from (f"### {code}", "")
        yield from (f"- **{', '.join(severities)}** {title}" for title, severities in titles.items())
        yield from ("", f"A {found[0][0].role}. {' '.join(filter(None, meanings))}".rstrip(), "")
        yield from (f"- Do: {act}" for act in acts)
        if runbook := RUNBOOKS.get(code):
            yield f"- Runbook: [{runbook}](../alerts/runbooks/{runbook}.md)"
        yield ""
