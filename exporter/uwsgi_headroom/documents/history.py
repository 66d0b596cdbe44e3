"""Builds a server's history as columns with one value per slice of time, for charts.

The last hour comes from the watch; slices of a minute and more also from the history file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.analysis.balance import compute_balance, compute_workers
from uwsgi_headroom.analysis.capacity import LIMITS, ServerLoad, compute_headroom, compute_shares
from uwsgi_headroom.analysis.demand import SocketDemand, split_by_socket
from uwsgi_headroom.analysis.littles_law import STEADY, Flow, compute_flow, ratio, waits_beside_free
from uwsgi_headroom.analysis.locks import compute_lock
from uwsgi_headroom.analysis.percentiles import RESOLUTION, SHARES, compute_percentiles, find_percentile
from uwsgi_headroom.analysis.wait_states import compute_waits
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import DEFAULT_WINDOWS
from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS
from uwsgi_headroom.history.hour import ROW_SECONDS, finest_step
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import STATES
from uwsgi_headroom.record import State as ThreadState
from uwsgi_headroom.store.record import MINUTES, TIERS, Levels, Record, RunningMerge, Tier, merge_records
from uwsgi_headroom.watch.turns import HISTORY_TURN_SECONDS, ThreadTurns, Turns
from uwsgi_headroom.watch.watch import Watch

MOST_POINTS = 600

Column = list[float | None]

Count = list[int | None]


class ThreadColumns(Struct, frozen=True, kw_only=True):
    """Threads at the end of each slice; null with stats-no-cores."""

    configured: Count = []
    available: Count = []


class ConcurrencyColumns(Struct, frozen=True, kw_only=True):
    """Mean requests in service: by Little's law, and observed in samples."""

    littles_law: Column = []
    observed: Column = []


class Headrooms(Struct, frozen=True, kw_only=True):
    """Headroom by limit; null in slices at whose end something else limited the server (`other` of its headroom).
    factor: the least of them. cpu: if idle time is unknown, by the CPUs that are usable now. lock: of the application;
    null where none is known, and in points of less than 10 s."""

    factor: Column = []
    hottest_interpreter: Column = []
    interpreters: Column = []
    threads: Column = []
    cpu: Column = []
    lock: Column = []


class Occupancies(Struct, frozen=True, kw_only=True):
    """Occupancy of threads. shares[i]: share of the time with up_to[i - 1] < busy / available <= up_to[i]."""

    up_to: tuple[float, ...] = OCCUPANCY_BOUNDS
    shares: list[Column] = field(default_factory=lambda: [[] for _ in OCCUPANCY_BOUNDS])


class WaitHistory(Struct, frozen=True, kw_only=True):
    """The history of what threads wait for. threads[i]: the mean number of threads in states[i]. backends[i]: of those
    that wait for backend_names[i], which are a part of the state `backend`."""

    states: tuple[ThreadState, ...] = STATES
    threads: list[Column] = field(default_factory=lambda: [[] for _ in STATES])
    backend_names: tuple[str, ...] = ()
    backends: list[Column] = []


class ResponseTimeHistory(Struct, frozen=True, kw_only=True):
    """The history of percentiles. seconds[i]: the percentile for shares[i], over the slice, or over 30 s if the slice
    is shorter; null if it would be below `finest`, the shortest time that samples can determine, or with too few
    requests. requests: completed over the same time; a percentile needs 1 / (1 - share) of them."""

    shares: tuple[float, ...] = SHARES
    seconds: list[Column] = field(default_factory=lambda: [[] for _ in SHARES])
    finest: Column = []
    requests: Count = []


class RouteHistory(Struct, frozen=True, kw_only=True):
    """The history of the routes. threads[i]: the mean number of busy threads with requests of routes[i]. A route that
    was not known yet has 0; `other` contains routes that were forgotten."""

    routes: tuple[str, ...] = ()
    threads: list[Column] = []


class Events(Struct, frozen=True, kw_only=True):
    """Number of events in each slice."""

    reloads: Count = []
    respawns: Count = []
    exceptions: Count = []
    harakiris: Count = []


