"""How a server is, in one word and one sentence: the worst finding, or what the headroom is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from uwsgi_headroom.analysis.capacity import Headroom, Limit
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.formatting import factor

Status = Literal["ok", "warning", "critical", "unknown"]
"""unknown: it cannot be read, or has not been watched for long enough."""

NO_ROOM = 1.1
"""CPU headroom below which others use the CPUs where nothing is wrong: a server that does is `cpu_bound`."""

GIVES_OUT: dict[Limit, str] = {
    "hottest_interpreter": "the hottest worker's interpreter gives out",
    "interpreters": "the interpreters of all workers give out",
    "threads": "the threads give out",
    "cpu": "the CPUs give out",
}


def gives_out(limit: Limit, slots: str = "threads") -> str:
    """What happens at a limit, as half a sentence."""
    return f"the {slots} give out" if limit == "threads" else GIVES_OUT[limit]


def worst_status(findings: Sequence[Finding]) -> Status:
    """The severity of the worst of the findings; ok where none is worse than info."""
    severities = {finding.severity for finding in findings}
    return "critical" if "critical" in severities else "warning" if "warning" in severities else "ok"


def verdict_sentence(room: Headroom, findings: Sequence[Finding], slots: str = "threads") -> str:
    """The verdict in one sentence: the worst finding (they come the worst first), or what gives out first and when.
    slots: what serves requests, as `name_slots` says."""
    if worst_status(findings) != "ok":
        return findings[0].title
    unseen = " (CPU is not visible from here)" if room.is_upper_bound else ""
    if room.first == "cpu" and room.factor is not None and room.factor <= NO_ROOM:
        return "It has the CPU that it needs, and others use the rest: more load would compete with them."
    if room.first is not None and room.factor is not None:
        most = "at most " if room.is_upper_bound else ""
        return f"Load can grow to {most}{factor(room.factor)} of today's before {gives_out(room.first, slots)}{unseen}."
    if room.far:
        return f"It is nearly idle: load can grow to over 100x of today's{unseen}."
    return "How much load can grow is not known: neither threads nor CPU are visible from here."
