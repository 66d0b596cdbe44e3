"""What has been counted of a server and its workers: totals that only grow. `integrals` makes them grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

Number = TypeVar("Number", int, float)

OCCUPANCY_BOUNDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)
"""Upper bounds of the histogram of busy / available threads; 0.99 sets "all of them" apart from "nearly all"."""


@dataclass(slots=True)
class WorkerTotals:
    """One worker slot since the exporter's first sample of it. Counts, and times in seconds.

    busy_seconds: over all its threads; up_seconds: time it accepted requests; resident_bytes alone is a level, the
    latest. lost: requests that were in service when the worker's process ended and have not been counted since, at
    least. residency: CPU seconds by CPU. None where uWSGI or the kernel never said. running_time_since and cpu_since:
    the monotonic instants from which on they have always said; None while they do not. children_cpu_seconds: of
    processes that it started and waited for.
    """

    requests: int = 0
    static_requests: int = 0
    running_time: float | None = None
    busy_seconds: float | None = None
    up_seconds: float = 0.0
    cpu_seconds: float | None = None
    resident_bytes: int | None = None
    running_time_since: float | None = None
    cpu_since: float | None = None
    exceptions: int = 0
    harakiris: int = 0
    respawns: int = 0
    lost: int = 0
    residency: dict[int, float] = field(default_factory=dict)
    children_cpu_seconds: float = 0.0


@dataclass(slots=True)
class CpuTotals:
    """CPU seconds where a server could use CPU (`kernel.server_cpu`), over measured_seconds: own, of its workers and
    the processes they waited for; idle; and others, of anything else. Together they are the capacity.

    since, others_since: the monotonic instants from which on they, and others_seconds, have always been known; None
    while they are not.
    """

    measured_seconds: float = 0.0
    own_seconds: float = 0.0
    idle_seconds: float = 0.0
    others_seconds: float = 0.0
    since: float | None = None
    others_since: float | None = None


@dataclass(slots=True)
class Totals:
    """One server since the exporter's first attempt to read it.

    observed_seconds is covered by samples and gap_seconds is not; together they are all the time since. full_seconds:
    every available thread was busy. workers and sockets are those that uWSGI lists now. occupancy counts samples by
    `OCCUPANCY_BOUNDS`, the last one those above all. queue_full_seconds: time in which a queue was at its limit;
    queue_since: from when on it has always been measured. overflows: connections that found a TCP queue of the network
    namespace full, None where that is not known. configured and available alone are levels, the latest: threads, None
    where uWSGI names none. cpu: None until the kernel has said something.
    """

    samples: int = 0
    observed_seconds: float = 0.0
    gap_seconds: float = 0.0
    full_seconds: float = 0.0
    reloads: int = 0
    occupancy: list[int] = field(default_factory=lambda: [0] * (len(OCCUPANCY_BOUNDS) + 1))
    occupancy_sum: float = 0.0
    configured: int | None = None
    available: int | None = None
    workers: list[WorkerTotals] = field(default_factory=list)
    overflows: int | None = None
    queue_seconds: dict[str, float] = field(default_factory=dict)
    queue_full_seconds: dict[str, float] = field(default_factory=dict)
    queue_since: dict[str, float] = field(default_factory=dict)
    cpu: CpuTotals | None = None


def sum_if_all_known(values: Sequence[Number | None]) -> Number | None:
    """The sum, or None if there is nothing to sum or a part of it is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def copy_totals(totals: Totals) -> Totals:
    """The totals as they are now; the original goes on growing."""
    return replace(
        totals,
        workers=[replace(worker) for worker in totals.workers],
        occupancy=list(totals.occupancy),
        queue_seconds=dict(totals.queue_seconds),
        queue_full_seconds=dict(totals.queue_full_seconds),
        queue_since=dict(totals.queue_since),
        cpu=None if totals.cpu is None else replace(totals.cpu),
    )
