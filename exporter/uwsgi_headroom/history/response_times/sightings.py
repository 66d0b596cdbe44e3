"""What samples show of each request: when it began and ended, to within the time between two samples.

uWSGI's document says for each thread whether it serves a request, and how many it has completed. A request that was in
service at the samples j to m, and neither before nor after, began between the samples j-1 and j and ended between m and
m+1: its response time is censored to an interval. The thread's count separates it from the next request. A request that
began and ended between two samples was not seen; the count says how many those were. If a worker completed exactly one
request between two samples, the growth of its running time is that request's response time.

A request that ended without having been counted is left out, as it is by uWSGI: it was lost with its worker, or its
client sent no complete request. So is the end of a request whose thread still writes the log: it was counted before.
If the same thread completes its next request before the next sample, samples take both for one long request. The growth
of the worker's running time, which contains every completed request, shows that they were two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

if TYPE_CHECKING:  # `analysis` takes windows of response times, and loads nothing that reads a server
    from uwsgi_headroom.reading import Reading
    from uwsgi_headroom.stats.server import Worker

UNSEEN = -1.0


class Sighting(NamedTuple):
    """What samples saw of a request, rounded, in seconds. between: from the first sample that saw it to the last, or
    UNSEEN if none did; gap: the mean length of the gaps between samples in which it began and ended."""

    between: float
    gap: float

    @property
    def sampled_seconds(self) -> float:
        """The number of samples that saw the request, times the gap between them: on average, its response time."""
        return 0.0 if self.between == UNSEEN else self.between + self.gap

    def rounded(self, coarseness: float = 1.0) -> Sighting:
        """This kind with lengths rounded to an eighth of the gap, or to a sixteenth of a long time, times the
        coarseness. The gap is first rounded down to a power of two, so that equal gaps round alike."""
        grain = coarseness * 2.0 ** (math.frexp(self.gap)[1] - 4)
        step = grain
        while self.between > 16 * step:
            step *= 2
        between = self.between if self.between == UNSEEN else round(self.between / step) * step
        return Sighting(between, max(1, round(self.gap / grain)) * grain)


class Sightings(Struct):
    """Completed requests of some time, without static ones: response times in seconds, and the number of those that are
    known to within an interval."""

    exact: list[float] = field(default_factory=list)
    kinds: Counter[Sighting] = field(default_factory=Counter)


class _Began(Struct, frozen=True, eq=False):
    """When a request in service began: after `after`, which is -inf if that is unknown, and before `before`, the first
    sample that saw it. Requests that began between the same two samples share it, so that they are counted together
    when they end."""

    after: float
    before: float


_SLACK = 0.005
"""Seconds by which the running time of a request may differ from what samples saw of it: uWSGI's clock, rounding."""

_SLOWER = 1.1
"""How much slower uWSGI's clock may run than the exporter's. chrony slews by a twelfth at most."""


class Observer:
    """Follows the requests of one server from sample to sample. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._workers: tuple[Worker, ...] = ()
        self._in_service: list[dict[int, _Began]] = []
        self._written_after = 0.0  # the last document was written after this, and before `_written_before`
        self._written_before = 0.0

    def restart(self, reading: Reading, workers: tuple[Worker, ...]) -> None:
        """Begin anew with a sample, after a gap or a reload. Requests in service that were so before keep their
        beginning; other ones began at a time that is known to the second at best."""
        before, known = self._workers, self._in_service
        self._note(reading, workers)
        self._in_service = [
            {thread: self._find_beginning(reading, start) for thread, start in worker.serving.items()}
            for worker in workers
        ]
        for then, worker, earlier, in_service in zip(before, workers, known, self._in_service, strict=False):
            in_service.update({thread: earlier[thread] for thread in _find_same(then, worker, earlier)})

    def count_longer(self, seconds: float) -> int:
        """The requests in service at the last sample that had been so for longer than this."""
        latest = self._written_after - seconds
        return sum([began.before < latest for in_service in self._in_service for began in in_service.values()])

    def _find_beginning(self, reading: Reading, start: int | None) -> _Began:
        """When a request began that uWSGI says to have begun at `start`. It does not say so before 2.0.14; and a start
        in the future shows that its clock differs from the exporter's."""
        after = -math.inf if start is None else reading.at - (reading.time - start)
        if -math.inf < after <= self._written_before:
            return _Began(after, min(after + 1.0, self._written_before))
        return _Began(-math.inf, self._written_before)

    def follow(self, reading: Reading, workers: tuple[Worker, ...], into: Sightings) -> None:
        """Add the requests that ended since the last sample, which was of the same workers."""
        before, after = self._workers, self._written_after
        self._note(reading, workers)
        now = _Began(after, self._written_before)
        ended: Counter[_Began] = Counter()
        for then, worker, in_service in zip(before, workers, self._in_service, strict=True):
            if worker is not then:
                completed = _follow_worker(then, worker, in_service, now)
                _add_completed(then, worker, completed, now, ended, into)
        gap = now.before - now.after
        for began, number in ended.items():
            between, began_within = max(0.0, after - began.before), began.before - began.after
            if began_within < math.inf:  # otherwise it is divided like requests without a sighting
                into.kinds[Sighting(between, (began_within + gap) / 2).rounded()] += number

    def _note(self, reading: Reading, workers: tuple[Worker, ...]) -> None:
        self._workers = workers
        self._written_after = reading.at - reading.read_seconds
        self._written_before = reading.at - reading.transfer_seconds


