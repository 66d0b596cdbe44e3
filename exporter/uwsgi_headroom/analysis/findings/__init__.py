"""Turns figures into findings about a window, worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import (
    accepting,
    backend_waits,
    causes,
    clients,
    code_lines,
    diagnosis,
    evenness,
    health,
    limits,
    load,
    lock_waits,
    log,
    loops,
    memory,
    objective,
    parts,
    queue,
    setup,
    static_files,
    waits,
    workers,
)
from uwsgi_headroom.analysis.findings.diagnosis import CAUSES, OF_WAITING, find_harm
from uwsgi_headroom.analysis.findings.evenness import COSTLY
from uwsgi_headroom.analysis.findings.finding import RUNBOOKS, SEVERITIES, Finding, Severity, first_act
from uwsgi_headroom.analysis.findings.hold import Held, Hold
from uwsgi_headroom.analysis.findings.objective import WAITED
from uwsgi_headroom.analysis.worker_states import find_outside_holder
from uwsgi_headroom.record import EmperorRecord

MODULES: tuple[Callable[[Figures], Iterable[Finding]], ...] = (
    causes.find,
    memory.find_open_files,
    waits.find_blocked_output,
    accepting.find,
    loops.find,
    health.find_stuck,
    queue.find,
    objective.find,
    log.find,
    log.find_unanswered,
    workers.find,
    clients.find,
    parts.find,
    health.find,
    load.find_throttled,
    load.find_full_cpus,
    evenness.find,
    load.find_full_interpreters,
    static_files.find,
    waits.find,
    lock_waits.find,
    backend_waits.find,
    limits.find,
    load.find_other_programs,
    memory.find,
    setup.find,
)
"""In order of urgency: first harm that users feel now, then harm that may come, then uWSGI's setup."""


def collect_findings(figures: Figures, known_harms: Sequence[Finding] = ()) -> list[Finding]:
    """The findings about a server, worst first; among equally severe ones, those that users feel first come first, and
    those that only uWSGI's log supports come last. Harms are joined to their cause. known_harms: harms that the figures
    do not have, such as those of a review's range."""
    collected = [*known_harms, *(finding for module in MODULES for finding in module(figures))]
    if any(finding.code == "unevenness_hurts" for finding in collected):  # it says the same, with the remedy
        collected = [
            finding for finding in collected if (finding.code, finding.severity) != ("interpreter_bound", "warning")
        ]
    if any(finding.code == "loop_held" and finding.clause for finding in collected):  # why they do not end
        collected = [finding for finding in collected if finding.code != "request_stuck"]
    if any(finding.code == "static_files" and finding.clause for finding in collected):  # clients that read them slowly
        collected = [finding for finding in collected if finding.code != "slow_clients"]
    if find_outside_holder(figures.server) and any(finding.code == "application_lock" for finding in collected):
        collected = [finding for finding in collected if finding.code != "request_stuck"]  # a restart would not help
    if any(finding.severity != "info" for finding in collected):  # it may be a symptom, and is no news beside these
        collected = [finding for finding in collected if finding.code != "unevenness_harmless"]
    collected = code_lines.name_lines(figures, collected)
    ranked = sorted(collected, key=lambda each: (SEVERITIES.index(each.severity), log.UNPROVEN in each.evidence))
    return diagnosis.diagnose(figures, ranked)


def collect_emperor_findings(record: EmperorRecord) -> list[Finding]:
    """The findings about an emperor."""
    return list(parts.find_of_emperor(record))


__all__ = [
    "CAUSES",
    "COSTLY",
    "OF_WAITING",
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
