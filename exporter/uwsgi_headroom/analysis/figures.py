"""Computes all figures of one window."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil, inf
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.analysis.backends import BackendSlices, Saturation, find_saturated
from uwsgi_headroom.analysis.balance import Balance, WorkerFigures, compute_balance, compute_workers
from uwsgi_headroom.analysis.capacity import CpuShares, Headroom, ServerLoad, compute_headroom, compute_shares
from uwsgi_headroom.analysis.demand import Demand, compute_demand, count_refused, find_longest_wait
from uwsgi_headroom.analysis.destinations import DestinationFigures, divide
from uwsgi_headroom.analysis.littles_law import (
    Flow,
    compute_flow,
    judge_waiting,
    ratio,
    shows_a_limit,
    waits_beside_free,
)
from uwsgi_headroom.analysis.locks import LockFigures, compute_lock, compute_pool
from uwsgi_headroom.analysis.objective import Objective
from uwsgi_headroom.analysis.percentiles import ResponseTimes, Slow, compute_percentiles, find_slow
from uwsgi_headroom.analysis.routes import RouteFigures, compute_routes
from uwsgi_headroom.analysis.usable import add_usable, variation
from uwsgi_headroom.analysis.wait_states import (
    LOCK_SEEN,
    MOSTLY,
    WaitFigures,
    compute_waits,
    count_websockets,
    list_ages,
)
from uwsgi_headroom.code_look import Line
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import CodeWindow, RouteWindow, Window, WorkerWindow
from uwsgi_headroom.record import Destination, Outage, ServerRecord, State, WorkerRecord
from uwsgi_headroom.same_fields import copy_fields, given
from uwsgi_headroom.words.formats import code_place

GROWTH = 1.5
"""`Figures.growth`, unless the load of another server may come in addition."""

LEAST_SERVING = 0.05
"""Threads that serve at least, however much time handlers of uWSGI's signals take."""


LEAST_SEEN = 20.0
"""Fewer looks at threads in some state say nothing about lines."""


class Figures(Struct, frozen=True):
    """The figures of one window. configured, available: threads. What is None is unknown."""

    window: Window
    server: ServerRecord
    """At the end of the window."""
    flow: Flow
    workers: tuple[WorkerFigures, ...]
    balance: Balance
    headroom: Headroom
    demand: Demand
    configured: int | None
    available: int | None
    ceiling: int | None
    """The most threads that can serve at the end of the window; those of a worker that is gone count in part."""
    cpu: CpuShares | None
    waits: WaitFigures | None = None
    lock: LockFigures | None = None
    """Of the application's lock that is closest to its limit; None if none was seen."""
    saturation: Saturation | None = None
    """Of the backend for which the threads mostly wait; None unless it is known to be saturated."""
    response_times: ResponseTimes | None = None
    """None without completed requests, or if uWSGI omits threads."""
    slow: Slow | None = None
    """The requests that are far slower than half of all; None without any."""
    queue_waits: ResponseTimes | None = None
    """Of the waits in listen queues; None if no request was seen waiting, or where it is not known which did."""
    objective: Objective | None = None
    """None if the server has none."""
    routes: RouteFigures | None = None
    """None while they are off."""
    code: CodeWindow | None = None
    """Where the busy threads are in the code; None while it is not looked at."""
    stuck_seconds: float = STUCK_SECONDS
    """The age from which on a request in service counts as stuck."""
    reload_wait: ReloadWait | None = None
    """None unless a full reload waits for requests at the end of the window."""
    outage: Outage | None = None
    """The last outage in the time that was asked for; the window begins after it. None without one."""
    quiet: tuple[float, float] | None = None
    """As in Known."""
    threads: float | None = None
    """The mean number of threads over the window, where `available` is of its end. None if unknown."""

    growth: float = GROWTH
    """The factor by which a load that is all served may grow after an advised step."""

    polling: Mapping[int, float] = field(default_factory=dict)
    """By worker with coroutines whose loop only looks for a free core: the CPUs that it uses, which say nothing."""

    def share(self, state: State) -> float:
        """The share of the threads' time in a state; 0 if it is not known what they wait for."""
        return (self.waits and self.waits.share(state)) or 0.0

    def looks(self, states: Collection[State]) -> dict[Line, float]:
        """How often lines of code were seen with threads in these states, the most first."""
        uses = getattr(self.code, "lines", ())
        seen = {use.line: sum(use.states.get(state, 0.0) for state in states) for use in uses}
        return dict(sorted(seen.items(), key=lambda each: -each[1]))

    def main_place(self, states: Collection[State]) -> str:
        """The line in which most of these threads are; empty if there is none, or they were seen too rarely."""
        looks = self.looks(states)
        whole = sum(looks.values())
        most = [line for line, seen in looks.items() if line.line and seen > MOSTLY * whole and whole >= LEAST_SEEN]
        return "".join([code_place(*line[:3]) for line in most[:1]])

    @property
    def active(self) -> list[WorkerFigures]:
        """The workers that accepted requests for nearly the whole window."""
        return [worker for worker in self.workers if worker.active]

    @property
    def destinations(self) -> tuple[DestinationFigures, ...]:
        """What the threads wait for outside of the server; empty if unknown."""
        return (self.waits and self.waits.destinations) or ()

    @property
    def longest_wait(self) -> tuple[Flow, str]:
        """The flow whose requests wait the longest, and its socket; see `find_longest_wait`."""
        return find_longest_wait(self.flow, self.demand.by_socket)

    @property
    def none_came(self) -> bool:
        """Whether no request was completed or, where they are not counted, none was seen."""
        is_seen = not self.window.is_counted and (self.flow.observed or self.server.ways_in.came)
        return not (self.flow.requests or is_seen)

    @property
    def threads_each(self) -> int:
        """The threads of each worker, also where some are gone; 0 if unknown."""
        return max((worker.threads or 0 for worker in self.server.workers), default=0)


