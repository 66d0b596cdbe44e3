"""Judges frozen windows: reads the input of the judge from JSON, and says in short what is judged of it."""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from tests.frozen.form import decode, encode, type_hints
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.backends import ALL, Saturation
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings, correct_headroom
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.analysis.verdict import worst_status

HERE = Path(__file__).parent
WINDOWS, DIFFERENCES = HERE / "windows.jsonl", HERE / "differences.jsonl"

ROWS = {
    kind: name
    for module in vars(findings).values()
    if isinstance(module, ModuleType)
    for name, kind in vars(module).items()
    if isinstance(kind, Kind)
}
"""The names of rows."""

NEAR = 1e-3
"""Two numbers that differ by less, in proportion, are the same."""


class FrozenSlices:
    """What an hour's slices show of each backend (`BackendSlices`)."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = {name: decode(Saturation, each) for name, each in found.items()}

    def find_saturation(self, name: str = ALL) -> Saturation | None:
        return self._found.get(name)


def decode_given(given: Mapping[str, Any]) -> dict[str, Any]:
    """The input of the judge: what is `Known`, and `objective`. Others no longer exist."""
    hints = {**type_hints(Known), "objective": type_hints(Figures)["objective"]}
    return {name: decode(hints[name], each) for name, each in given.items() if name in hints and name != "backends"}


def find_figures(given: Mapping[str, Any]) -> Figures:
    """The figures that are judged."""
    taken = decode_given(given)
    objective = taken.pop("objective", None)
    if "backends" in given:
        taken["backends"] = FrozenSlices(given["backends"])
    return replace(correct_headroom(compute_figures(Known(**taken))), objective=objective)


@cache
def judge_all() -> dict[str, tuple[Figures, list[Finding]]]:
    """What is judged of each window, by name."""
    figures = {line["name"]: find_figures(line["given"]) for line in read_lines(WINDOWS)}
    return {name: (each, collect_findings(each)) for name, each in figures.items()}


def judge(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is judged of an input."""
    figures = find_figures(given)
    return describe(figures, collect_findings(figures))


def describe(figures: Figures, findings: list[Finding]) -> dict[str, Any]:
    """A judgement in short. Findings are in their order, each with its harms in theirs."""
    room = figures.headroom
    return {
        "status": worst_status(findings),
        "findings": [_drop_empty(_describe(each)) for each in findings],
        "headroom": encode(room.factor),
        "first": room.first,
        "limited_by": room.limited_by,
        "by_limit": encode(room.by_limit),
        "usable": encode(room.usable),
    }


def _describe(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "row": ROWS.get(finding.kind),
        "severity": finding.severity,
        "worker": finding.worker_id,
        "harms": [[harm.code, harm.severity] for harm in finding.harms],
        "advised": dict(finding.settings),
        "serves": encode(finding.serves),
    }


def _drop_empty(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in parts.items() if each not in (None, [], {})}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, each an object."""
    yield from map(json.loads, path.read_text().splitlines())


def differs(one: Any, other: Any) -> bool:
    """Whether two judgements, or parts of them, are not the same."""
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return not math.isclose(one, other, rel_tol=NEAR)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() != other.keys() or any(differs(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(map(differs, one, other))
    return bool(one != other)


RETIRED = ("no_process_facts", "no_threads", "queue_not_measurable", "too_few_requests", "waits_not_known")
"""Findings that only said that something is unknown: it is in the list of what is not known."""


def expected() -> dict[str, dict[str, Any]]:
    """What is to be judged of each window, by name: as it was frozen, or as the last expected difference says."""
    judged = {line["name"]: line["judged"] for line in read_lines(WINDOWS)}
    for line in read_lines(DIFFERENCES):
        judged.update(line["judged"])
    for each in judged.values():
        each["findings"] = [finding for finding in each["findings"] if finding["code"] not in RETIRED]
    return judged


def find_different() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The windows of which something else is judged now, by name: what is judged, and what was to be."""
    wanted = expected()
    judged = {name: describe(*each) for name, each in judge_all().items()}
    return {name: (now, wanted[name]) for name, now in judged.items() if differs(now, wanted[name])}
