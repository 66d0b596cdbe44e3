"""Records the response times of one server: gathers what samples show into batches, and divides each among the bins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from uwsgi_headroom.reading import Reading
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.estimator import Division, Estimator
from uwsgi_headroom.response_times.sightings import Observer, Sightings
from uwsgi_headroom.response_times.totals import BatchHistory, ResponseTimeTotals
from uwsgi_headroom.stats.server import Worker

BATCH_SECONDS = 5.0
"""Longest time between the ends of two batches, where they have as many samples as the next bound."""

_BATCH_SAMPLES = 10
"""The samples of a batch where they are more than half a second apart: an estimate from few would not be better."""

_LONGEST_BATCH_SECONDS = 10.0


class Completed(NamedTuple):
    """Totals of a server: completed requests without static ones, the sum of their response times in seconds (None if
    unknown), and requests that were lost with their workers."""

    requests: int
    seconds: float | None
    lost: int


class ResponseTimeRecorder:
    """The response times of one server. `totals` is None while uWSGI does not list threads: without them nothing is
    known."""

    def __init__(self, bounds: Iterable[float] = ()) -> None:
        self._bins = Bins(bounds)
        self._estimator = Estimator(self._bins)
        self._observer = Observer()
        self._sightings = Sightings()
        self.history = BatchHistory(self._bins)
        self.totals: ResponseTimeTotals | None = None
        self._until = Completed(0, None, 0)  # at the end of the last batch
        self._began = self._before = 0.0
        self._samples, self._sampled_seconds = 0, 0.0  # of the present batch, and the time before each without gaps

    def add(self, reading: Reading, workers: tuple[Worker, ...], completed: Completed, *, joined: bool) -> None:
        """Add a sample. joined: whether this sample follows the last one without a gap and without a reload.
        completed: the totals until this sample."""
        if any(worker.threads is None for worker in workers):
            self.totals = None
            return
        if not workers:  # uWSGI has not created them yet
            return
        if self.totals is None:
            self.totals = ResponseTimeTotals(self._bins, [0.0] * len(self._bins), [0] * len(self._bins))
            self._until, self._began, joined = completed, reading.at, False
        step, self._before = reading.at - self._before, reading.at
        if joined:
            self._observer.follow(reading, workers, self._sightings)
            self._samples += 1
            self._sampled_seconds += step
        else:
            self._observer.restart(reading, workers)
        longest = max(BATCH_SECONDS, min(_LONGEST_BATCH_SECONDS, _BATCH_SAMPLES * step))
        if reading.at - self._began + min(step, longest) > longest:
            self._end_batch(self.totals, reading.at, completed)

    def _end_batch(self, totals: ResponseTimeTotals, at: float, completed: Completed) -> None:
        requests = completed.requests - self._until.requests
        seconds = None
        if completed.seconds is not None and self._until.seconds is not None:
            seconds = completed.seconds - self._until.seconds
        lost = completed.lost - self._until.lost
        elapsed = at - self._began
        interval = self._sampled_seconds / self._samples if self._samples else elapsed
        batch = Division((), ())
        if requests > 0:
            batch = self._estimator.add(self._sightings, requests, seconds, elapsed, interval)
            totals.add(requests, batch)
        else:  # -1 if uWSGI has counted a static file, but not yet its request
            completed = completed._replace(requests=self._until.requests)
        totals.seconds += max(0.0, seconds or 0.0)  # a sum over other workers may be less by a rounding error
        totals.lost += lost
        self.history.add(at, elapsed, interval, max(0, requests), lost, batch)
        self._until, self._began, self._sightings = completed, at, Sightings()
        self._samples, self._sampled_seconds = 0, 0.0
