"""Turns quarter hours of a server into what `check` judges: a window, and a record with the levels of that time.

So a review uses the same functions for every figure, limit and finding as `check`, and says the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.usable import LEAST_REQUESTS, variation_of
from uwsgi_headroom.history.window import CpuWindow, RouteWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.kernel.waits import GRANT
from uwsgi_headroom.record import STATES, UNKNOWN, Cpus, Memory, ServerRecord, Waits, WorkerRecord, WorkerState
from uwsgi_headroom.report.columns import STEP, Column, ServerData, WorkerColumns, mean, total
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS

Places = NDArray[np.int64]
"""Places of quarter hours in the columns of a server."""

Chosen = Sequence[tuple[ServerData, Places]]
"""Servers with the places of some of their quarter hours."""

_NO_WAITS = Waits(off=f"the history does not have it: {GRANT}", needs_right=True)
"""Of an instant, a review knows no waits. Those of the range are in the window, if the exporter could see them."""

ALL_QUEUES = "listen queues"
"""The name of a server's queues together."""

UP = 0.5
"""A worker that accepted requests for less than this share of the time counts as cheaper mode's reserve."""

WHOLE_SERVER = 0
"""The worker id of a server whose workers are not known one by one."""


def figures_at(server: ServerData, places: Places) -> Figures:
    """The figures of some quarter hours together, by their places in the columns. At least one of them has to have a
    known concurrency."""
    window = window_at(server, places)
    return compute_figures(
        window,
        record_at(server, places),
        routes=_routes(server, places, window.observed_seconds),
        wait_factor=_wait_factor(server, places),
    )


def window_at(server: ServerData, places: Places) -> Window:
    """The growth of a server's totals over some quarter hours together."""
    seconds = STEP * len(places)
    covered = np.nan_to_num(server.covered[places])
    observed = float(STEP * covered.sum())

    def level(column: Column) -> float | None:
        """The integral of a level, over the time that was sampled."""
        return _known(float((column[places] * covered * STEP).sum()))

    def count(column: Column) -> int:
        """A number of events; those of unknown quarters are not counted."""
        return round(float(np.nansum(column[places])))

    queue, full = level(server.queue), level(server.queue_full)
    overflows, refused = total(server.overflows[places]), total(refused_by(server)[places])
    return Window(
        asked=seconds,
        seconds=seconds,
        until=float(server.time[places[-1]]),
        observed_seconds=observed,
        full_seconds=level(server.full) or 0.0,
        gap_seconds=seconds - observed,
        reloads=count(server.reloads),
        exceptions=count(server.exceptions),
        harakiris=count(server.harakiris),
        respawns=count(server.respawns),
        overflows=None if overflows is None else round(overflows),
        workers=_workers(server, places, covered),
        queue_seconds={} if queue is None else {ALL_QUEUES: queue},
        queue_full_seconds={} if full is None else {ALL_QUEUES: full},
        occupancy=tuple(round(100 * (level(part) or 0.0) / STEP) for part in server.occupancy),
        configured=_whole(mean(server.configured[places])),
        available=_whole(mean(server.available[places])),
        cpu=_cpu(server, places, seconds),
        waits=_waits(server, places, covered, observed),
        refused=None if refused is None else round(refused),
    )


def record_at(server: ServerData, places: Places) -> ServerRecord:
    """The levels of some quarter hours: threads, CPUs and memory."""
    threads = mean(server.configured[places])
    columns = server.by_worker
    each = None if threads is None else round(threads / max(1, len(columns)))
    cpus = mean(server.cpus[places])
    return ServerRecord(
        workers=tuple(_worker(worker, each, places) for worker in columns)
        or (WorkerRecord(WHOLE_SERVER, "accepting", _whole(threads)),),
        cpus=None if cpus is None else Cpus(cpus, "host"),
        memory=memory_at(server, places),
        setup=UNKNOWN
        if server.socket_holders is None
        else replace(UNKNOWN, mapped=True, socket_holders=server.socket_holders),
        waits=_NO_WAITS,
    )


def memory_at(server: ServerData, places: Places) -> Memory | None:
    """The memory of one worker, as an upper bound, and the least available; None unless both are known."""
    each, available = mean(server.memory_per_worker[places]), server.memory_available[places]
    known = available[np.isfinite(available)]
    if each is None or round(each) <= 0 or not len(known):
        return None
    together = round(each * (len(server.by_worker) or 1))
    return Memory(round(each), "anonymous", together, round(float(known.min())), "host")


