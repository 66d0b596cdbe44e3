"""Records the response times of one server: gathers what samples show into batches, and divides each among the bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from uwsgi_headroom.history.response_times.bins import share_bins
from uwsgi_headroom.history.response_times.estimator import Division, Estimator
from uwsgi_headroom.history.response_times.queue_waits import BatchWaits, Left
from uwsgi_headroom.history.response_times.sightings import Observer, Sightings
from uwsgi_headroom.history.response_times.totals import BatchHistory, MissCounter, Misses, ResponseTimeTotals
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

BATCH_SECONDS = 5.0
"""Longest time between the ends of two batches, where they have as many samples as the next bound."""

_BATCH_SAMPLES = 10
"""The samples of a batch where they are more than half a second apart: an estimate from few would not be better."""

_LONGEST_BATCH_SECONDS = 10.0

_LATE_SECONDS, _LATE_INTERVALS = 1.0, 3.0
"""Of the requests that ended before a sample later than both, little is known: they are divided like those of a gap."""


class Completed(NamedTuple):
    """Totals of a server at one sample. requests: completed ones, without static files; seconds: the sum of their
    response times; lost: requests that were lost with their workers; with_static: all completed requests, which have
    left a queue; queued: the integral of the length of the listen queues in seconds, None while none is measured;
    refused: connections that were dropped because a queue of this server was full. None: unknown."""

    requests: int = 0
    seconds: float | None = None
    lost: int = 0
    with_static: int = 0
    queued: float | None = None
    refused: int | None = None
    reloads: int = 0


class ResponseTimeRecorder:
    """The response times of one server. `totals` is None while uWSGI does not list threads. `misses` counts what missed
    an objective; None without one. threshold: of the objective, at which requests are separated."""

    def __init__(self, threshold: float | None = None) -> None:
        self._bins = share_bins(() if threshold is None else (threshold,))
        self.misses = None if threshold is None else MissCounter(threshold, self._bins)
        self._estimator = Estimator(self._bins)
        self._observer = Observer()
        self._sightings = Sightings()
        self.history = BatchHistory(self._bins)
        self.wait_history = BatchHistory(self._bins)  # of the waits in listen queues: only batches in which there were
        self.totals: ResponseTimeTotals | None = None
        self._until = Completed()  # at the end of the last batch
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
        left: Sequence[Left] = (),
        accepted: int = 0,
        samples: int = 1,
    ) -> None:
        """Add a sample, or the last of several that equal each other, with no request in service. joined: whether this
        sample follows the last one without a gap and without a reload. left: the requests that left a queue since the
        last one, of `accepted` in all."""
        if any(worker.threads is None for worker in workers):
            self.totals = None
            return
        if not workers:  # uWSGI has not created them yet
            return
        if self.totals is None:
            self.totals = ResponseTimeTotals(self._bins, [0.0] * len(self._bins), [0] * len(self._bins))
            self._until, self._began, joined = completed, reading.at, False
        step = self._take(reading, workers, joined=joined, samples=samples)
        if joined:
            self._waits.add(left, accepted)
        else:
            self._waits.unknown += accepted
        longest = max(BATCH_SECONDS, min(_LONGEST_BATCH_SECONDS, _BATCH_SAMPLES * step))
        if reading.at - self._began + min(step, longest) > longest:
            self._end_batch(self.totals, reading.at, completed)

    def follow(self, reading: Reading, workers: tuple[Worker, ...]) -> None:
        """Add what a sample between two others shows, which follows the last one without a gap and without a reload."""
        known = all(worker.threads is not None for worker in workers)
        if self.totals is not None and workers and known and reading.at > self._before:
            self._take(reading, workers, joined=True)

    def _take(self, reading: Reading, workers: tuple[Worker, ...], *, joined: bool, samples: int = 1) -> float:
        """Take what a sample shows of single requests. Returns the time since the one before."""
        elapsed, self._before = reading.at - self._before, reading.at
        step = elapsed / samples
        self._joined_seconds += elapsed if joined else 0.0
        if joined and step <= max(_LATE_SECONDS, _LATE_INTERVALS * self._interval):
            self._observer.follow(reading, workers, self._sightings)
            self._samples += samples
            self._sampled_seconds += elapsed
        else:
            self._observer.restart(reading, workers)
        return step

    def _end_batch(self, totals: ResponseTimeTotals, at: float, now: Completed) -> None:
        before, elapsed = self._until, at - self._began
        requests, lost = now.requests - before.requests, now.lost - before.lost
        seconds = None if now.seconds is None or before.seconds is None else now.seconds - before.seconds
        if self._samples:
            self._interval = self._sampled_seconds / self._samples
        interval = self._interval if self._interval < math.inf else elapsed
        batch = Division((), ())
        if requests > 0:
            batch = self._estimator.add(self._sightings, requests, seconds, elapsed, interval)
            totals.add(requests, batch)
        else:  # -1 if uWSGI has counted a static file, but not yet its request
            now, requests = now._replace(requests=before.requests), 0
        totals.seconds += max(0.0, seconds or 0.0)  # a sum over other workers may be less by a rounding error
        totals.lost += lost
        misses = self._count_misses(requests, batch, now, elapsed)
        self.history.add(at, elapsed, interval, requests, lost, batch, misses, seconds)
        self._until, self._began, self._sightings = now, at, Sightings()
        self._samples, self._sampled_seconds, self._joined_seconds = 0, 0.0, 0.0
        self._waits.end(self.wait_history, at, elapsed, interval)
        self._waits = BatchWaits(self._bins)

    def _count_misses(self, requests: int, batch: Division, now: Completed, elapsed: float) -> Misses:
        if self.misses is None:
            return Misses()
        before = now.refused if self._until.refused is None else self._until.refused
        return self.misses.add(
            requests,
            batch.counts,
            lost=now.lost - self._until.lost,
            refused=max(0, (now.refused or 0) - (before or 0)),
            waits=self._waits.shares() or [(self._queue_wait(now, elapsed), 1.0)],
            overdue=self._observer.count_longer(self.misses.threshold),
            joined=now.reloads == self._until.reloads,
        )

    def _queue_wait(self, now: Completed, elapsed: float) -> float:
        """Little's law on the listen queues in a batch, as in `analysis.littles_law`; 0 if it is unknown."""
        left = now.with_static - self._until.with_static
        if now.queued is None or self._until.queued is None or not self._joined_seconds or left <= 0:
            return 0.0
        length = max(0.0, now.queued - self._until.queued) / self._joined_seconds
        return length * elapsed / left
