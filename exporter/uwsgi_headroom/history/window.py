"""The growth of a server's totals between two instants of its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from uwsgi_headroom.history.rows import Growth, Row, WorkerGrowth, compare_rows
from uwsgi_headroom.history.totals import CpuTotals, Totals, WaitTotals, WorkerTotals
from uwsgi_headroom.kernel.waits.states import STATES, State


class WorkerWindow(Struct, frozen=True, gc=False):
    """One worker in a window: counts, and times in seconds. A figure is None unless known for the whole window.

    lost: requests in service at the end of the worker's process that it did not complete; a lower bound.
    resident_bytes: at the end of the window.
    resident_growth: since the start of the window; negative if the memory shrank.
    interpreter_lock_seconds: summed over the threads, the time in which they waited for the interpreter lock.
    """

    worker_id: int
    requests: int
    static_requests: int
    running_time: float | None
    busy_seconds: float | None
    up_seconds: float
    cpu_seconds: float | None
    respawns: int
    lost: int
    resident_bytes: int | None
    resident_growth: int | None
    interpreter_lock_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class WaitWindow:
    """What the request threads waited for, in seconds summed over the threads.

    seconds: by state, without those that are 0. backends: by name, of those that are configured.
    observed_seconds: the time that was sampled. disagreement_seconds: see `WaitTotals`.
    """

    observed_seconds: float
    disagreement_seconds: float
    seconds: Mapping[State, float]
    backends: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CpuWindow:
    """CPU seconds that the server could use: own, idle, and of others (None unless known for the whole window).

    measured_seconds: the length of the window to within a second, since the machine is read once a second.
    """

    measured_seconds: float
    own_seconds: float
    idle_seconds: float
    others_seconds: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """The growth of a server's totals between two instants of its history.

    asked: the requested length in seconds.
    seconds: the actual length, which is less if the history is younger or an outage is at the start of the window.
    until: the monotonic time of the window's end.
    observed_seconds, gap_seconds: time with and without samples.
    full_seconds: time in which every available thread was busy.
    overflows: how often a connection found a TCP queue of the network namespace full, of any program; None if unknown.
    queue_seconds: the integral of the listen queue's length, by socket; only sockets measured for the whole window.
    queue_full_seconds: for the same sockets, the time at the queue's limit.
    occupancy: counts of samples by `OCCUPANCY_BOUNDS`.
    configured, available: threads at the end of the window; None if unknown.
    cpu, waits: None unless known for the whole window.
    """

    asked: float
    seconds: float
    until: float
    observed_seconds: float
    full_seconds: float
    gap_seconds: float
    reloads: int
    exceptions: int
    harakiris: int
    respawns: int
    overflows: int | None
    workers: tuple[WorkerWindow, ...]
    queue_seconds: dict[str, float]
    queue_full_seconds: dict[str, float]
    occupancy: tuple[int, ...]
    configured: int | None
    available: int | None
    cpu: CpuWindow | None = None
    waits: WaitWindow | None = None


def window_between(latest: Totals, first: tuple[float, Row], last: tuple[float, Row], asked: float) -> Window:
    """The window between two rows. `latest` has the same workers and sockets, and the start of each known figure."""
    (at, start), (until, end) = first, last
    backends = latest.waits.backends if latest.waits else ()
    growth = compare_rows(start, end, len(latest.queue_seconds), len(backends))
    waits = _wait_window(at, latest.waits, growth)
    workers = zip(latest.workers, growth.workers, strict=True)
    return Window(
        asked=asked,
        seconds=until - at,
        until=until,
        observed_seconds=growth.observed_seconds,
        full_seconds=growth.full_seconds,
        gap_seconds=growth.gap_seconds,
        reloads=growth.reloads,
        exceptions=growth.exceptions,
        harakiris=growth.harakiris,
        respawns=growth.respawns,
        overflows=None if latest.overflows is None else growth.overflows,
        workers=tuple(
            _worker_window(place, at, totals, grown, waits is not None)
            for place, (totals, grown) in enumerate(workers, 1)
        ),
        queue_seconds=_since_start(latest, growth.queue_seconds, growth.queue_since, at),
        queue_full_seconds=_since_start(latest, growth.queue_full_seconds, growth.queue_since, at),
        occupancy=growth.occupancy,
        configured=growth.configured or None,
        available=growth.available if growth.configured else None,
        cpu=_cpu_window(at, latest.cpu, growth),
        waits=waits,
    )


def _since_start(latest: Totals, areas: list[float], known_since: list[float], start: float) -> dict[str, float]:
    """The areas of the queues that were measured from the start of the window to its end, by socket."""
    named = zip(latest.queue_seconds, areas, known_since, strict=True)
    return {name: area for name, area, since in named if since <= start}


def _covers(since: float | None, start: float) -> bool:
    """Whether a figure known since `since` is known for a whole window that starts at `start`."""
    return since is not None and since <= start


def _cpu_window(start: float, totals: CpuTotals | None, growth: Growth) -> CpuWindow | None:
    measured, own, idle, others = growth.cpu
    if totals is None or not _covers(totals.since, start) or not measured:
        return None
    return CpuWindow(measured, own, idle, others if _covers(totals.others_since, start) else None)


def _wait_window(start: float, totals: WaitTotals | None, growth: Growth) -> WaitWindow | None:
    observed, disagreement, *seconds = growth.waits
    if totals is None or not _covers(totals.since, start) or not observed:
        return None
    return WaitWindow(
        observed_seconds=observed,
        disagreement_seconds=disagreement,
        seconds={state: area for state, area in zip(STATES, seconds, strict=True) if area},
        backends=dict(zip(totals.backends, growth.backends, strict=True)),
    )


def _worker_window(
    worker_id: int, start: float, totals: WorkerTotals, grown: WorkerGrowth, waits_known: bool
) -> WorkerWindow:
    requests, static_requests, respawns, lost, up, cpu, lock, running, busy, early, late = grown
    return WorkerWindow(
        worker_id=worker_id,
        requests=requests,
        static_requests=static_requests,
        running_time=running if _covers(totals.running_time_since, start) else None,
        busy_seconds=None if totals.busy_seconds is None else busy,
        up_seconds=up,
        cpu_seconds=None if totals.cpu_seconds is None or not _covers(totals.cpu_since, start) else cpu,
        respawns=respawns,
        lost=lost,
        resident_bytes=late or None,
        resident_growth=late - early if early and late else None,
        interpreter_lock_seconds=lock if waits_known else None,
    )
