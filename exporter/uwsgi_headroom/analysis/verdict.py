"""Judges a server in one word and one sentence: the worst finding, or its headroom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from uwsgi_headroom.analysis.capacity import Headroom, Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding
from uwsgi_headroom.analysis.worker_states import name_slots
from uwsgi_headroom.words.formats import factor
from uwsgi_headroom.words.states import LIMITS
from uwsgi_headroom.words.template import Facts, fill

Status = Literal["ok", "warning", "critical", "unknown"]
"""unknown: the server cannot be read, or was not watched for long enough."""

NO_ROOM = 1.1
"""CPU headroom below which the verdict says that no CPU is idle. Without any finding, other programs use the CPUs: a
server that uses them itself is `cpu_bound`."""


def gives_out(limit: Limit, slots: str = "threads") -> str:
    """What happens at a limit, as a clause."""
    return LIMITS[limit].outcome.replace("threads", slots)


WITH_MORE, ALREADY = "requests wait with more load", "requests wait already"
"""Where there is no usable headroom. It ends where a wait would be noticed, so that the queue may be empty now."""


def usable_clause(usable: float | None, hard: float | None, *, waiting: bool = False) -> str:
    """The usable headroom as a clause, beside the headroom (`hard`); empty if unknown or the same."""
    if usable is None or hard is None or factor(usable) == factor(hard):
        return ""
    rows = (usable > 1, f"{factor(usable)} until requests wait"), (waiting, ALREADY), (True, WITH_MORE)
    return next(text for holds, text in rows if holds)


def worst_status(findings: Sequence[Finding]) -> Status:
    """The severity of the worst finding; ok if no finding is worse than info."""
    severities = {finding.severity for finding in findings}
    bad: tuple[Status, ...] = ("critical", "warning")
    return next((status for status in bad if status in severities), "ok")


UNSEEN = (
    "[most, cpu, threads?  (what requests wait for is not visible)]"
    "[most, cpu, not threads?  (busy threads are not visible from here)]"
    "[most, not cpu?  (CPU is not visible from here)]."
)
ROOM = "Headroom [most? at most ]{hard:factor}: {first} first" + UNSEEN
ROOM_LEFT = "Headroom [most? at most ]{until}; {hard:factor} until {first}" + UNSEEN
NO_ROOM_LEFT = "{begin}; headroom [most? at most ]{hard:factor} until {first}" + UNSEEN
OTHER = "Headroom [known? {hard:factor}][not known? not known]: {why}."
CPU_TAKEN = "No CPU is idle: other programs use the rest, and more load competes with them."
IDLE = "Nearly idle: headroom over 100x" + UNSEEN
NO_REQUESTS = "No requests yet[clear? ; the way in is clear][not clear, not why? : headroom not known][why? : {why}]."
THREADS_HIDDEN = "Headroom not known: how many threads are busy is not visible from here."
ALL_HIDDEN = "Headroom not known: neither threads nor CPU are visible from here."


def say_verdict(figures: Figures, findings: Sequence[Finding]) -> str:
    """The verdict on a server in one sentence."""
    server = figures.server
    return verdict_sentence(figures.headroom, findings, name_slots(server), is_clear=server.ways_in.is_clear)


def verdict_sentence(
    room: Headroom, findings: Sequence[Finding], slots: str = "threads", *, is_clear: bool = False
) -> str:
    """The verdict in one sentence: the title of the worst finding, the first one, or the headroom. slots: their name;
    is_clear: whether clients can connect, as far as was seen."""
    if worst_status(findings) != "ok":
        return findings[0].title
    kept_out = next((each.title for each in findings if each.kind.keeps_out), "")
    facts: Facts = {"why": kept_out[:1].lower() + kept_out[1:].rstrip("."), "clear": is_clear}
    facts |= {"hard": room.factor, "most": room.is_upper_bound}
    facts |= {limit: limit in {*room.by_limit, *room.far, *room.idle} for limit in ("cpu", "threads")}
    if room.other and room.first in (None, "other"):
        return fill(OTHER, facts | {"known": room.factor is not None, "why": room.other.why})
    if room.first is None or room.factor is None:
        known = (room.no_requests, NO_REQUESTS), (room.far, IDLE), (room.idle, THREADS_HIDDEN)
        return fill(next((text for holds, text in known if holds), ALL_HIDDEN), facts)
    if room.first == "cpu" and room.factor <= NO_ROOM:
        return CPU_TAKEN
    until = usable_clause(room.usable, room.factor)
    rows = (not until, ROOM), ((room.usable or 0.0) > 1, ROOM_LEFT), (True, NO_ROOM_LEFT)
    facts |= {"first": gives_out(room.first, slots), "until": until, "begin": until.capitalize()}
    return fill(next(text for holds, text in rows if holds), facts)