def _follow_worker(then: Worker, now: Worker, in_service: dict[int, _Began], since: _Began) -> list[_Began]:
    """Update the requests in service of a worker, by thread. Returns those that were in service at the last sample and
    have been completed since. since: the time between the two samples."""
    counts_then, counts_now, serving = then.thread_requests, now.thread_requests, now.serving
    ended: list[_Began] = []
    if now.pid != then.pid or len(counts_now) != len(counts_then):
        # Unless all requests that were completed are those of the worker's next process.
        completed, of_successor = (now.requests or 0) - (then.requests or 0), now.requests_since_spawn or 0
        if len(counts_now) == len(counts_then) and (not now.pid or completed > of_successor):
            ended = [began for thread, began in in_service.items() if counts_now[thread] > counts_then[thread]]
        in_service.clear()
    elif in_service:
        for thread, began in list(in_service.items()):
            grown = counts_now[thread] - counts_then[thread]
            if not grown and thread in serving and _have_equal_starts(then.serving.get(thread), serving[thread]):
                continue  # the same request
            del in_service[thread]
            if grown > 0:
                ended.append(began)
    if len(in_service) < len(serving):
        for thread in serving:
            in_service.setdefault(thread, since)
    return ended


def _find_same(then: Worker, now: Worker, in_service: Collection[int]) -> list[int]:
    """The threads of a worker that still serve the same request as at an earlier sample, of those in service then."""
    counts_then, counts_now = then.thread_requests, now.thread_requests
    if now.pid != then.pid or len(counts_now) != len(counts_then):
        return []
    return [
        thread
        for thread in in_service
        if thread in now.serving
        and counts_now[thread] == counts_then[thread]
        and _have_equal_starts(then.serving.get(thread), now.serving[thread])
    ]


def _have_equal_starts(before: int | None, start: int | None) -> bool:
    """Whether two requests may be the same by when uWSGI says that they began. A request whose client sent nothing
    ends uncounted, and its thread may serve the next one at the next sample."""
    return before is None or start is None or before == start


def _add_completed(
    then: Worker, now: Worker, ended: list[_Began], since: _Began, into_ended: Counter[_Began], into: Sightings
) -> None:
    """Add the requests that a worker has completed between two samples. ended: those that the first of them saw."""
    completed = max(0, (now.requests or 0) - (then.requests or 0))
    if not completed:
        return
    static = max(0, (now.static_requests or 0) - (then.static_requests or 0))
    gap = since.before - since.after
    running = round((now.running_time or 0.0) - (then.running_time or 0.0), 6)  # uWSGI counts microseconds
    if completed == 1 and not static:
        longest = since.before - ended[0].after if ended else gap
        if 0 < running <= longest + _SLACK:
            into.exact.append(running)
            return
    contained, held = _split_by_running_time(ended, running, since)
    unseen = completed - static - len(contained)
    if unseen < 0:  # some of those that were seen are static: most likely the shortest
        contained = contained[-unseen:]
    for began in held:
        longest = since.before - began.after
        if unseen > 0 and longest < math.inf:
            into.kinds[Sighting(UNSEEN, longest).rounded()] += 1
            unseen -= 1
    if unseen > 0:
        into.kinds[Sighting(UNSEEN, gap).rounded()] += unseen
    into_ended.update(contained)


def _split_by_running_time(ended: list[_Began], running: float, since: _Began) -> tuple[list[_Began], list[_Began]]:
    """Split the requests that ended into those that the growth of their worker's running time contains, the shortest
    first, and the others, whose threads were held before they began: by a client that sent nothing, a static file, or a
    log line. A running time that did not grow was written just before a request was added to it."""
    ended = sorted(ended, key=lambda began: began.before, reverse=True)
    if not running > 0:
        return ended, []
    left = _SLOWER * running + _SLACK
    for place, began in enumerate(ended):
        left -= max(0.0, since.after - began.before)
        if left < 0:
            return ended[:place], ended[place:]
    return ended, []
