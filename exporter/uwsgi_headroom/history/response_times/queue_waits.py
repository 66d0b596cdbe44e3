"""Follows the requests in listen queues from sample to sample: how long each waited, and how long the oldest has.

A listen queue is first in, first out. Between two samples, some of the connections that the first one saw have left it;
if all of them have, more came and left unseen, as many as uWSGI accepted besides (a finished request, or one more in
service, was accepted); and those that only the second one saw have come. Where in that time each came and left follows
from its place: the i-th of n that are spread evenly came after i / (n + 1) of it. So a wait is known to within the time
between two samples at each end, and better in a queue that moves steadily. Of TCP connections, the kernel says it.

Where the kernel does not list the connections, the length of the queue and uWSGI's count stand for them: what it
accepted left first. Requests that uWSGI does not count, such as those of a worker that was killed, then seem to wait.

uWSGI does not say from which of several sockets it accepted. With `map-socket` it follows from the worker, if that one
serves no other socket. Otherwise, what came and left unseen is taken to be of the socket that moves most: a request at
any other socket waits for the same threads, and would be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.estimator import Division, add_parts
from uwsgi_headroom.history.response_times.totals import BatchHistory, ResponseTimeWindow
from uwsgi_headroom.record import Backlog, Waiting

MOST_FOLLOWED = 10_000
"""Most requests in the queues of a server that are followed: uWSGI's document may have any number."""

_UNSEEN_PARTS = 20
"""Into how many equal parts the requests that nobody saw between two samples are divided, at most."""


class Left(NamedTuple):
    """Requests that left a queue, and for how many seconds each had waited: None if it is not known when they came."""

    seconds: float | None
    number: float


class _Waits(NamedTuple):
    """A request in a queue: what identifies it (None: unknown), and since when, at least, it waits (monotonic
    seconds)."""

    key: int | None
    since: float
    is_certain: bool = True


class _Step(NamedTuple):
    """What happened in one queue between two samples: who left, who is still there, and who has come, in order; with
    the time since when each waits, None if that is unknown."""

    left: list[_Waits]
    stays: list[_Waits]
    came: list[tuple[int | None, float | None]]