class SocketHistory(Struct, frozen=True, kw_only=True):
    """The history of a socket. mean_queue: connections waiting; queue_wait: mean wait, null with several sockets."""

    name: str
    mean_queue: Column = []
    queue_wait: Column = []


class WorkerHistory(Struct, frozen=True, kw_only=True):
    """The history of a worker. share: of the requests; busy_threads: mean; lock_waiters: mean threads that
    wait for the interpreter lock; accepting: share of the time."""

    worker_id: int
    share: Column = []
    busy_threads: Column = []
    interpreter_load: Column = []
    response_time: Column = []
    accepting: Column = []
    lock_waiters: Column = []


class HistoryDocument(Struct, frozen=True, kw_only=True):
    """The history of a server. Every column is as long as `time`, which contains the end of each slice in epoch
    seconds, ascending. A slice begins where the previous slice ended and is about `step` seconds long. If samples cover
    less than half of a slice (an outage), every column except those of `events` is null there.

    Slices end at multiples of `step` on the exporter's clock, so that a later request with the same step returns the
    same slices and new ones. To append, take the slices whose time is more than step / 2 after your last one. since,
    until: the requested range. queue_wait: mean wait in the listen queue; null where it would be over half a minute, or
    over half of the slice if that is longer than a minute: then too few requests left the queue for a mean. routes:
    null while they are off.
    """

    name: str
    step: float
    since: float
    until: float
    time: list[float] = []
    throughput: Column = []
    response_time: Column = []
    queue_wait: Column = []
    concurrency: ConcurrencyColumns = field(default_factory=ConcurrencyColumns)
    threads: ThreadColumns = field(default_factory=ThreadColumns)
    headroom: Headrooms = field(default_factory=Headrooms)
    hot_ratio: Column = []
    noise_floor: Column = []
    occupancy: Occupancies = field(default_factory=Occupancies)
    waits: WaitHistory = field(default_factory=WaitHistory)
    response_times: ResponseTimeHistory = field(default_factory=ResponseTimeHistory)
    routes: RouteHistory | None = None
    events: Events = field(default_factory=Events)
    sockets: list[SocketHistory] = []
    workers: list[WorkerHistory] = []


def slice_seconds(seconds: float, points: int, age: float = 0.0) -> float:
    """Return the length of a slice such that at most `points` slices fit: a multiple of the time between the oldest
    rows. age: of the newest slice, in seconds."""
    finest = finest_step(age + seconds)
    return max(ROW_SECONDS, finest * math.ceil(seconds / points / finest))


_SHORTEST_PERCENTILES = 30.0
"""The shortest time over which the last hour has percentiles, in seconds: shorter slices have too few requests."""


async def build_history(
    watch: Watch, clock: Clock, seconds: float, points: int, until: float | None = None
) -> HistoryDocument:
    """Build the history of the `seconds` before `until` (epoch seconds, default now) in at most `points` slices. Lets
    other tasks run in between."""
    now, ahead = clock.epoch(), clock.epoch() - clock.monotonic()
    until = now if until is None else until
    step = slice_seconds(seconds, points, now - until)
    # Start one step early: a slice begins with the end of the previous one.
    slices = watch.history.slices(step, until - ahead - seconds - step, until - ahead)
    totals, reading = watch.integrals.totals, watch.reading
    cpus = reading.host.cpus.count if reading and reading.host.cpus else None
    columns = _begin(
        HistoryDocument(name=watch.name, step=step, since=until - seconds, until=until),
        backends=totals.waits.backends if totals.waits else (),
        routes=watch.routes.names,
        sockets=reading.listen_queues() if reading else (),
        workers=range(1, len(totals.workers) + 1),
    )
    setup = reading.host.setup if reading else None
    levels = Levels(
        cpus=cpus,
        others_follow=watch.other_programs.others_follow,
        socket_holders=setup.socket_holders if setup and setup.mapped else None,
    )
    requests = watch.integrals.response_times.history
    turns = Turns(longest=HISTORY_TURN_SECONDS)
    for window in slices:
        record = Record(
            until=window.until + ahead,
            window=window,
            response_times=requests.window(window.until - max(window.seconds, _SHORTEST_PERCENTILES), window.until),
            routes=watch.routes.of(window),
            levels=replace(levels, limited_by=watch.limits.at(window.until)),
        )
        _append(columns, record)
        await turns.pause_if_due()
    return columns


