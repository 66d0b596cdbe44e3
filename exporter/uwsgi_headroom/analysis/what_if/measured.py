"""Makes the input of a prediction: what is known of a server as it runs, from the figures of a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.balance import Balance
from uwsgi_headroom.analysis.demand import Demand
from uwsgi_headroom.analysis.destinations import find_own
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.percentiles import ResponseTimes
from uwsgi_headroom.analysis.shortages import LOCKED, tries_again
from uwsgi_headroom.analysis.what_if.setting import Setting
from uwsgi_headroom.analysis.worker_states import ASYNC, name_slots
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.history.totals import sum_if_all_known
from uwsgi_headroom.record import State


class CannotPredictError(HeadroomError):
    """A prediction is impossible; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was observed in some period. None: unknown.

    p50, p90, p95, p99: percentiles of the response time.
    """

    throughput: float
    """Requests per second."""
    response_time: float | None
    """Mean seconds in service, without the listen queue, as uWSGI measures them."""
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    queue_wait: float | None = None
    """Mean seconds in the listen queue."""
    concurrency: float | None = None
    """Mean requests in service."""
    requests: int | None = None
    """How many were completed."""
    offered_at_least: float | None = None
    """The mean number of requests in the system, if more was offered than was completed: `throughput` is then what the
    server managed, not what was asked for. None if all that was offered was served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One server, observed in one setting.

    memory_per_worker, memory_available: bytes; None if unknown.
    """

    setting: Setting
    """As configured; with cheaper mode, the ceiling of processes."""
    cpus: float
    """CPUs that the workers may use, counting a quota: 1.5 is possible."""
    window: Observed
    """The period from which the demands of a request are taken."""
    peak: Observed | None = None
    """The busiest part of the recent past, whose throughput is the load 1.0; None: that of `window`."""
    cpu_per_request: float | None
    """CPU seconds of all workers per request; None if unknown."""
    waits: Mapping[State, float] | None = None
    """Seconds of a mean request in each state, from `WaitFigures.per_request`; None if unknown."""
    lock: LockFigures | None = None
    """Of the application's lock; None if none was seen, or its limit is not known."""
    workers_up: float | None = None
    """Mean number of workers that accepted requests; None: all. Less than `setting.processes` with cheaper."""
    others: float = 0.0
    """CPUs used by other programs."""
    others_follow: bool = False
    """Whether their use grows with the requests."""
    memory_per_worker: float | None = None
    memory_available: float | None = None
    memory_is_exact: bool = True
    """False if a worker may take less."""
    cheaper: bool = False
    """Whether cheaper mode starts and stops workers."""
    mapped: bool = False
    """Whether workers have sockets of their own."""
    shares: tuple[float, ...] = ()
    """The parts of the requests that the workers take, if these differ by more than chance; empty: even."""

    @property
    def offered_at_least(self) -> float | None:
        """The largest number of requests in the system that was only a floor, in the window or at the peak; None if all
        that was offered was served."""
        floors = [seen.offered_at_least for seen in (self.window, self.peak) if seen is not None]
        return max((floor for floor in floors if floor is not None), default=None)

    @property
    def running(self) -> Setting:
        """The setting with the mean number of processes that were up."""
        if self.workers_up is None or not isfinite(self.workers_up):
            return self.setting
        return Setting(min(max(1, round(self.workers_up)), self.setting.processes), self.setting.threads)


CHEAPER = 0.98
"""With workers up for less than this part of the window, their mean number counts, not the ceiling."""


UNEVEN = 1.1
"""The least hot ratio from which on the prediction of the present setting has the observed shares."""