def _workers(server: ServerData, places: Places, covered: Column) -> tuple[WorkerWindow, ...]:
    known = [worker for worker in server.by_worker if np.isfinite(worker.requests[places]).any()]
    static = (total(server.static[places]) or 0.0) / (total(server.requests[places]) or 1.0)
    if known:
        return tuple(_worker_window(worker, places, covered, static, waits=bool(server.waits)) for worker in known)
    # Not known one by one: the server as one worker, which has no interpreter of its own.
    busy, accepting = server.busy, np.ones_like(server.time)
    unknown = np.full_like(server.time, np.nan)
    whole = WorkerColumns(
        worker_id=WHOLE_SERVER,
        requests=server.requests,
        busy=busy,
        running=server.running,
        cpu=unknown,
        accepting=accepting,
        lock=unknown,
    )
    return (_worker_window(whole, places, covered, static, waits=False),)


def _worker_window(
    worker: WorkerColumns, places: Places, covered: Column, static: float, *, waits: bool
) -> WorkerWindow:
    """static: the share of static files in the server's requests, of which nothing is known by worker."""
    sampled = covered * STEP
    requests = float(np.nansum(worker.requests[places])) * STEP
    return WorkerWindow(
        worker_id=worker.worker_id,
        requests=round(requests),
        static_requests=round(static * requests),
        running_time=_known(float(worker.running[places].sum()) * STEP),
        busy_seconds=_known(float((worker.busy[places] * sampled).sum())),
        up_seconds=float(np.nansum(worker.accepting[places] * sampled)),
        cpu_seconds=_known(float(worker.cpu[places].sum()) * STEP),
        respawns=0,
        lost=0,
        resident_bytes=None,
        resident_growth=None,
        interpreter_lock_seconds=_known(float((worker.lock[places] * sampled).sum())) if waits else None,
    )


def _worker(worker: WorkerColumns, threads: int | None, places: Places) -> WorkerRecord:
    accepting = mean(worker.accepting[places])
    state: WorkerState = "reserve" if accepting is not None and accepting < UP else "accepting"
    return WorkerRecord(worker.worker_id, state, threads)


def _cpu(server: ServerData, places: Places, seconds: float) -> CpuWindow | None:
    own, idle, others = (mean(column[places]) for column in (server.cpu_own, server.cpu_idle, server.cpu_others))
    if own is None or idle is None:
        return None
    return CpuWindow(seconds, own * seconds, idle * seconds, None if others is None else others * seconds)


def _waits(server: ServerData, places: Places, covered: Column, observed: float) -> WaitWindow | None:
    known = {
        state: _known(float((server.waits[state][places] * covered * STEP).sum()))
        for state in STATES
        if state in server.waits
    }
    seconds = {state: area for state, area in known.items() if area}
    if not seconds or not observed:
        return None
    backends = {name: float(np.nansum(column[places] * covered * STEP)) for name, column in server.backends.items()}
    return WaitWindow(observed, 0.0, seconds, backends)


def _routes(server: ServerData, places: Places, observed: float) -> RouteWindow | None:
    if not server.routes or not observed:
        return None
    covered = np.nan_to_num(server.covered[places])
    seconds = {name: float(np.nansum(column[places] * covered * STEP)) for name, column in server.routes.items()}
    return RouteWindow(observed, seconds)


SHORT = BUCKET_BOUNDS[0]
"""A mean response time in seconds up to which nearly all requests are in one bucket, so that how much they vary is
unknown."""


def _wait_factor(server: ServerData, places: Places) -> float:
    """How the response times vary, as for `check` but by the buckets of the histogram: see `variation`."""
    counts = [STEP * float(np.nansum(column[places])) for column in server.by_time]
    if sum(counts) < LEAST_REQUESTS:
        return 1.0
    finite = server.bounds[:-1]
    middles = [(low + high) / 2 for low, high in pairwise((0.0, *finite))]
    return variation_of(counts, [*middles, finite[-1] if finite else 0.0], SHORT)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def places_of(time: Column, ends: Sequence[float]) -> Places:
    """The places of these ends of quarter hours in a column of times; those that are not there are left out."""
    found = np.searchsorted(time, ends)
    return np.array(
        [place for place, end in zip(found, ends, strict=True) if place < len(time) and time[place] == end],
        dtype=np.int64,
    )


def refused_by(server: ServerData) -> Column:
    """The dropped TCP connections that are this server's: those of the quarter hours in which its own queue was full.
    The kernel counts those of all listeners of a network namespace together."""
    return np.where(
        np.nan_to_num(server.queue_full) > 0, server.overflows, np.where(np.isnan(server.overflows), np.nan, 0)
    )


def ratio_where_known(
    chosen: Chosen, part: Callable[[ServerData], Column], whole: Callable[[ServerData], Column]
) -> float | None:
    """Sum over sum, of the quarter hours in which both are known."""
    parts = wholes = 0.0
    for server, places in chosen:
        above, below = part(server)[places], whole(server)[places]
        known = np.isfinite(above) & np.isfinite(below)
        parts += float(above[known].sum())
        wholes += float(below[known].sum())
    return ratio(parts, wholes)