_LATEST_SECONDS = 15.0
"""When the last record of a slice is in the file at the latest, in seconds after its end."""


def build_stored_history(
    path: Path, name: str, step: float, since: float, until: float, now: float, turns: ThreadTurns | None = None
) -> HistoryDocument:
    """Build the history of the server `name` between two times (epoch seconds) from a history file, in slices of about
    `step` seconds or of the shortest records that are kept for that long. now: the present time. turns: of the thread
    that this runs in. Raises HistoryFileError, GivenUpError."""
    turns = turns or ThreadTurns()
    tier = choose_tier(step, since, now)
    step = max(1, math.ceil(step / tier.seconds)) * float(tier.seconds)
    from uwsgi_headroom.store.file import HistoryFile  # noqa: PLC0415 - loads sqlite3

    with HistoryFile(path, now) as file:
        # Start one step early, as every slice begins with the end of the previous one.
        records = file.records(name, since - step, until, tier.seconds)
        slices = list(_merge_slices(records, step, tier, now, turns))
    columns = _begin(
        HistoryDocument(name=name, step=step, since=since, until=until),
        backends=_union(record.window.waits.backends if record.window.waits else () for record in slices),
        routes=_union(record.routes.seconds if record.routes else () for record in slices),
        sockets=_union(record.window.queue_seconds for record in slices),
        workers=sorted({worker.worker_id for record in slices for worker in record.window.workers}),
    )
    for record in slices:
        if record.until > since:
            _append(columns, record)
            turns.pause_if_due()
    return columns


def choose_tier(step: float, since: float, now: float) -> Tier:
    """The tier for slices of `step` seconds from `since` on: its records are not longer, if those are kept so long."""
    kept = [tier for tier in TIERS if since >= now - tier.kept] or [TIERS[-1]]
    return max([tier for tier in kept if tier.seconds <= step], key=lambda tier: tier.seconds, default=kept[0])


def _merge_slices(
    records: Iterator[Record], step: float, tier: Tier, now: float, turns: ThreadTurns
) -> Iterator[Record]:
    """One record for each multiple of `step` seconds of the epoch, but for the last one if it has not ended."""
    for slot, group in groupby(records, key=lambda record: _slot(record.until, step)):
        merge = RunningMerge()
        for record in group:
            merge.add(record)
            turns.pause_if_due()
        has_last = _slot(merge.records[-1].until, tier.seconds) * tier.seconds >= slot * step
        if has_last or slot * step < now - _LATEST_SECONDS:
            yield merge_records(merge.records)


def _slot(until: float, step: float) -> int:
    # A record ends with the first sample after its minute.
    return math.ceil((until - MINUTES.seconds / 2) / step)


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for some in names for name in some))


def _begin(
    history: HistoryDocument,
    backends: Iterable[str],
    routes: Iterable[str],
    sockets: Iterable[str],
    workers: Iterable[int],
) -> HistoryDocument:
    """Add the columns of these backends, routes, sockets and workers (by worker_id) to an empty history."""
    backend_names, route_names = tuple(backends), tuple(routes)
    return replace(
        history,
        waits=WaitHistory(backend_names=backend_names, backends=[[] for _ in backend_names]),
        routes=RouteHistory(routes=route_names, threads=[[] for _ in route_names]) if route_names else None,
        sockets=[SocketHistory(name=name) for name in sockets],
        workers=[WorkerHistory(worker_id=worker_id) for worker_id in workers],
    )


_DIGITS = 5  # decimal places: ten microseconds, a thousandth of a per cent


