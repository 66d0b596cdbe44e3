"""Whether the workers are there to take requests, for how much of their time, and with their application."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

AWAY = 0.15
"""Part of the workers' time that they are away from which this is what is wrong with the capacity."""


def part_away(figures: Figures, reading: Reading) -> float | None:
    """The part of a window that workers were not there; None where that is not known, or cheaper mode may be why."""
    options = reading.host.setup.options if reading.host.setup else None
    if options is None or not options.complete or options.cheaper:
        return None
    up = [worker.up_seconds for worker in figures.window.workers]
    observed = figures.window.observed_seconds * len(up)
    return None if not observed else max(0.0, 1 - sum(up) / observed)


def find_without_application(reading: Reading, workers: Sequence[Worker]) -> tuple[list[Worker], list[Worker]] | None:
    """Of these workers, those that take requests, and those of them in which no application is loaded; None
    where the configuration names none, or cannot be read."""
    setup = reading.host.setup
    if setup is None or not setup.options.names_application:
        return None
    accepting = [worker for worker in workers if worker.accepting and not reading.process_is_missing(worker)]
    return accepting, [worker for worker in accepting if not worker.apps]
