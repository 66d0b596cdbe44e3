"""Turns figures into findings about a window, worst first, and corrects the headroom by them.

Free threads, interpreters and CPUs are no headroom while requests wait for a saturated backend, take turns on one
connection, or fail. Where it is known how much of that other limit is used, it stands beside the resources, as the
limit `other`; else the headroom is not known.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import fills_threads
from uwsgi_headroom.analysis.capacity import REACHED, Limit, OtherLimit, list_causes, rank_limits
from uwsgi_headroom.analysis.destinations import is_one_at_a_time, list_main
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import (
    causes,
    clients,
    code_lines,
    cpus,
    diagnosis,
    evenness,
    lock_waits,
    log,
    loops,
    parts,
    queue,
    resources,
    threads,
    waits,
    way_in,
    workers,
)
from uwsgi_headroom.analysis.findings.diagnosis import find_harm
from uwsgi_headroom.analysis.findings.hold import Held, Hold
from uwsgi_headroom.analysis.findings.kind import SEVERITIES, Finding, Kind, Severity, first_act
from uwsgi_headroom.analysis.findings.parts import collect_emperor_findings
from uwsgi_headroom.analysis.findings.queue import WAITED
from uwsgi_headroom.analysis.littles_law import is_standing
from uwsgi_headroom.analysis.shortages import mostly_sleeps, tries_again
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import find_without_application

Rule = Callable[[Figures], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    causes.find,
    resources.find_open_files,
    resources.find_zombies,
    resources.find_files,
    resources.find_address_space,
    waits.find_blocked_output,
    causes.find_idle,
    causes.find_traced,
    loops.find_held_loops,
    loops.find_lookups,
    waits.find_stuck,
    queue.find,
    queue.find_missed,
    way_in.find,
    log.find,
    log.find_unanswered,
    workers.find,
    clients.find_given_up,
    clients.find_timed_out,
    clients.find_left,
    clients.find_working_on,
    clients.find_exceptions,
    clients.find_server_errors,
    clients.find_client_errors,
    parts.find_full_caches,
    parts.find_late_spoolers,
    parts.find_threads_off,
    resources.find_growing_threads,
    cpus.find_throttled,
    cpus.find_full_cpus,
    evenness.find,
    cpus.find_full_interpreters,
    clients.find_static_files,
    waits.find,
    lock_waits.find,
    waits.find_backends,
    threads.find_busy_threads,
    threads.find_cheaper,
    cpus.find_other_programs,
    resources.find_growing_memory,
    parts.find_hindered_routers,
    resources.find_large_roles,
    resources.find_low_headroom,
    parts.find_setup,
)
"""In order of urgency: first harm that users feel now, then harm that may come, then uWSGI's setup."""

ROWS = [
    row for each in list(vars().values()) for row in getattr(each, "__dict__", {}).values() if isinstance(row, Kind)
]
"""The rows of all modules of rules."""

RUNBOOKS = {row.code: row.runbook for row in ROWS if row.runbook}
"""Names of runbooks by the finding's code. Other findings need none."""

OTHER_LIMITS = sorted({row.code for row in ROWS if row.limits in ("waits", "always")})
"""The causes of waiting that free threads, interpreters and CPUs do not remove."""


def collect_findings(figures: Figures, known_harms: Sequence[Finding] = ()) -> list[Finding]:
    """The findings about a server, worst first, harms joined to their cause. known_harms: of a review's range."""
    collected = [*known_harms, *(finding for rule in RULES for finding in rule(figures))]
    kept = code_lines.name_lines(figures, [each for each in collected if not _is_said(each, collected)])
    ranked = sorted(kept, key=lambda each: (SEVERITIES.index(each.severity), log.UNPROVEN in each.evidence))
    return diagnosis.diagnose(figures, ranked)


def _is_said(finding: Finding, others: Sequence[Finding]) -> bool:
    """Whether another finding says it with its cause; or it is harmless, and may be a symptom of any other."""
    if finding.code == "unevenness_harmless":
        return any(each.severity != "info" for each in others)
    causes = [each for each in others if finding.code in each.kind.replaces and each.clause]
    return any(SEVERITIES.index(each.severity) <= SEVERITIES.index(finding.severity) for each in causes)


