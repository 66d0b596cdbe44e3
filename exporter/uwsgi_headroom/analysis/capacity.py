"""Headroom: by what factor load can grow before a limit is reached, and which limit that is.

The utilization law says that each resource's use grows in proportion to throughput, so a resource that is used to U of
its capacity reaches it at 1/U times today's load (bottleneck analysis: P. J. Denning, J. P. Buzen, "The Operational
Analysis of Queueing Network Models", Computing Surveys 10 (3), 1978; E. D. Lazowska et al., "Quantitative System
Performance", 1984, chapters 3 and 5). It holds while requests stay of the kind they are.

Four limits: the hottest worker's interpreter at today's shares (latency degrades from there), all interpreters
(throughput ends), the threads, and the CPUs. The least of the last three is the hard ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from uwsgi_headroom.analysis.balance import Balance
from uwsgi_headroom.analysis.littles_law import Flow, ratio
from uwsgi_headroom.history.totals import sum_if_all_known

Limit = Literal["hottest_interpreter", "interpreters", "threads", "cpu"]
LIMITS: tuple[Limit, ...] = get_args(Limit)

ONE_INTERPRETER = 1.0
"""CPUs one worker's interpreter can use: CPython's global lock lets one thread run at a time."""

LEAST_LOAD = 0.01
"""Below this part of a resource in use, its headroom is larger than anybody plans for and mostly noise: absent."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """by_limit: factors, 1 is "reached"; first: the limit with the least of them, which gives out first; ceiling: the
    least of those that end throughput."""

    by_limit: dict[Limit, float]
    first: Limit | None
    ceiling: Limit | None

    @property
    def factor(self) -> float | None:
        """The headroom: the least of all factors."""
        return self.by_limit[self.first] if self.first else None


def compute_headroom(
    flow: Flow, balance: Balance, available_threads: int | None, usable_cpus: float | None
) -> Headroom:
    """The headroom of a server at the load of a window. Limits whose use is not known are left out."""
    loads = [worker.interpreter_load for worker in balance.workers if worker.active]
    hottest, used = max((load for load in loads if load is not None), default=None), sum_if_all_known(loads)
    concurrency = flow.observed if flow.observed is not None else flow.littles_law
    factors: dict[Limit, float | None] = {
        "hottest_interpreter": _factor(ONE_INTERPRETER, hottest),
        "interpreters": _factor(ONE_INTERPRETER * len(loads), used),
        "threads": _factor(available_threads, concurrency),
        "cpu": _factor(usable_cpus, used),
    }
    known = sorted((factor, limit) for limit, factor in factors.items() if factor is not None)
    ceilings = [limit for _, limit in known if limit != "hottest_interpreter"]
    return Headroom(
        by_limit={limit: factor for factor, limit in known},
        first=known[0][1] if known else None,
        ceiling=ceilings[0] if ceilings else None,
    )


def _factor(capacity: float | None, used: float | None) -> float | None:
    if not capacity or used is None or used / capacity < LEAST_LOAD:
        return None
    return ratio(capacity, used)
