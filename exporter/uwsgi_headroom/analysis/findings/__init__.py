"""Figures to words: what is worth knowing of a window, the worst first."""

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
    queue,
    setup,
    workers,
)
from uwsgi_headroom.analysis.findings.finding import SEVERITIES, Finding, Severity
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.emperor_router import EmperorSnapshot

MODULES: tuple[Callable[[Figures, Reading], Iterable[Finding]], ...] = (
    causes.find,
    health.find_stuck,
    queue.find,
    workers.find,
    health.find,
    evenness.find,
    load.find,
    limits.find,
    neighbours.find,
    memory.find,
    setup.find,
)
"""What users feel now comes first, then what may come, then how uWSGI is set up."""


def collect_findings(figures: Figures, reading: Reading) -> list[Finding]:
    """Everything worth knowing, the worst first; of equals, what users feel first."""
    collected = [finding for module in MODULES for finding in module(figures, reading)]
    if any(finding.code == "unevenness_hurts" for finding in collected):  # which says the same, and what to do about it
        collected = [
            finding for finding in collected if (finding.code, finding.severity) != ("interpreter_bound", "warning")
        ]
    return sorted(collected, key=lambda finding: SEVERITIES.index(finding.severity))


def collect_emperor_findings(snapshot: EmperorSnapshot) -> list[Finding]:
    """Everything worth knowing of an emperor."""
    return list(emperor.find(snapshot))


__all__ = ["Finding", "Severity", "collect_emperor_findings", "collect_findings"]
