"""How much of their time the workers were there to take requests."""

from __future__ import annotations

from uwsgi_headroom.analysis.figures import Figures

AWAY = 0.15
"""Part of the workers' time that they are away from which this is what is wrong with the capacity."""


def part_away(figures: Figures) -> float | None:
    """The part of a window that workers were not there, those in reserve left out; None where nothing is known."""
    reserve = {worker.worker_id for worker in figures.snapshot.workers if worker.in_reserve}
    up = [worker.up_seconds for worker in figures.window.workers if worker.worker_id not in reserve]
    observed = figures.window.observed_seconds * len(up)
    return None if not observed else max(0.0, 1 - sum(up) / observed)
