"""Records the response times of one server: gathers what samples show into batches, and divides each among the bins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from uwsgi_headroom.reading import Reading
from uwsgi_headroom.response_times.bins import share_bins
from uwsgi_headroom.response_times.estimator import Division, Estimator
from uwsgi_headroom.response_times.queue_waits import BatchWaits, Left
from uwsgi_headroom.response_times.sightings import Observer, Sightings
from uwsgi_headroom.response_times.totals import BatchHistory, MissCounter, Misses, ResponseTimeTotals
from uwsgi_headroom.stats.server import Worker

BATCH_SECONDS = 5.0
"""Longest time between the ends of two batches, where they have as many samples as the next bound."""

_BATCH_SAMPLES = 10
"""The samples of a batch where they are more than half a second apart: an estimate from few would not be better."""

_LONGEST_BATCH_SECONDS = 10.0

_LATE_SECONDS, _LATE_INTERVALS = 1.0, 3.0
"""A sample later than both after the one before says little of the requests that ended meanwhile: they are divided like
those of a gap."""


class Completed(NamedTuple):
    """Totals of a server: completed requests without static ones, the sum of their response times in seconds (None if
    unknown), requests that were lost with their workers, and all completed requests, which have left a queue."""

    requests: int
    seconds: float | None
    lost: int
    with_static: int = 0


class Queued(NamedTuple):
    """Totals of the listen queues of a server: the integral of their length in seconds (None while no queue is
    measured), and connections that were dropped because a queue of this server was full (None if unknown)."""

    seconds: float | None = None
    refused: int | None = None


class ResponseTimeRecorder:
    """The response times of one server. `totals` is None while uWSGI does not list threads: without them nothing is
    known. `misses` counts what missed an objective; None without one. bounds: response times in seconds at which
    requests are separated, besides those of the histogram; threshold: that of the objective, one of them."""

    def __init__(self, bounds: Iterable[float] = (), threshold: float | None = None) -> None:
        self._bins = share_bins(tuple(bounds))
        self.misses = None if threshold is None else MissCounter(threshold, self._bins)
        self._estimator = Estimator(self._bins)
        self._observer = Observer()
        self._sightings = Sightings()
        self.history = BatchHistory(self._bins)
        self.wait_history = BatchHistory(self._bins)  # of the waits in listen queues: only batches in which there were
        self.totals: ResponseTimeTotals | None = None
        self._until = Completed(0, None, 0)  # at the end of the last batch
        self._queued = Queued()  # at the end of the last batch
        self._reloads = 0  # at the end of the last batch
        self._began = self._before = 0.0
        self._samples, self._sampled_seconds = 0, 0.0  # of the present batch, and the time before each but late ones
        self._joined_seconds = 0.0  # of the present batch, without gaps
        self._interval = math.inf  # of the last batch with samples
        self._waits = BatchWaits(self._bins)

    def add(
        self,
        reading: Reading,
        workers: tuple[Worker, ...],
        completed: Completed,
        *,
        joined: bool,
        queued: Queued = Queued(),  # noqa: B008 - a constant
        reloads: int = 0,
        left: Sequence[Left] = (),
        accepted: int = 0,
    ) -> None:
        """Add a sample. joined: whether this sample follows the last one without a gap and without a reload.
        completed, queued, reloads: the totals until this sample. left: the requests that left a queue since the last
        one, of `accepted` in all."""
        if any(worker.threads is None for worker in workers):
            self.totals = None
            return
        if not workers:  # uWSGI has not created them yet
            return
        if self.totals is None:
            self.totals = ResponseTimeTotals(self._bins, [0.0] * len(self._bins), [0] * len(self._bins))
            self._until, self._began, joined = completed, reading.at, False
            self._queued, self._reloads = queued, reloads
        step = self._take(reading, workers, joined=joined)
        if joined:
            self._waits.add(left, accepted)
        else:
            self._waits.unknown += accepted
        longest = max(BATCH_SECONDS, min(_LONGEST_BATCH_SECONDS, _BATCH_SAMPLES * step))
        if reading.at - self._began + min(step, longest) > longest:
            self._end_batch(self.totals, reading.at, completed, queued, reloads)

    def follow(self, reading: Reading, workers: tuple[Worker, ...]) -> None:
        """Add what a sample between two others shows, which follows the last one without a gap and without a reload."""
        known = all(worker.threads is not None for worker in workers)
        if self.totals is not None and workers and known and reading.at > self._before:
            self._take(reading, workers, joined=True)

    def _take(self, reading: Reading, workers: tuple[Worker, ...], *, joined: bool) -> float:
        """Take what a sample shows of single requests. Returns the time since the one before."""
        step, self._before = reading.at - self._before, reading.at
        self._joined_seconds += step if joined else 0.0
        if joined and step <= max(_LATE_SECONDS, _LATE_INTERVALS * self._interval):
            self._observer.follow(reading, workers, self._sightings)
            self._samples += 1
            self._sampled_seconds += step
        else:
            self._observer.restart(reading, workers)
        return step

    def _end_batch(
        self, totals: ResponseTimeTotals, at: float, completed: Completed, queued: Queued, reloads: int
    ) -> None:
        requests = completed.requests - self._until.requests
        seconds = None
        if completed.seconds is not None and self._until.seconds is not None:
            seconds = completed.seconds - self._until.seconds
        lost = completed.lost - self._until.lost
        elapsed = at - self._began
        if self._samples:
            self._interval = self._sampled_seconds / self._samples
        interval = self._interval if self._interval < math.inf else elapsed
        batch = Division((), ())
        if requests > 0:
            batch = self._estimator.add(self._sightings, requests, seconds, elapsed, interval)
            totals.add(requests, batch)
        else:  # -1 if uWSGI has counted a static file, but not yet its request
            completed = completed._replace(requests=self._until.requests)
        totals.seconds += max(0.0, seconds or 0.0)  # a sum over other workers may be less by a rounding error
        totals.lost += lost
        missed = self._count_misses(max(0, requests), batch, lost, elapsed, completed, queued, reloads)
        self.history.add(at, elapsed, interval, max(0, requests), lost, batch, missed, seconds)
        self._until, self._began, self._sightings = completed, at, Sightings()
        self._queued, self._reloads = queued, reloads
        self._samples, self._sampled_seconds, self._joined_seconds = 0, 0.0, 0.0
        self._waits.end(self.wait_history, at, elapsed, interval)
        self._waits = BatchWaits(self._bins)

    def _count_misses(
        self,
        requests: int,
        batch: Division,
        lost: int,
        elapsed: float,
        completed: Completed,
        queued: Queued,
        reloads: int,
    ) -> Misses:
        if self.misses is None:
            return Misses()
        refused = (queued.refused or 0) - (self._queued.refused or 0)
        return self.misses.add(
            requests,
            batch.counts,
            lost=lost,
            refused=max(0, refused) if self._queued.refused is not None else 0,
            waits=self._waits.shares() or [(self._queue_wait(elapsed, completed, queued) or 0.0, 1.0)],
            overdue=self._observer.count_longer(self.misses.threshold),
            joined=reloads == self._reloads,
        )

    def _queue_wait(self, elapsed: float, completed: Completed, queued: Queued) -> float | None:
        """Little's law on the listen queues in a batch, as in `analysis.littles_law`; None if it is unknown."""
        left = completed.with_static - self._until.with_static
        if queued.seconds is None or self._queued.seconds is None or not self._joined_seconds or left <= 0:
            return None
        length = max(0.0, queued.seconds - self._queued.seconds) / self._joined_seconds
        return length * elapsed / left
