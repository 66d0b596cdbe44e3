"""Turns figures into findings about a window, worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import (
    causes,
    emperor,
    evenness,
    health,
    limits,
    load,
    memory,
    neighbours,
    objective,
    queue,
    setup,
    waits,
    workers,
)
from uwsgi_headroom.analysis.findings.evenness import COSTLY
from uwsgi_headroom.analysis.findings.finding import RUNBOOKS, SEVERITIES, Finding, Severity
from uwsgi_headroom.record import EmperorRecord

MODULES: tuple[Callable[[Figures], Iterable[Finding]], ...] = (
    causes.find,
    health.find_stuck,
    queue.find,
    objective.find,
    workers.find,
    health.find,
    evenness.find,
    load.find,
    waits.find,
    limits.find,
    neighbours.find,
    memory.find,
    setup.find,
)
"""In order of urgency: first harm that users feel now, then harm that may come, then uWSGI's setup."""

ABOUT_LOAD = (queue.find, evenness.find, load.find, waits.find, limits.find, neighbours.find, memory.find)
"""Those about a level of load, in the same order. The others are about a moment, or about uWSGI's setup."""


def collect_findings(figures: Figures) -> list[Finding]:
    """The findings about a server, worst first; among equally severe ones, those that users feel first come first."""
    collected = [finding for module in MODULES for finding in module(figures)]
    if any(finding.code == "unevenness_hurts" for finding in collected):  # it says the same, with the remedy
        collected = [
            finding for finding in collected if (finding.code, finding.severity) != ("interpreter_bound", "warning")
        ]
    return sorted(collected, key=lambda finding: SEVERITIES.index(finding.severity))


def collect_load_findings(figures: Figures) -> list[Finding]:
    """The findings about the level of load of a window, for a reader who looks back on it."""
    return [finding for module in ABOUT_LOAD for finding in module(figures)]


def collect_emperor_findings(record: EmperorRecord) -> list[Finding]:
    """The findings about an emperor."""
    return list(emperor.find(record))


__all__ = [
    "COSTLY",
    "RUNBOOKS",
    "SEVERITIES",
    "Finding",
    "Severity",
    "collect_emperor_findings",
    "collect_findings",
    "collect_load_findings",
]
