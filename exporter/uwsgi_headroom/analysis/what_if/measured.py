"""The input of a prediction: the settings that are asked for, and what is known of a server as it runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product
from math import ceil, inf

from msgspec import Struct

from uwsgi_headroom.analysis.balance import Balance, WorkerFigures
from uwsgi_headroom.analysis.demand import Demand
from uwsgi_headroom.analysis.destinations import find_own
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import Flow, ratio
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.percentiles import ResponseTimes, find_percentile
from uwsgi_headroom.analysis.shortages import LOCKED, tries_again
from uwsgi_headroom.analysis.worker_states import ASYNC, name_slots
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.record import Memory, State
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.words.template import fill

MOST_PROCESSES = 1024
MOST_THREADS = 1024
MOST_IN_ALL = 4096
"""The largest setting that can be asked for: 64x64."""

MOST_SETTINGS = 12
"""The most settings in one prediction."""

_PATTERN = re.compile(r"(\d{1,9})[xX](\d{1,9})")


class SettingError(HeadroomError):
    """A text is not a setting."""


class CannotPredictError(HeadroomError):
    """A prediction is impossible; the message is a sentence that says why."""


class Setting(Struct, frozen=True, order=True):
    """processes, and threads per process. With cheaper mode, processes is its ceiling."""

    processes: int
    threads: int

    def __str__(self) -> str:
        return f"{self.processes}x{self.threads}"

    @property
    def in_all(self) -> int:
        """The number of threads of all processes together."""
        return self.processes * self.threads


def parse_setting(text: str) -> Setting:
    """Parse `8x4`: 8 processes with 4 threads each. Raises SettingError."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None or not text.isascii():
        raise SettingError(f"{text[:40]!r} is not a setting; write processes x threads, such as 8x4")
    setting = Setting(int(match[1]), int(match[2]))
    if not (1 <= setting.processes <= MOST_PROCESSES and 1 <= setting.threads <= MOST_THREADS):
        raise SettingError(
            f"{setting}: processes can be 1 to {MOST_PROCESSES}, and threads per process 1 to {MOST_THREADS}"
        )
    if setting.in_all > MOST_IN_ALL:
        raise SettingError(f"{setting} has {setting.in_all:,} threads; a prediction is for at most {MOST_IN_ALL:,}")
    return setting


def parse_settings(texts: Iterable[str]) -> tuple[Setting, ...]:
    """Parse several, in their order and each once. Raises SettingError, also for more than MOST_SETTINGS."""
    different = dict.fromkeys(text.strip() for text in texts)
    if len(different) > MOST_SETTINGS:  # before they are parsed: a request may contain thousands
        raise SettingError(f"{len(different)} settings are too many; at most {MOST_SETTINGS} are predicted at a time")
    return tuple(dict.fromkeys(map(parse_setting, different)))