def measure_server(figures: Figures, *, others_follow: bool | None = None, peak: Observed | None = None) -> Measured:
    """Collect what a prediction needs. peak: the busiest part of the recent past; None: the window.

    Raises CannotPredictError if the server is of a kind that the model does not know, or if figures are missing.
    """
    if name_slots(figures.server) == ASYNC:
        raise CannotPredictError(
            "This server uses async cores (gevent or the like): one thread serves many requests, and the model is for "
            "threads."
        )
    if not figures.configured:
        raise CannotPredictError("The number of threads is not known: uWSGI runs with stats-no-cores.")
    cpus, off = figures.server.cpus, figures.server.processes_off
    if cpus is None:
        why = f": {off}" if off else ", so it is not known how requests share the CPUs."
        raise CannotPredictError(f"The number of CPUs is not known{why}")
    if figures.saturation is not None:
        raise CannotPredictError(
            f"{_which(figures.saturation)} is saturated: in any other setting, requests would also wait in this "
            "backend."
        )
    if unknown := _find_unknown(figures):
        raise CannotPredictError(f"{unknown}: how many of them could run at once in another setting is not known.")
    workers = figures.window.workers
    cpu = sum_if_all_known([worker.cpu_seconds for worker in workers])
    observed = figures.window.observed_seconds
    up = sum(worker.up_seconds for worker in workers) / observed if observed else len(workers)
    setup, memory = figures.server.setup, figures.server.memory
    return Measured(
        setting=Setting(len(workers), max(1, round(figures.configured / len(workers)))),
        cpus=cpus.count,
        window=describe_flow(figures.flow, figures.response_times, figures.demand),
        peak=peak,
        cpu_per_request=cpu / figures.flow.requests if cpu is not None and figures.flow.requests else None,
        waits=figures.waits.per_request if figures.waits else None,
        lock=figures.lock if figures.lock and figures.lock.is_known else None,
        workers_up=up if up < CHEAPER * len(workers) else None,
        others=(figures.cpu.others or 0.0) if figures.cpu else 0.0,
        others_follow=bool(others_follow),
        memory_per_worker=memory.per_worker if memory else None,
        memory_available=memory.available if memory else None,
        memory_is_exact=memory.is_exact if memory else True,
        cheaper=bool(setup.options.cheaper),
        mapped=bool(setup.mapped),
        shares=find_uneven_shares(figures.balance),
    )


def _find_unknown(figures: Figures) -> str:
    """What requests wait for of which the model knows nothing; empty if it knows enough."""
    waits = figures.waits
    if waits is None:
        return ""
    if find_own(waits.destinations):
        return "Requests call the uWSGI that serves them"
    if tries_again(figures):
        return "Requests sleep again and again"
    if waits.share("lock") >= LOCKED and not (figures.lock and figures.lock.is_known):
        return "Requests wait for a lock, or for threads that serve no request"
    return ""


def _which(saturation: Saturation) -> str:
    return f"The backend {saturation.name}" if saturation.name else "A backend"


def find_uneven_shares(balance: Balance) -> tuple[float, ...]:
    """The share of each worker, if all were active and the largest is more than chance explains; else none."""
    shares = [worker.share or 0.0 for worker in balance.workers]
    hot, floor = balance.hot_ratio, balance.noise_floor
    is_uneven = hot is not None and floor is not None and hot > max(floor, UNEVEN)
    return tuple(shares) if is_uneven and all(worker.active for worker in balance.workers) else ()


def describe_flow(flow: Flow, response_times: ResponseTimes | None, demand: Demand) -> Observed:
    """The observation of a window. Raises CannotPredictError if no request was completed."""
    if not flow.requests or not flow.throughput:
        raise CannotPredictError("No request was completed, so there is nothing to predict from.")
    known = response_times.percentiles if response_times else {}
    p50, p90, p95, p99 = (known[share].seconds if share in known else None for share in (0.5, 0.9, 0.95, 0.99))
    return Observed(
        throughput=flow.throughput,
        response_time=flow.response_time,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        queue_wait=flow.queue_wait,
        concurrency=flow.observed,
        requests=flow.requests,
        offered_at_least=find_floor(demand),
    )


def find_floor(demand: Demand) -> float | None:
    """`Observed.offered_at_least`: the offered work if it is a floor; 0 if it is one of unknown size."""
    return (demand.at_once or 0.0) if demand.is_floor else None