class Known(Struct, frozen=True):
    """What is known of a window of a server, besides what is known of the server at its end."""

    window: Window
    server: ServerRecord
    others_follow: bool | None = None
    """Whether the CPU use of other programs grows with the requests."""
    response_times: ResponseTimeWindow | None = None
    routes: RouteWindow | None = None
    stuck_seconds: float = STUCK_SECONDS
    outage: Outage | None = None
    backends: BackendSlices | None = None
    """Of the last hour."""
    destinations: Mapping[Destination, float] | None = None
    """The thread seconds of each."""
    queue_waits: ResponseTimeWindow | None = None
    code: CodeWindow | None = None
    quiet: tuple[float, float] | None = None
    """For how many seconds no request has come, and how many came per second before; None unless that is long."""


def compute_figures(known: Known) -> Figures:
    """The figures of a window."""
    window, server = known.window, known.server
    workers, sample = server.workers, server.sample
    seconds, polling = window.observed_seconds, find_polling(window, server)
    if polling:  # they would use this CPU time with any load
        used = {each.worker_id: each.cpu_seconds for each in window.workers} | dict.fromkeys(polling)
        rows = [replace(each, cpu_seconds=used[each.worker_id]) for each in window.workers]
        window = replace(window, workers=tuple(rows), cpu=None)
    presence = _find_presence(window, workers)
    ceiling = count_ceiling(workers, presence)
    flow = compute_flow(window, server.queues)
    threads = ceiling and max(ceiling - mean_handlers(window, server), LEAST_SERVING)
    demand = compute_demand(window, server, flow, max(1, round(threads)) if threads else None)
    waiting = judge_waiting(find_longest_wait(flow, demand.by_socket)[0])
    flow = replace(flow, waiting=waiting, refused=count_refused(window, server.queues))
    waits = compute_waits(window, flow, *_find_lasting(known), sample)
    if waits:
        named = {each.name: each.threads for each in waits.backends}
        of = named, sample.addresses, waits.threads, waits.per_request
        own = [*server.queues, *(server.setup.options.http or ())]
        waits = replace(waits, destinations=divide(known.destinations or {}, *of, own, sample.programs))
    present = [worker.threads and worker.threads * presence.get(worker.worker_id, 0.0) for worker in workers]
    is_seen = waits is not None and waits.share("lock") >= LOCK_SEEN
    pool = compute_pool(window, sample.pools, waits.threads) if waits and is_seen else None
    reload_wait = find_reload_wait(workers, window)
    times = compute_percentiles(known.response_times, flow.response_time)
    available = sum_if_all_known([worker.available_threads for worker in workers])
    load = ServerLoad(
        flow=flow,
        workers=compute_workers(window),
        threads=threads,
        cpus=server.cpu_count,
        cpu=compute_shares(window.cpu, known.others_follow),
        by_socket=demand.by_socket,
        lock=pool or compute_lock(window),
    )
    headroom = compute_headroom(
        load,
        lock_is_seen=is_seen and sample.holder not in ("thread", "nobody"),
        held_up=shows_a_limit(flow) and (available == 0 or waits_beside_free(window, flow)),
    )
    if waits is None and server.setup.concurrency_kind == "async":  # what its requests wait for may be at its limit
        headroom = replace(headroom, is_upper_bound=True)
    return copy_fields(
        Figures,
        load,
        known,
        window=window,
        balance=compute_balance(window, load.workers),
        headroom=add_usable(load, headroom, variation(known.response_times), waits),
        demand=demand,
        configured=sum_if_all_known([worker.threads for worker in workers]),
        available=0 if reload_wait else available,
        reload_wait=reload_wait,
        ceiling=ceiling,
        waits=waits,
        saturation=find_saturated(waits, known.backends),
        response_times=times,
        slow=find_slow(known.response_times, times),
        queue_waits=compute_percentiles(known.queue_waits),
        routes=compute_routes(known.routes),
        polling=polling,
        threads=sum_if_all_known(present) if seconds else None,
    )


