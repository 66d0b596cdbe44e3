"""Levels of one sample, busy and available threads per worker and in total, and their integration over a step."""

from __future__ import annotations

from typing import NamedTuple

from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker


class Levels(NamedTuple):
    """Levels at one instant. workers: for each, its busy threads (None if uWSGI omits threads), and whether it accepts
    requests. busy, available: threads of all workers, both 0 if uWSGI omits threads."""

    workers: list[tuple[int | None, bool]]
    busy: int
    available: int

    @property
    def is_full(self) -> bool:
        """Whether every available thread is busy."""
        return self.busy >= self.available > 0


def find_levels(reading: Reading, workers: tuple[Worker, ...]) -> Levels:
    """The levels of a reading whose document has these workers."""
    levels = [(reading.busy_threads(worker), worker.accepting) for worker in workers]
    available = sum([worker.available_threads or 0 for worker in workers])
    return Levels(levels, sum([busy or 0 for busy, _ in levels]), available)


def add_levels(totals: Totals, before: Levels | None, now: Levels, step: float) -> None:
    """Add the integral over the `step` seconds between two samples to the totals, by linear interpolation. A step of 0
    adds no time; it only turns totals that become known from None to 0."""
    then = before.workers if before and step else now.workers
    for total, (busy_then, up_then), (busy, up) in zip(totals.workers, then, now.workers, strict=True):
        if busy is not None:
            area = step * (busy_then + busy) / 2 if busy_then is not None else 0.0
            total.busy_seconds = (total.busy_seconds or 0.0) + area
        total.up_seconds += step * (up_then + up) / 2
    if before:
        totals.full_seconds += step * (before.is_full + now.is_full) / 2