def choose_settings(observed: Setting, cpus: float) -> tuple[Setting, ...]:
    """A grid around the observed setting, sorted: at most four numbers of processes with three of threads."""
    processes, threads = observed.processes, observed.threads
    rows = (processes, 2 * processes, processes // 2, ceil(cpus), ceil(1.5 * processes), 3 * processes, 4 * processes)
    columns = (threads, 2 * threads, threads // 2, 4 * threads)
    grid = product(_some(rows, 4, MOST_PROCESSES), _some(columns, 3, MOST_THREADS))
    return tuple(setting for setting in sorted(Setting(*each) for each in grid) if setting.in_all <= MOST_IN_ALL)


def _some(numbers: Iterable[int], most: int, largest: int) -> list[int]:
    return list(dict.fromkeys(number for number in numbers if 0 < number <= largest))[:most]


class Observed(Struct, frozen=True, kw_only=True):
    """What was observed in some period. None: unknown."""

    throughput: float
    """Requests per second."""
    response_time: float | None
    """Mean seconds in service, without the listen queue, as uWSGI measures them."""
    p95: float | None = None
    """Their 95th percentile: it says how much requests vary."""
    concurrency: float | None = None
    """Mean requests in service."""
    requests: int | None = None
    """How many were completed."""
    offered_at_least: float | None = None
    """The mean number of requests in the system, if more was offered than was completed; None if all was served."""


class Measured(Struct, frozen=True, kw_only=True):
    """One server, observed in one setting."""

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
    workers_up: float = inf
    """Mean number of workers that accepted requests. Less than `setting.processes` with cheaper."""
    others: float = 0.0
    """CPUs used by other programs."""
    others_follow: bool = False
    """Whether their use grows with the requests."""
    memory: Memory | None = None
    cheaper: bool = False
    """Whether cheaper mode starts and stops workers."""
    mapped: bool = False
    """Whether workers have sockets of their own."""
    shares: tuple[float, ...] = ()
    """The parts of the requests that the workers take, if these differ by more than chance; empty: even."""

    @property
    def busiest(self) -> Observed:
        """The period whose throughput is the load 1.0."""
        return self.peak or self.window

    @property
    def offered_at_least(self) -> float | None:
        """The largest number in the system that was only a floor; None if all was served."""
        floors = [seen.offered_at_least for seen in (self.window, self.peak) if seen is not None]
        return max((floor for floor in floors if floor is not None), default=None)

    @property
    def running(self) -> Setting:
        """The setting with the mean number of processes that were up."""
        if self.workers_up < CHEAPER * self.setting.processes:
            return Setting(max(1, round(self.workers_up)), self.setting.threads)
        return self.setting


CHEAPER = 0.98
"""With workers up for less of the window, their mean number counts, not the ceiling."""

UNEVEN = 1.1
"""The least hot ratio from which on the prediction of the present setting has the observed shares."""


def measure_server(figures: Figures, *, peak: Observed | None = None) -> Measured:
    """Collect what a prediction needs. peak: the busiest part of the past, or None. Raises CannotPredictError."""
    if unknown := _find_unknown(figures):
        raise CannotPredictError(unknown)
    workers, server, observed = figures.window.workers, figures.server, figures.window.observed_seconds
    cpu, shares = sum_if_all_known([worker.cpu_seconds for worker in workers]), figures.cpu
    up = ratio(sum(worker.up_seconds for worker in workers), observed)
    return Measured(
        setting=Setting(len(workers), max(1, round((figures.configured or 0) / len(workers)))),
        cpus=server.cpu_count or 0.0,
        window=describe_flow(figures.flow, figures.response_times, figures.demand),
        peak=peak,
        cpu_per_request=ratio(cpu, figures.flow.completed),
        waits=(figures.waits and figures.waits.per_request) or None,
        lock=figures.lock if figures.lock and figures.lock.is_known else None,
        workers_up=inf if up is None else up,
        others=(shares and shares.others) or 0.0,
        others_follow=bool(shares and shares.others_follow),
        memory=server.memory,
        cheaper=bool(server.setup.options.cheaper),
        mapped=bool(server.setup.mapped),
        shares=find_uneven_shares(figures.balance, figures.workers),
    )


ASYNC_CORES = (
    "This server uses async cores (gevent or the like): one thread serves many requests, and the model is for threads."
)
NO_CORES = "The number of threads is not known: uWSGI runs with stats-no-cores."
NO_CPUS = "The number of CPUs is not known[off? : {off}][not off? , so it is not known how requests share the CPUs.]"
SATURATED = (
    "[name? The backend {name}][not name? A backend] is saturated: in any other setting, requests would also wait in "
    "this backend."
)
NOT_KNOWN = "{what}: how many of them could run at once in another setting is not known."


def _find_unknown(figures: Figures) -> str:
    server, waits, saturation = figures.server, figures.waits, figures.saturation
    if name_slots(server) == ASYNC:
        return ASYNC_CORES
    if not figures.configured:
        return NO_CORES
    if server.cpus is None:
        return fill(NO_CPUS, {"off": server.processes_off})
    if saturation is not None:
        return fill(SATURATED, {"name": saturation.name})
    rows = (
        (waits and find_own(waits.destinations), "Requests call the uWSGI that serves them"),
        (tries_again(figures), "Requests sleep again and again"),
        (
            figures.share("lock") >= LOCKED and not (figures.lock and figures.lock.is_known),
            "Requests wait for a lock, or for threads that serve no request",
        ),
    )
    return next((fill(NOT_KNOWN, {"what": what}) for holds, what in rows if holds), "")


def find_uneven_shares(balance: Balance, workers: tuple[WorkerFigures, ...]) -> tuple[float, ...]:
    """The share of each worker, if all were active and the largest is more than chance explains; else none."""
    shares = [worker.share or 0.0 for worker in workers]
    hot, floor = balance.hot_ratio, balance.noise_floor
    is_uneven = hot is not None and floor is not None and hot > max(floor, UNEVEN)
    return tuple(shares) if is_uneven and all(worker.active for worker in workers) else ()


def describe_flow(flow: Flow, response_times: ResponseTimes | None, demand: Demand) -> Observed:
    """The observation of a window. Raises CannotPredictError if no request was completed."""
    if not flow.completed or not flow.throughput:
        raise CannotPredictError("No request was completed, so there is nothing to predict from.")
    p95 = find_percentile(response_times, 0.95)
    return Observed(
        throughput=flow.throughput,
        response_time=flow.response_time,
        p95=given(p95, lambda each: each.seconds),
        concurrency=flow.observed,
        requests=flow.completed,
        offered_at_least=(demand.at_once or 0.0) if demand.is_floor else None,
    )