def _find_lasting(known: Known) -> tuple[float, int]:
    """The mean number of threads with stuck requests, and the threads with requests that are older than the window."""
    seconds, server = known.window.observed_seconds, known.server
    if not seconds:
        return 0.0, 0
    lasting = sum((age or 0.0) >= seconds for worker in server.workers for age in worker.ages.values())
    stuck = [min(1.0, age / seconds) for age, _ in list_ages(server) if age >= known.stuck_seconds]
    return sum(stuck * (len(stuck) > count_websockets(server, len(stuck)))), lasting


def _find_presence(window: Window, workers: Sequence[WorkerRecord]) -> Mapping[int, float]:
    """The part of a window for which the threads of each worker counted, by its id: it accepted or served requests."""
    threads = {worker.worker_id: (worker.threads or 0) * window.observed_seconds for worker in workers}
    presence = {}
    for each in window.workers:
        served = ratio(each.busy_seconds or 0.0, threads.get(each.worker_id, 0.0)) or 0.0
        presence[each.worker_id] = min(1.0, max(ratio(each.up_seconds, window.observed_seconds) or 0.0, served))
    return presence


RELOAD_WAITS = 3.0
"""Seconds that workers are away, and requests in service, before a reload waits for them."""


class ReloadWait(NamedTuple):
    """A full reload, or a stop, that waits for requests of the workers that are left, after it ended the others."""

    gone: int
    left: tuple[WorkerRecord, ...]
    away: float
    oldest: float


def find_reload_wait(workers: Sequence[WorkerRecord], window: Window) -> ReloadWait | None:
    """The reload that waits at the end of a window: uWSGI starts no other worker before the rest have ended."""
    gone = [worker for worker in workers if worker.state == "down" and worker.pid is None]
    left = tuple(worker for worker in workers if worker.state == "accepting" and not worker.ended)
    oldest = min((max((age for age in worker.ages.values() if age), default=0.0) for worker in left), default=0.0)
    up = {worker.worker_id: worker.up_seconds for worker in window.workers}
    away = min((window.observed_seconds - up.get(worker.worker_id, 0.0) for worker in gone), default=0.0)
    if not gone or not left or len(gone) + len(left) < len(workers) or min(away, oldest) < RELOAD_WAITS:
        return None
    return ReloadWait(len(gone), left, away, oldest)


def mean_handlers(window: Window, server: ServerRecord) -> float:
    """The mean number of threads that run a handler of a uWSGI signal instead of requests. Coroutines have none."""
    if not window.observed_seconds or server.setup.concurrency_kind == "async":
        return 0.0
    return (window.handler_seconds or 0.0) / window.observed_seconds


def count_ceiling(workers: Sequence[WorkerRecord], up: Mapping[int, float] | None = None) -> int | None:
    """The most threads that can serve; None if uWSGI omits threads. up: the part of absent workers' that counts."""

    there = dict(up or {}) | {each.worker_id: 1.0 for each in workers if each.state in ("accepting", "reserve")}
    threads = [each.threads and each.threads * min(1.0, there.get(each.worker_id, 0.0)) for each in workers]
    return given(sum_if_all_known(threads), ceil)


POLL_FULL, POLL_AT_TIMES = 0.9, 0.1
"""The part of a worker's async cores that is in use on average, and of the time in which those of all workers are."""

OF_KERNEL = 0.25
"""The part of a worker's CPU time that is the kernel's: at least 0.42 where the loop only looked again, 0.15 where
requests computed all the time."""

LEAST_POLLING = 0.1
"""CPUs below which a worker hardly polls: others take what waits. What it uses is near no limit either."""


def find_polling(window: Window, server: ServerRecord) -> dict[int, float]:
    """By worker with coroutines: the CPUs that it uses only to look for a free core. While all cores of a worker are in
    use and a request waits in the listen queue, uWSGI's event loop finds its socket readable, cannot take the request,
    and looks again without a pause (core/async.c and plugins/gevent of uWSGI 2.0.31)."""
    seconds = window.observed_seconds
    if server.setup.concurrency_kind != "async" or not seconds:
        return {}
    cores = {worker.worker_id: worker.threads or inf for worker in server.workers}
    least = 0.0 if window.full_seconds >= POLL_AT_TIMES * seconds else POLL_FULL * seconds

    def polls(worker: WorkerWindow) -> bool:
        is_full = (worker.busy_seconds or 0.0) >= least * cores.get(worker.worker_id, inf)
        return is_full and (ratio(worker.system_seconds or 0.0, worker.cpu_seconds or 0.0) or 0.0) >= OF_KERNEL

    used = {each.worker_id: (each.cpu_seconds or 0.0) / window.seconds for each in window.workers if polls(each)}
    return {worker_id: cpus for worker_id, cpus in used.items() if cpus >= LEAST_POLLING}
