"""Computes all figures of one window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from uwsgi_headroom.analysis.balance import Balance, compute_balance
from uwsgi_headroom.analysis.capacity import CpuShares, Headroom, compute_headroom, compute_shares
from uwsgi_headroom.analysis.littles_law import Flow, compute_flow, ratio
from uwsgi_headroom.analysis.objective import ObjectiveFigures
from uwsgi_headroom.analysis.percentiles import ResponseTimes, compute_percentiles
from uwsgi_headroom.analysis.routes import RouteFigures, compute_routes
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.history.totals import sum_if_all_known
from uwsgi_headroom.history.window import RouteWindow, Window
from uwsgi_headroom.record import ServerRecord, WorkerRecord
from uwsgi_headroom.response_times.totals import ResponseTimeWindow


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one window.

    configured, available: threads; None if uWSGI omits them. cpu, waits: None if the kernel does not report them.
    """

    window: Window
    server: ServerRecord
    """At the end of the window."""
    flow: Flow
    balance: Balance
    headroom: Headroom
    configured: int | None
    available: int | None
    ceiling: int | None
    """The most threads that can serve at the end of the window. The threads of a worker that is gone by then count in
    proportion to its presence in the window."""
    cpu: CpuShares | None
    waits: WaitFigures | None = None
    response_times: ResponseTimes | None = None
    """None without completed requests, or if uWSGI omits threads."""
    objective: ObjectiveFigures | None = None
    """None if the server has none."""
    routes: RouteFigures | None = None
    """None while they are off."""
    stuck_seconds: float = STUCK_SECONDS
    """The age from which on a request in service counts as stuck."""


def compute_figures(
    window: Window,
    server: ServerRecord,
    others_follow: bool | None = None,
    response_times: ResponseTimeWindow | None = None,
    routes: RouteWindow | None = None,
    stuck_seconds: float = STUCK_SECONDS,
) -> Figures:
    """The figures of a window that ends with this record of a server. others_follow: whether the CPU use of other
    programs grows with the server's requests. response_times, routes: of the same window; None if they are unknown or
    off."""
    workers, cpus = server.workers, server.cpus
    seconds = window.observed_seconds
    ceiling = count_ceiling(
        workers, {each.worker_id: ratio(each.up_seconds, seconds) or 0.0 for each in window.workers}
    )
    flow, balance, cpu = compute_flow(window), compute_balance(window), compute_shares(window.cpu)
    return Figures(
        window=window,
        server=server,
        flow=flow,
        balance=balance,
        headroom=compute_headroom(flow, balance, ceiling, cpus.count if cpus else None, cpu, others_follow),
        configured=sum_if_all_known([worker.threads for worker in workers]),
        available=sum_if_all_known([worker.available_threads for worker in workers]),
        ceiling=ceiling,
        cpu=cpu,
        waits=compute_waits(window, flow),
        response_times=compute_percentiles(response_times),
        routes=compute_routes(routes),
        stuck_seconds=stuck_seconds,
    )


def count_ceiling(workers: Sequence[WorkerRecord], up: Mapping[int, float] | None = None) -> int | None:
    """The most threads that can serve: available ones, and those of workers that cheaper mode keeps in reserve. None if
    uWSGI omits threads. up: the fraction for which the threads of an absent worker count, by worker id."""
    parts = [None if worker.threads is None else worker.threads * _part(worker, up or {}) for worker in workers]
    threads = sum_if_all_known(parts)
    return None if threads is None else ceil(threads)


def _part(worker: WorkerRecord, up: Mapping[int, float]) -> float:
    return 1.0 if worker.state in ("accepting", "reserve") else min(1.0, up.get(worker.worker_id, 0.0))
