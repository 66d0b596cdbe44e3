"""Serves the requests of a stretch of a day one by one, as uWSGI does: any free thread takes the next of one queue.

A request computes first, one at a time in each interpreter, and waits for something else then, so that its end is known
when it starts. While the whole server is reloaded no request starts; a restart also refuses new ones. The threads of a
worker that is away take none.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import NamedTuple

import numpy as np

from tools.bench.days.healthy import QUEUE, Array, Away, Day


class Served(NamedTuple):
    """The accepted requests in the order of their arrival, and the arrivals of those that were refused."""

    arrivals: Array
    starts: Array
    computed: Array
    """The time at which each has finished computing."""
    ends: Array
    computing: Array
    """Seconds on the CPU."""
    workers: Array
    refused: Array


def serve(  # noqa: PLR0912, PLR0915 - one loop over all requests: a call for each would double its time
    day: Day, arrivals: Array, computing: Array, rest: Array, chance: np.random.Generator
) -> Served:
    """Serves requests. computing, rest: seconds of each on the CPU, and in other waits."""
    free = [worker for _ in range(day.threads) for worker in range(day.processes)]
    choices = None if day.keen else chance.random(len(arrivals)).tolist()
    interpreters = [0.0] * day.processes
    busy: list[tuple[float, int]] = []  # when a thread can take another request, and its worker
    later: deque[float] = deque()  # the starts of the requests that wait
    whole = deque(away for away in day.away if away.worker is None)
    single = deque(away for away in day.away if away.worker is not None)
    first = float(arrivals[0]) if len(arrivals) else 0.0
    while single and single[0].end <= first:
        single.popleft()
    next_away = single[0].start if single else inf
    next_closed = whole[0].start if whole else inf
    starts, computed, ends, workers, kept, refused = [], [], [], [], [], []
    for number, (now, cpu, wait) in enumerate(zip(arrivals.tolist(), computing.tolist(), rest.tolist(), strict=True)):
        while now >= next_away:
            _take_away(free, busy, single.popleft())
            next_away = single[0].start if single else inf
        while busy and busy[0][0] <= now:
            free.append(heappop(busy)[1])
        while later and later[0] <= now:
            later.popleft()
        while now >= next_closed and now >= whole[0].end:
            whole.popleft()
            next_closed = whole[0].start if whole else inf
        if len(later) > QUEUE or (now >= next_closed and whole[0].kind == "restart"):
            refused.append(now)
            continue
        if free:
            start = now
            if choices is not None:
                place = int(choices[number] * len(free))
                free[place], free[-1] = free[-1], free[place]
            worker, taken = free.pop(), False
        else:
            start, worker = busy[0]
            taken = True
        if next_closed <= start < whole[0].end:
            start = whole[0].end
        begin = max(interpreters[worker], start)
        done = interpreters[worker] = begin + cpu
        end = done + wait
        if taken:
            heapreplace(busy, (end, worker))
        else:
            heappush(busy, (end, worker))
        if start > now:
            later.append(start)
        kept.append(number)
        starts.append(start)
        computed.append(done)
        ends.append(end)
        workers.append(worker)
    accepted = np.array(kept, dtype=int)
    return Served(
        arrivals[accepted],
        np.array(starts),
        np.array(computed),
        np.array(ends),
        computing[accepted],
        np.array(workers, dtype=int),
        np.array(refused),
    )


def _take_away(free: list[int], busy: list[tuple[float, int]], away: Away) -> None:
    """Keeps the threads of a worker from requests until it is back. Those in service end as they would."""
    worker = away.worker or 0
    gone = free.count(worker)
    free[:] = [each for each in free if each != worker]
    busy[:] = [(max(end, away.end), each) if each == worker else (end, each) for end, each in busy]
    busy += [(away.end, worker)] * gone
    heapify(busy)
