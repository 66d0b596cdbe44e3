"""Turns figures into findings about a window, worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import (
    backend_waits,
    causes,
    clients,
    code_lines,
    diagnosis,
    evenness,
    limits,
    load,
    lock_waits,
    log,
    parts,
    queue,
    waits,
    workers,
)
from uwsgi_headroom.analysis.findings.diagnosis import find_harm
from uwsgi_headroom.analysis.findings.evenness import COSTLY
from uwsgi_headroom.analysis.findings.hold import Held, Hold
from uwsgi_headroom.analysis.findings.kind import SEVERITIES, Finding, Kind, Severity, first_act
from uwsgi_headroom.analysis.findings.queue import WAITED
from uwsgi_headroom.record import EmperorRecord

RULES: tuple[Callable[[Figures], Iterable[Finding]], ...] = (
    causes.find,
    parts.find_open_files,
    waits.find_blocked_output,
    causes.find_idle,
    waits.find_held_loops,
    waits.find_stuck,
    queue.find,
    queue.find_missed,
    log.find,
    log.find_unanswered,
    workers.find,
    clients.find_left,
    clients.find_exceptions,
    clients.find_server_errors,
    parts.find_full_caches,
    parts.find_late_spoolers,
    parts.find_growing_memory,
    parts.find_growing_threads,
    load.find_throttled,
    load.find_full_cpus,
    evenness.find,
    load.find_full_interpreters,
    clients.find_static_files,
    waits.find,
    lock_waits.find,
    backend_waits.find,
    limits.find_busy_threads,
    limits.find_cheaper,
    load.find_other_programs,
    parts.find_large_roles,
    parts.find_low_headroom,
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
    """The findings about a server, worst first; what only uWSGI's log supports comes last among equals. Harms are
    joined to their cause. known_harms: those that the figures do not have, such as those of a review's range."""
    collected = [*known_harms, *(finding for rule in RULES for finding in rule(figures))]
    kept = code_lines.name_lines(figures, [each for each in collected if not _is_said(each, collected)])
    ranked = sorted(kept, key=lambda each: (SEVERITIES.index(each.severity), log.UNPROVEN in each.evidence))
    return diagnosis.diagnose(figures, ranked)


def _is_said(finding: Finding, others: Sequence[Finding]) -> bool:
    """Whether another finding says it with its cause; or it is harmless, and may be a symptom of any other."""
    if finding.code == "unevenness_harmless":
        return any(each.severity != "info" for each in others)
    causes = [each for each in others if each.kind and finding.code in each.kind.replaces and each.clause]
    return any(SEVERITIES.index(each.severity) <= SEVERITIES.index(finding.severity) for each in causes)


def collect_emperor_findings(record: EmperorRecord) -> list[Finding]:
    """The findings about an emperor."""
    return list(parts.find_of_emperor(record))


__all__ = [
    "COSTLY",
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
    "find_harm",
    "first_act",
]