_LIMITING = [
    rule
    for rule in RULES
    if any(isinstance(row, Kind) and row.limits for row in vars(sys.modules[rule.__module__]).values())
]
"""The rules of modules that have rows which may limit a server."""


def correct_headroom(figures: Figures) -> Figures:
    """The figures with the headroom, and the usable one, that the findings about them leave."""
    room = figures.headroom
    if room.no_requests:
        return figures
    reached = {limit for limit, factor in room.by_limit.items() if factor <= 1 / REACHED}
    order = list_causes(figures.cpu)
    errors, cause = _describe_errors(figures), None
    if not errors and not reached.intersection(order[: order.index("other")]):
        cause = _find_cause(figures)
    known, other = list[float](), OtherLimit("errors", errors)
    if cause:
        of_threads = [room.by_limit[limit] for limit in reached & {"threads"}]
        known, other = [*of_threads, *_compute_factor(figures, cause)], OtherLimit(cause.code, cause.clause)
    elif not errors:
        is_used = room.first == "threads" and room.by_limit["threads"] <= 1 / waits.USED
        sleeps = (is_used and mostly_sleeps(figures)) or tries_again(figures)
        return replace(figures, headroom=replace(room, sleeps=sleeps))
    factor = min(known, default=None)
    if factor is None or (is_standing(figures.flow) and factor > 1 / REACHED):
        return replace(figures, headroom=rank_limits(idle=(*room.by_limit, *room.far, *room.idle), other=other))
    name: Limit = "lock" if cause and cause.kind.limits == "lock" else "other"
    far = tuple(limit for limit in room.far if limit != name)
    left = rank_limits({**room.by_limit, name: factor}, order, far=far, idle=room.idle, other=other)
    usable, usable_first = room.usable, room.usable_first
    if left.first == name and usable is not None:
        usable, usable_first = min(factor, usable), name
    return replace(figures, headroom=replace(left, usable=usable, usable_first=usable_first))


LEAST_WAITING = 2.0
"""With so many threads in a backend that runs one command at a time, on average, all but one wait for their turn."""


def _find_cause(figures: Figures) -> Finding | None:
    main = list_main(figures.destinations)
    turns = len(main) == 1 and is_one_at_a_time(main[0]) and main[0].threads >= LEAST_WAITING
    known = {"lock": "lock" not in figures.headroom.by_limit, "turns": turns}
    return diagnosis.find_cause(each for rule in _LIMITING for each in rule(figures) if _limits(each, known))


def _limits(finding: Finding, known: Mapping[str, bool]) -> bool:
    """Whether a cause limits the server, also where hardly any request waits. known: whether some limits apply."""
    when = finding.kind.limits
    return known.get(when, when != "") and (finding.severity != "info" or when in ("always", "turns"))


def _describe_errors(figures: Figures) -> str:
    """Why requests that take little now would take more without their errors, as a clause; empty if most are well."""
    accepting, without = find_without_application(figures.server) or ([], [])
    if figures.server.empty_seconds >= causes.EMPTY * figures.window.seconds:
        return "clients that send no whole request hold threads"
    least = MOSTLY * figures.flow.completed or inf
    if without and len(accepting) == len(without):
        return "uWSGI answers every request with an error"
    if (figures.window.unanswered or 0) >= least:
        return "uWSGI closes most requests without a response"
    return "most requests raise exceptions" * (clients.count_raised(figures) >= least)


def _compute_factor(figures: Figures, cause: Finding) -> Iterator[float]:
    """By how much load can grow until this limit is reached, if that is known."""
    saturation, throughput = figures.saturation, figures.flow.throughput
    if cause.code == "loop_held" and (part := loops.find_part_held(figures)):
        yield 1 / part
    if cause.code == "backend_saturated" and saturation and throughput and fills_threads(figures, saturation):
        yield max(1.0, saturation.high / throughput)
    if cause.code == "router_full":
        routers = [each for each in figures.server.roles if each.role == "router"]
        yield from [max(1.0, each.processes / each.cpus) for each in routers if each.cpus]


__all__ = [
    "OTHER_LIMITS",
    "ROWS",
    "RUNBOOKS",
    "SEVERITIES",
    "WAITED",
    "Finding",
    "Held",
    "Hold",
    "Severity",
    "collect_emperor_findings",
    "collect_findings",
    "correct_headroom",
    "find_harm",
    "first_act",
]