def _split_by_socket(record: Record) -> Sequence[SocketDemand]:
    """The offered work of sockets that only some of the workers serve, whose threads are then a limit. All workers of a
    server have the same number of threads."""
    window, holders = record.window, record.levels.socket_holders
    if not holders or not window.configured or not window.workers:
        return ()
    accepting = [worker.worker_id for worker in window.workers if worker.up_seconds]
    return split_by_socket(window, holders, dict.fromkeys(accepting, window.configured // len(window.workers)))


def _append(to: HistoryDocument, record: Record) -> None:
    window, levels = record.window, record.levels
    is_covered = window.observed_seconds >= window.seconds / 2
    rates, workers = compute_flow(window), compute_workers(window)
    shares = compute_balance(window, workers)

    def put(column: Column, value: float | None) -> None:
        column.append(round(value, _DIGITS) if is_covered and value is not None else None)

    to.time.append(round(record.until, 3))
    put(to.throughput, rates.throughput)
    put(to.response_time, rates.response_time)
    wait = _find_wait(window, rates)
    put(to.queue_wait, wait)
    put(to.concurrency.littles_law, rates.littles_law)
    put(to.concurrency.observed, rates.observed)
    to.threads.configured.append(window.configured if is_covered else None)
    to.threads.available.append(window.available if is_covered else None)
    load = ServerLoad(
        flow=rates,
        workers=workers,
        threads=window.configured,  # also those that cheaper holds in reserve
        cpus=levels.cpus,
        cpu=compute_shares(window.cpu, levels.others_follow),
        by_socket=_split_by_socket(record),
        lock=compute_lock(window),
    )
    room = compute_headroom(load, held_up=waits_beside_free(window, rates))
    factors = {} if levels.limited_by else room.by_limit
    put(to.headroom.factor, min(factors.values(), default=None))
    for limit in LIMITS:
        put(getattr(to.headroom, limit), factors.get(limit))
    put(to.hot_ratio, shares.hot_ratio)
    put(to.noise_floor, shares.noise_floor)
    samples = sum(window.occupancy)
    for column, count in zip(to.occupancy.shares, window.occupancy, strict=False):
        put(column, ratio(count, samples))
    waits = compute_waits(window, rates)
    states = dict.fromkeys(to.waits.states, 0.0) | waits.threads if waits else {}
    for state, column in zip(to.waits.states, to.waits.threads, strict=True):
        put(column, states.get(state))
    backends = {each.name: each.threads for each in waits.backends} if waits else {}
    for name, column in zip(to.waits.backend_names, to.waits.backends, strict=True):
        put(column, backends.get(name))
    to.events.reloads.append(window.reloads)
    for name in ("respawns", "exceptions", "harakiris"):
        getattr(to.events, name).append(getattr(window, name) if window.is_counted else None)
    for socket in to.sockets:
        area = window.queue_seconds.get(socket.name)
        put(socket.mean_queue, None if area is None else ratio(area, window.observed_seconds))
        put(socket.queue_wait, wait if area is not None and len(to.sockets) == 1 else None)
    known = {each.worker_id: (each, times) for each, times in zip(workers, window.workers, strict=True)}
    for worker in to.workers:
        figures, times = known.get(worker.worker_id, (None, None))
        for name in ("share", "interpreter_load", "response_time", "lock_waiters"):
            put(getattr(worker, name), getattr(figures, name, None))
        put(worker.busy_threads, figures.concurrency if figures else None)
        put(worker.accepting, ratio(times.up_seconds, window.observed_seconds) if times else None)
    if to.routes:
        routes = record.routes
        for route, column in zip(to.routes.routes, to.routes.threads, strict=True):
            put(column, ratio(routes.seconds.get(route, 0.0), routes.observed_seconds) if routes else None)
    _append_percentiles(to.response_times, record.response_times)


def _find_wait(window: Window, flow: Flow) -> float | None:
    """The mean wait in a slice; None where it is so long that in its time, or in the shortest window of the figures if
    that is longer, too few requests are completed for Little's law. The queues at the end of a slice are not kept."""
    longest = max(window.seconds, DEFAULT_WINDOWS[0]) / STEADY
    return None if flow.queue_wait is None or flow.queue_wait > longest else flow.queue_wait


def _append_percentiles(to: ResponseTimeHistory, requests: ResponseTimeWindow | None) -> None:
    figures = compute_percentiles(requests)
    for share, column in zip(to.shares, to.seconds, strict=True):
        percentile = find_percentile(figures, share)
        column.append(round(percentile.seconds, _DIGITS) if percentile and percentile.seconds is not None else None)
    to.finest.append(round(RESOLUTION * figures.interval, _DIGITS) if figures else None)
    to.requests.append(figures.requests if figures else None)