class QueueFollower:
    """Follows the requests in the queues of one server. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._queues: dict[str, list[_Waits]] = {}
        self._at = 0.0

    def oldest(self) -> dict[str, float]:
        """For how many seconds the oldest request in each queue had waited at the last sample, 0 in an empty one, by
        socket name; without queues that are not measured, or if they are too long. A request that waited before the
        first sample may have waited longer, if the kernel does not say since when."""
        return {
            name: max(0.0, self._at - min([each.since for each in queue], default=self._at))
            for name, queue in self._queues.items()
        }

    def follow(
        self,
        at: float,
        step: float,
        queues: Mapping[str, Backlog],
        listed: Mapping[str, Waiting],
        accepted: int,
        own: Mapping[str, int] | None = None,
    ) -> list[Left]:
        """Take a sample, and return the requests that have left a queue since the last one; those that found it empty
        are left out. step: since the last sample, 0 if that was too long ago; accepted: requests since then; own: those
        of them that came from a socket whose workers serve no other, by socket."""
        before, self._at = self._queues, at
        lengths = {name: backlog.queue or 0 for name, backlog in queues.items() if backlog.queue is not None}
        if not any(before.values()) and not any(lengths.values()):
            self._queues = {name: [] for name in lengths}
            return []
        self._queues = {}
        if sum(lengths.values()) > MOST_FOLLOWED:
            return []
        own = own or {}
        unseen = {**own, "": max(0, accepted - sum(own.values()))}  # "": from any of the other sockets
        steps: dict[str, _Step] = {}
        # What is listed is certain, so it comes first.
        for name in sorted(lengths, key=lambda name: (name not in listed, -len(before.get(name, ())))):
            length, waiting, source = lengths[name], listed.get(name), name if name in own else ""
            if length == 0 or (waiting and waiting.is_complete):
                connections = waiting.connections if length and waiting else ()
                steps[name] = _compare(before.get(name, []), connections, unseen[source], at, step)
            else:
                steps[name] = _count(before.get(name, []), length, unseen[source], waiting, at)
            unseen[source] = max(0, unseen[source] - len(steps[name].left))
        movable = [name for name, each in steps.items() if not each.stays and name not in own]
        busiest = max(movable, key=lambda name: len(steps[name].left) + len(steps[name].came), default=None)
        gone: list[Left] = []
        for name, each in steps.items():
            passed = unseen[""] if name == busiest else unseen[name] if name in own and not each.stays else 0
            if step:
                gone += _time_left(each, passed, at, step)
            self._queues[name] = each.stays + _time_came(each, passed, at, step)
        return gone


def _compare(
    before: list[_Waits], connections: Sequence[tuple[int, float | None]], accepted: int, at: float, step: float
) -> _Step:
    """Compare a queue with the list of all its connections at the next sample."""
    known = {each.key: each for each in before if each.key is not None}
    if len(known) < len(before) and connections and connections[0][1] is None:  # the last list was not complete
        counted = _count(before, len(connections), accepted, None, at)
        stays = [each._replace(key=key) for each, (key, _) in zip(counted.stays, connections, strict=False)]
        return _Step(counted.left, stays, list(connections[len(stays) :]))
    stays = []
    came: list[tuple[int | None, float | None]] = []
    for key, age in connections:
        since = None if age is None else at - age
        earlier = known.pop(key, None)
        if earlier:  # data that came later make a connection seem younger
            stays.append(earlier if since is None or since > earlier.since else _Waits(key, since))
        elif since is not None and since < at - step:
            stays.append(_Waits(key, since))
        else:
            came.append((key, since))
    left = [each for each in before if each.key is None or each.key in known]
    return _Step(left[: max(0, len(before) - len(stays))], stays, came)


def _count(before: list[_Waits], length: int, accepted: int, waiting: Waiting | None, at: float) -> _Step:
    """Compare a queue with its length at the next sample, and with a part of its connections."""
    leaving = min(len(before), max(accepted, len(before) - length))
    stays = before[leaving:]
    if waiting and waiting.connections and waiting.connections[0][1] is not None:
        oldest = at - waiting.connections[0][1]
        stays = [_Waits(each.key, min(each.since, oldest)) for each in stays[:1]] + stays[1:]
    return _Step(before[:leaving], stays, [(None, None)] * (length - len(stays)))


def _time_left(step: _Step, passed: int, at: float, seconds: float) -> list[Left]:
    """How long those that left had waited, and those that came and left unseen (`passed`)."""
    first, leaving, coming = at - seconds, len(step.left) + passed + 1, len(step.came) + passed + 1
    gone = [
        Left(max(0.0, first + seconds * place / leaving - each.since) if each.is_certain else None, 1.0)
        for place, each in enumerate(step.left, 1)
    ]
    parts = min(passed, _UNSEEN_PARTS) if step.left or step.came else 0
    for part in range(parts):
        place = (part + 0.5) * passed / parts + 0.5
        waited = seconds * ((len(step.left) + place) / leaving - place / coming)
        gone.append(Left(max(0.0, waited), passed / parts))
    return gone


def _time_came(step: _Step, passed: int, at: float, seconds: float) -> list[_Waits]:
    coming = len(step.came) + passed + 1
    return [
        _Waits(key, at - seconds * (1 - place / coming), seconds > 0) if since is None else _Waits(key, since)
        for place, (key, since) in enumerate(step.came, passed + 1)
    ]


class BatchWaits:
    """The requests of a batch by how long they waited in a listen queue; known, unknown: of how many that is so."""

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._waited: list[float] = []  # by bin, empty if none did
        self.known = self.unknown = 0.0

    def add(self, left: Sequence[Left], accepted: int) -> None:
        """Add the requests that left a queue, of all that were accepted."""
        unknown = sum([each.number for each in left if each.seconds is None])
        self.unknown += unknown
        self.known += max(0.0, accepted - unknown)
        for seconds, number in left:
            if seconds is not None:
                self._waited = self._waited or [0.0] * len(self._bins)
                self._waited[self._bins.find(seconds)] += number

    def shares(self) -> list[tuple[float, float]]:
        """The waits in seconds, with the share of the requests that waited so long; none if none is known."""
        waited = sum(self._waited)
        if not waited:
            return []
        every = max(waited, self.known)
        shares = [(self._bins.middles[place], number / every) for place, number in enumerate(self._waited) if number]
        return [(0.0, 1 - waited / every), *shares]

    def end(self, history: BatchHistory, at: float, elapsed: float, interval: float) -> None:
        """Add the batch to the history of waits, unless nobody was seen waiting. Those of which nothing is known are
        its lost requests: they are lost to the percentiles. interval: seconds between two samples."""
        if self._waited or self.unknown:
            waits = _doubt(self._waited or [0.0] * len(self._bins), self._bins, interval)
            history.add(at, elapsed, interval, round(self.known), round(self.unknown), waits)


def _doubt(counts: Sequence[float], bins: Bins, interval: float) -> Division:
    """These requests by bin, with the doubt of waits that are known to within half an interval on both sides."""
    doubt = [0.0] * len(bins)
    for middle, number in zip(bins.middles, counts, strict=True):
        if number:
            low, high = max(0.0, middle - interval / 2), middle + interval / 2
            first, last = bins.find(low), bins.find(high)
            edges = [low, *bins.edges[first:last], high]
            parts = [(end - start) / (high - low) for start, end in pairwise(edges)]
            add_parts([0.0] * len(bins), doubt, first, parts, number)
    return Division(counts, doubt)


def count_all(history: BatchHistory, start: float, until: float, requests: int) -> ResponseTimeWindow | None:
    """All `requests` of a window by their wait: those of the batches that ended in it, and the others, which nobody saw
    waiting, in the first bin. None if nobody was seen waiting."""
    window, batches = history.window(start, until), history.slow_requests(start, until)
    if window is None or batches is None or not any(window.counts):
        return None
    waited = sum(window.counts)
    counts = [window.counts[0] + max(0.0, requests - batches.lost - waited), *window.counts[1:]]
    return replace(window, requests=round(sum(counts)), counts=counts)
