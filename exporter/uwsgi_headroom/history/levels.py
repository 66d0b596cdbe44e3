"""Levels of one sample: how many threads are busy and available, of each worker and together."""

from __future__ import annotations

from typing import NamedTuple

from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker


class Levels(NamedTuple):
    """Of an instant. workers: busy threads (None where uWSGI names none), and whether it accepts requests; busy and
    available: threads of all workers, 0 of 0 where uWSGI names none."""

    workers: list[tuple[int | None, bool]]
    busy: int
    available: int

    @property
    def is_full(self) -> bool:
        """Whether every thread that can take a request has one."""
        return self.busy >= self.available > 0


def find_levels(reading: Reading, workers: tuple[Worker, ...]) -> Levels:
    """The levels of a reading with these workers."""
    levels = [(reading.busy_threads(worker), worker.accepting) for worker in workers]
    available = sum([worker.available_threads or 0 for worker in workers])
    return Levels(levels, sum([busy or 0 for busy, _ in levels]), available)


def add_levels(totals: Totals, before: Levels | None, now: Levels, step: float) -> None:
    """Add to the totals what lies between two samples that are `step` seconds apart, in a straight line. A step of 0
    adds no time, and makes known what can be known from now on."""
    then = before.workers if before and step else now.workers
    for total, (busy_then, up_then), (busy, up) in zip(totals.workers, then, now.workers, strict=True):
        if busy is not None:
            area = step * (busy_then + busy) / 2 if busy_then is not None else 0.0
            total.busy_seconds = (total.busy_seconds or 0.0) + area
        total.up_seconds += step * (up_then + up) / 2
    if before:
        totals.full_seconds += step * (before.is_full + now.is_full) / 2
