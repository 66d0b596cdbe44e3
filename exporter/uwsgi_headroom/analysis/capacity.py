"""Headroom: by what factor load can grow before a limit is reached, and which limit that is.

The utilization law says that each resource's use grows in proportion to throughput, so a resource that is used to U of
its capacity reaches it at 1/U times today's load (bottleneck analysis: P. J. Denning, J. P. Buzen, "The Operational
Analysis of Queueing Network Models", Computing Surveys 10 (3), 1978; E. D. Lazowska et al., "Quantitative System
Performance", 1984, chapters 3 and 5). It holds while requests stay of the kind they are.

CPUs have neighbours, which take part of them. Where what is idle is known, the server's own use can grow by that much:
(own + idle) / own. Neighbours that grow with the server's requests (`neighbours` says which) take their part of what is
idle: (own + others + idle) / (own + others), which is never more. Where it is not known, the usable CPUs are taken for
the server's alone.

Four limits: the hottest worker's interpreter at today's shares (latency degrades from there), all interpreters
(throughput ends), the threads, and the CPUs. The least of the last three is the hard ceiling. Where several are
reached, the CPUs come first and the threads last: threads are full because they wait for an interpreter, and
interpreters because they wait for a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from uwsgi_headroom.analysis.balance import Balance
from uwsgi_headroom.analysis.littles_law import Flow, ratio
from uwsgi_headroom.analysis.neighbours import CpuShares
from uwsgi_headroom.history.totals import sum_if_all_known

Limit = Literal["hottest_interpreter", "interpreters", "threads", "cpu"]
LIMITS: tuple[Limit, ...] = get_args(Limit)

ONE_INTERPRETER = 1.0
"""CPUs one worker's interpreter can use: CPython's global lock lets one thread run at a time."""

REACHED = 0.85
"""Part of a resource in use from which its limit counts as reached: eight threads that computed all the time got 0.86
to 0.94 of a CPU out of their interpreter, and 0.88 where requests waited for something else as well."""

LEAST_LOAD = 0.01
"""Below this part of a resource in use, its headroom is larger than anybody plans for and mostly noise: `far`. Of the
CPUs the resource is what the server uses and what is idle: a small part of a full machine may have no headroom."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """by_limit: factors, 1 is "reached"; first: the limit that comes first, which has the least of them, or is the
    cause of others that are reached; ceiling: the same of those that end throughput; far: limits over 100 times today's
    load away, which are in no other field."""

    by_limit: dict[Limit, float]
    first: Limit | None
    ceiling: Limit | None
    far: tuple[Limit, ...] = ()

    @property
    def factor(self) -> float | None:
        """The headroom: the least of all factors."""
        return min(self.by_limit.values(), default=None)

    @property
    def is_upper_bound(self) -> bool:
        """Whether a limit that cannot be seen from here, CPU, may come first."""
        return "cpu" not in self.by_limit and "cpu" not in self.far


def compute_headroom(
    flow: Flow,
    balance: Balance,
    available_threads: int | None,
    usable_cpus: float | None,
    cpu: CpuShares | None = None,
    others_follow: bool | None = None,
) -> Headroom:
    """The headroom of a server at the load of a window. Limits whose use is not known are left out. others_follow:
    whether the CPU use of others grows with the server's requests."""
    loads = [worker.interpreter_load for worker in balance.workers if worker.active]
    hottest, used = max((load for load in loads if load is not None), default=None), sum_if_all_known(loads)
    concurrency = flow.observed if flow.observed is not None else flow.littles_law
    uses: dict[Limit, float | None] = {
        "hottest_interpreter": _use(hottest, ONE_INTERPRETER),
        "interpreters": _use(used, ONE_INTERPRETER * len(loads)),
        "threads": _use(concurrency, available_threads or None),
        "cpu": _use(used, usable_cpus or None) if cpu is None else _use(*_cpu_room(cpu, bool(others_follow))),
    }
    known = sorted((1 / use, limit) for limit, use in uses.items() if use is not None and use >= LEAST_LOAD)
    by_limit = {limit: factor for factor, limit in known}
    # Where others use most of the CPUs, requests may as well wait for something else.
    causes = _CAUSES if cpu is None or cpu.own >= cpu.idle + (cpu.others or 0.0) else _CAUSES[1:]
    return Headroom(
        by_limit=by_limit,
        first=_first(by_limit, causes),
        ceiling=_first({limit: factor for limit, factor in by_limit.items() if limit != "hottest_interpreter"}, causes),
        far=tuple(limit for limit, use in uses.items() if use is not None and use < LEAST_LOAD),
    )


_CAUSES: tuple[Limit, ...] = ("cpu", "interpreters", "hottest_interpreter", "threads")
"""Each is why those behind it are reached."""


def _first(by_limit: dict[Limit, float], causes: tuple[Limit, ...]) -> Limit | None:
    """The limit of these, which come with the least factor first, that comes first."""
    reached = [limit for limit in causes if by_limit.get(limit, inf) <= 1 / REACHED]
    return reached[0] if reached else next(iter(by_limit), None)


def _cpu_room(cpu: CpuShares, others_follow: bool) -> tuple[float, float]:
    """What those who grow use now, and can use together."""
    used = cpu.own + cpu.others if others_follow and cpu.own and cpu.others is not None else cpu.own
    return used, used + cpu.idle


def _use(used: float | None, capacity: float | None) -> float | None:
    """The part of a resource in use; None where it is not known."""
    if used is None or capacity is None:
        return None
    return ratio(used, capacity) or 0.0
