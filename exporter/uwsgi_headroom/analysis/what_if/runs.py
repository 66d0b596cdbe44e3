"""Runs the simulation for one setting, for its most throughput and its times under a load, and says what came out.

The classes at the top are the output of a prediction; `Server` is what all its runs have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Literal

from uwsgi_headroom.analysis.littles_law import add_wait
from uwsgi_headroom.analysis.what_if.measured import Measured, Observed
from uwsgi_headroom.analysis.what_if.setting import Setting
from uwsgi_headroom.analysis.what_if.simulation import Outcome, Simulation, System, Work, left_beside
from uwsgi_headroom.numbers import percentile

Resource = Literal["threads", "interpreters", "cpu", "lock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """The fraction of each resource in use, 0 to 1: threads in service; interpreter locks held, on average over the
    workers; CPUs, with those that other programs use; locks of the application held, on average as well."""

    threads: float
    interpreters: float
    cpu: float
    lock: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLoad:
    """A setting under one load.

    response_time, p95: seconds in service. p95 is None if the observed one is unknown.
    """

    load: float
    """As a multiple of the peak."""
    throughput: float
    """The requests per second that arrive."""
    sustained: bool
    """Whether the setting serves all of them. If not, the queue grows without end: no times are given, and
    `utilization` is that of the most that it serves. No times are given either if more was offered than was completed:
    the load is then less than the setting would get."""
    response_time: float | None = None
    p95: float | None = None
    queue_wait: float | None = None
    """Mean seconds in the listen queue."""
    total_p95: float | None = None
    """The 95th percentile of both together."""
    utilization: Utilization

    @property
    def total_time(self) -> float | None:
        """Mean seconds from the arrival in the listen queue to the response."""
        return add_wait(self.response_time, self.queue_wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction for one setting."""

    setting: Setting
    most_throughput: float
    """Requests per second, at which `limit` is used up."""
    limit: Resource
    at: tuple[AtLoad, ...]
    """In the order of the loads that were asked for."""
    memory: float | None
    """Bytes that all workers take together; None if unknown."""
    fits: bool | None
    """Whether the memory available now is enough; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The model against what was observed: the observed setting at an observed load, in `observed`.

    throughput, response_time, p95: as the model has them, in requests per second and seconds. Errors are relative: 0.1
    means that the model is 10 % above what was observed. They are None if that was not observed, or if the model was
    fitted to it, so that agreement would prove nothing; that of the throughput also if all that arrived was served.
    """

    observed: Observed
    throughput: float
    response_time: float
    p95: float | None
    throughput_error: float | None
    response_time_error: float | None
    p95_error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Predictions of settings, and how far to trust them."""

    measured: Measured
    today: Prediction
    """The prediction of the observed setting, at the same loads."""
    check: Check
    """That setting at the load it was observed at: at the peak if its response time is known, else in the window."""
    predictions: tuple[Prediction, ...]
    demands_measured: bool
    """Whether the demands of a request come from wait states, not only from CPU and response time."""
    cautions: tuple[str, ...]
    """Sentences about what the model cannot know here."""


SEED = 1
"""Fixed: the same measurements give the same prediction, and settings differ by their own merit alone."""

MOST_LOAD = 0.97
"""A load counts as sustained up to this fraction of the most throughput. Above it the queue is so long, and depends so
much on small differences, that a figure would mean nothing."""

SATURATED = 0.97
"""The part of the threads in service from which on all of them count as in use."""

USED_UP = {"cpu": 0.95, "interpreters": 0.9, "lock": 0.9}
"""Utilization at the most throughput from which on a resource is what limits it; else it is the threads."""

_REQUESTS = 2400
_PER_THREAD = 1
_MOST_REQUESTS = 5000
_ROUNDS = 4
_CLOSE = 0.01
_ENOUGH = 1.5
"""Arrivals above this multiple of what the setting can serve only lengthen the queue, and the simulation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The part of a server that no setting changes."""

    work: Work
    cpus: float
    others: float
    """CPUs that other programs use whatever the load is."""
    others_per_request: float
    """CPU seconds that other programs use for each request besides."""
    look: Callable[[], None]
    observed: Setting | None = None
    shares: tuple[float, ...] = ()
    """Of the workers in the setting `observed`; in any other one, workers share evenly."""

    def system(self, setting: Setting, rate: float) -> System:
        """The server in a setting, at `rate` requests per second."""
        return System(
            processes=setting.processes,
            threads=setting.threads,
            cpus=self.cpus,
            others=self.others + rate * self.others_per_request,
            shares=self.shares if setting == self.observed else (),
        )

    def bound_beside_other_programs(self) -> float:
        """Requests per second that use up the CPUs, together with the other programs that grow with the requests."""
        return left_beside(self.others, self.cpus) / (self.work.locked + self.work.unlocked + self.others_per_request)

    def with_work(self, **changes: Any) -> Server:
        """The same server, with these fields of the work of its requests changed."""
        return replace(self, work=replace(self.work, **changes))


def find_most(server: Server, setting: Setting) -> tuple[float, Utilization]:
    """The most requests per second, and the utilization there: every thread is always busy."""

    def run(rate: float) -> tuple[float, Utilization]:
        system = server.system(setting, rate)
        outcome = _run_full(server, system, _count(setting))
        return outcome.throughput, _utilization(server.work, system, setting, outcome)

    most, use = run(0.0)
    if not server.others_per_request:
        return most, use
    # Other programs whose use grows with the requests leave less CPU the more there are. Sought is the rate that is
    # served beside those of just that rate: it is at most `rate`, and found by regula falsi.
    rate = min(most, server.bound_beside_other_programs())
    low, surplus_low = 0.0, most
    high, surplus_high = rate, 0.0
    for _ in range(_ROUNDS):
        served, use = run(rate)
        surplus = served - rate
        if abs(surplus) <= _CLOSE * rate or (surplus > 0 and rate >= high):
            break
        if surplus > 0:
            low, surplus_low = rate, surplus
        else:
            high, surplus_high = rate, surplus
        rate = low + (high - low) * surplus_low / (surplus_low - surplus_high)
    return rate, use


def _run_full(server: Server, system: System, requests: int) -> Outcome:
    return Simulation(system, server.work, SEED, server.look).run(requests, warm_up=requests // 2)


def was_full(setting: Setting, observed: Observed) -> bool:
    """Whether all threads were in use, so that the observed throughput was the most that the setting serves."""
    return (observed.concurrency or 0.0) >= SATURATED * setting.in_all


def run_observed(server: Server, setting: Setting, observed: Observed) -> Outcome:
    """The outcome at an observed load: with a queue that never runs empty if all threads were in use."""
    if was_full(setting, observed):
        return _run_full(server, server.system(setting, observed.throughput), _count(setting))
    return run_load(server, setting, observed.throughput)[0]


def name_limit(use: Utilization) -> Resource:
    """The resource that is used up at the most throughput: CPUs before interpreters before a lock before threads."""
    if use.cpu >= USED_UP["cpu"]:
        return "cpu"
    if use.interpreters >= USED_UP["interpreters"]:
        return "interpreters"
    return "lock" if use.lock >= USED_UP["lock"] else "threads"


def run_load(server: Server, setting: Setting, rate: float) -> tuple[Outcome, Utilization]:
    """The outcome at `rate` requests per second. Beyond the most throughput, the times in service are those of a server
    whose queue never runs empty, and the total times mean nothing."""
    requests = _count(setting)
    system = server.system(setting, rate)
    arrivals = min(rate, _ENOUGH * server.work.bound_throughput(system))
    outcome = Simulation(system, server.work, SEED, server.look).run(requests, arrivals, warm_up=requests // 3)
    return outcome, _utilization(server.work, system, setting, outcome)


def describe_load(
    server: Server,
    setting: Setting,
    *,
    load: float,
    rate: float,
    most: float,
    most_use: Utilization,
    percentiles: bool,
    is_floor: bool = False,
) -> AtLoad:
    """A setting under one load. percentiles: whether the spread of requests is known; is_floor: whether more was
    offered than the load that was seen, so that no time is given."""
    if rate > MOST_LOAD * most:
        return AtLoad(load=load, throughput=rate, sustained=False, utilization=most_use)
    outcome, use = run_load(server, setting, rate)
    if is_floor:
        return AtLoad(load=load, throughput=rate, sustained=True, utilization=use)
    service, total = mean(outcome.service), mean(outcome.total)
    return AtLoad(
        load=load,
        throughput=rate,
        sustained=True,
        response_time=service,
        p95=percentile(sorted(outcome.service), 0.95) if percentiles else None,
        queue_wait=max(0.0, total - service),
        total_p95=percentile(sorted(outcome.total), 0.95) if percentiles else None,
        utilization=use,
    )


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return fsum(values) / len(values)


def _count(setting: Setting) -> int:
    """Enough requests to leave the start behind with many threads."""
    return min(_MOST_REQUESTS, _REQUESTS + _PER_THREAD * setting.in_all)


def _utilization(work: Work, system: System, setting: Setting, outcome: Outcome) -> Utilization:
    return Utilization(
        threads=min(1.0, outcome.busy / setting.in_all),
        interpreters=min(1.0, outcome.locks / setting.processes),
        cpu=min(1.0, (outcome.computing + min(system.others, system.cpus)) / system.cpus),
        lock=min(1.0, outcome.serial_locks / (1 if work.serial_is_shared else setting.processes)),
    )
