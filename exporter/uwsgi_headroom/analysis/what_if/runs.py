"""Runs the simulation for one setting: its most throughput, and its times under a load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum

from uwsgi_headroom.analysis.what_if.prediction import AtLoad, Resource, Utilization
from uwsgi_headroom.analysis.what_if.setting import Setting
from uwsgi_headroom.analysis.what_if.simulation import Simulation
from uwsgi_headroom.analysis.what_if.system import Outcome, System, Work

SEED = 1
"""Fixed: the same measurements give the same prediction, and settings differ by their own merit alone."""

MOST_LOAD = 0.97
"""A load counts as sustained up to this fraction of the most throughput. Above it the queue is so long, and depends so
much on small differences, that a figure would mean nothing."""

USED_UP = {"cpu": 0.95, "interpreters": 0.9}
"""Utilization at the most throughput from which on a resource is what limits it; else it is the threads."""

_REQUESTS = 2400
_PER_THREAD = 3
_MOST_REQUESTS = 8000
_ROUNDS = 3
_ENOUGH = 1.5
"""Arrivals above this multiple of what the setting can serve only lengthen the queue, and the simulation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The part of a server that no setting changes. others: CPUs that other programs use, and others_per_request: CPU
    seconds that they use for each request besides."""

    work: Work
    cpus: float
    others: float
    others_per_request: float
    look: Callable[[], None]

    def system(self, setting: Setting, rate: float) -> System:
        """The server in a setting, at `rate` requests per second."""
        return System(
            processes=setting.processes,
            threads=setting.threads,
            cpus=self.cpus,
            others=self.others + rate * self.others_per_request,
        )

    def with_work(self, work: Work) -> Server:
        """The same server with other requests."""
        return replace(self, work=work)


def find_most(server: Server, setting: Setting) -> tuple[float, Utilization]:
    """The most requests per second, and the utilization there: every thread is always busy."""
    requests = _count(setting)
    rate = 0.0
    # Neighbours whose use grows with the requests leave less CPU the more there are: a few rounds agree.
    for _ in range(_ROUNDS if server.others_per_request else 1):
        system = server.system(setting, rate)
        outcome = Simulation(system, server.work, SEED, server.look).run(requests, warm_up=requests // 2)
        rate = outcome.throughput
    return rate, _utilization(system, setting, outcome)


def name_limit(use: Utilization) -> Resource:
    """The resource that is used up at the most throughput: CPUs before interpreters before threads."""
    if use.cpu >= USED_UP["cpu"]:
        return "cpu"
    return "interpreters" if use.interpreters >= USED_UP["interpreters"] else "threads"


def run_load(server: Server, setting: Setting, rate: float) -> tuple[Outcome, Utilization]:
    """The outcome at `rate` requests per second. Beyond the most throughput, the times in service are those of a server
    whose queue never runs empty, and the total times mean nothing."""
    requests = _count(setting)
    system = server.system(setting, rate)
    arrivals = min(rate, _ENOUGH * server.work.bound_throughput(system))
    outcome = Simulation(system, server.work, SEED, server.look).run(requests, arrivals, warm_up=requests // 3)
    return outcome, _utilization(system, setting, outcome)


def describe_load(
    server: Server, setting: Setting, *, load: float, rate: float, most: float, most_use: Utilization, percentiles: bool
) -> AtLoad:
    """A setting under one load. percentiles: whether the spread of requests is known."""
    if rate > MOST_LOAD * most:
        return AtLoad(
            load=load,
            throughput=rate,
            sustained=False,
            response_time=None,
            p95=None,
            queue_wait=None,
            total_p95=None,
            utilization=most_use,
        )
    outcome, use = run_load(server, setting, rate)
    service, total = mean(outcome.service), mean(outcome.total)
    return AtLoad(
        load=load,
        throughput=rate,
        sustained=True,
        response_time=service,
        p95=percentile(outcome.service, 0.95) if percentiles else None,
        queue_wait=max(0.0, total - service),
        total_p95=percentile(outcome.total, 0.95) if percentiles else None,
        utilization=use,
    )


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return fsum(values) / len(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def _count(setting: Setting) -> int:
    """Enough requests to leave the start behind with many threads."""
    return min(_MOST_REQUESTS, _REQUESTS + _PER_THREAD * setting.in_all)


def _utilization(system: System, setting: Setting, outcome: Outcome) -> Utilization:
    return Utilization(
        threads=min(1.0, outcome.busy / setting.in_all),
        interpreters=min(1.0, outcome.locks / setting.processes),
        cpu=min(1.0, (outcome.computing + min(system.others, system.cpus)) / system.cpus),
    )
