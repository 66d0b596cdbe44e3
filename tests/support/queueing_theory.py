"""Exact long-run windows of servers under random load, from queueing theory, without simulation or noise.

Requests arrive at random (Poisson) at c threads behind a queue of q: M/M/c/(c + q), whose probabilities have a closed
form (L. Kleinrock, "Queueing Systems", volume 1, 1975, chapter 3). Other distributions of the service time multiply the
queue by (1 + cv²) / 2, cv being the coefficient of variation (A. O. Allen, J. L. Cunneen; exact for one thread).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import fsum

from tests.support.windows import window, worker
from uwsgi_headroom.history.window import Window

SOCKET = "app.sock"


@dataclass(frozen=True)
class Load:
    """A server and its load. threads: per worker; up: running workers, the others are cheaper mode's reserve; load:
    arrivals as a part of what the running threads can serve; seconds: mean time in service; cpu: the part of it on the
    CPU; queue: its limit."""

    workers: int
    threads: int
    load: float
    up: int
    seconds: float = 0.1
    cpu: float = 0.01
    cv: float = 1.0
    queue: int = 100

    @property
    def capacity(self) -> int:
        return self.up * self.threads

    def probabilities(self) -> list[float]:
        """The probability of each number of requests in the server, in service or waiting."""
        offered, weights = self.load * self.capacity, [1.0]
        for present in range(1, self.capacity + self.queue + 1):
            weights.append(weights[-1] * offered / min(present, self.capacity))
            if weights[-1] > 1e200:  # only ratios count
                weights = [weight / 1e200 for weight in weights]
        total = fsum(weights)
        return [weight / total for weight in weights]

    def window(self, length: float) -> Window:
        """The mean window of `length` seconds, with requests shared evenly by the workers."""
        probabilities = self.probabilities()
        capacity = self.capacity
        busy = fsum(min(present, capacity) * part for present, part in enumerate(probabilities))
        waiting = fsum((present - capacity) * part for present, part in enumerate(probabilities) if present > capacity)
        waiting = min(float(self.queue), waiting * (1 + self.cv**2) / 2)
        requests = length * busy / self.seconds
        rows = (
            worker(
                worker_id,
                round(requests / self.up) if worker_id <= self.up else 0,
                each=self.seconds,
                cpu=length * busy * self.cpu / self.seconds / self.up if worker_id <= self.up else 0.0,
                busy=length * busy / self.up if worker_id <= self.up else 0.0,
                up=None if worker_id <= self.up else 0.0,
            )
            for worker_id in range(1, self.workers + 1)
        )
        return replace(
            window(length, *rows, **{SOCKET: waiting * length}),
            full_seconds=length * fsum(probabilities[capacity:]),
            queue_full_seconds={SOCKET: length * probabilities[-1] if probabilities[-1] > 1e-6 else 0.0},
        )


def rising(load: Load, loads: list[float]) -> Iterator[Load]:
    """Yields the same server at each load."""
    return (replace(load, load=part) for part in loads)
