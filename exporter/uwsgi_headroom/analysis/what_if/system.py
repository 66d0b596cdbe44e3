"""A server as a queueing system: its resources, the work of its requests, and what a simulation of it gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The resources. others: CPUs that other programs use while the server is idle; they give up as much as an equal
    share takes from them."""

    processes: int
    threads: int
    cpus: float
    others: float = 0.0

    def list_speeds(self) -> list[float]:
        """The CPUs that one thread gets, by the number of threads that compute. Neighbours count as one thread for each
        CPU that they use, and as one at least."""
        neighbours = max(1.0, self.others)
        speeds = [1.0]
        for running in range(1, self.processes * self.threads + 1):
            fair = self.cpus * neighbours / (running + neighbours)
            speeds.append(min(1.0, (self.cpus - min(self.others, fair)) / running))
        return speeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A mean request: seconds of CPU under the interpreter lock and outside of it, and of waiting.

    pauses: how many times it waits, at least 1; it computes before and after each. factors: a request takes the mean
    times one of these, equally likely; their mean is 1.
    """

    locked: float
    unlocked: float
    waiting: float
    pauses: int = 1
    factors: tuple[float, ...] = (1.0,)

    def bound_throughput(self, system: System) -> float:
        """Requests per second that no server exceeds: the threads or the CPUs are then always in use (P. J. Denning, J.
        P. Buzen, Computing Surveys 10 (3), 1978)."""
        computing = self.locked + self.unlocked
        by_threads = system.processes * system.threads / (computing + self.waiting)
        return min(by_threads, system.cpus / computing) if computing else by_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Rates per second and times in seconds, after a warm-up.

    service: each completed request's seconds with its thread; total: the same with the listen queue. busy: mean threads
    in service; locks: mean locks held; lock_waiters: mean threads that wait for one; computing: mean CPUs used.
    """

    throughput: float
    service: tuple[float, ...]
    total: tuple[float, ...]
    busy: float
    locks: float
    lock_waiters: float
    computing: float
