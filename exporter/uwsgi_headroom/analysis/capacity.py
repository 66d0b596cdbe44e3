"""Computes headroom: the factor by which load can grow before a limit is reached, and which limit that is.

By the utilization law, the use of each resource grows in proportion to throughput, so a resource with utilization U is
full at 1/U times the present load (bottleneck analysis: P. J. Denning, J. P. Buzen, "The Operational Analysis of
Queueing Network Models", Computing Surveys 10 (3), 1978; E. D. Lazowska et al., "Quantitative System Performance",
1984, chapters 3 and 5). This holds as long as the mix of requests does not change.

Other programs ("neighbours") also use the CPUs. If idle CPU time is known, the server's own use can grow by it: (own +
idle) / own. Neighbours whose use grows with the server's requests (see `neighbours`) take their part of the idle time:
(own + others + idle) / (own + others), which is never more. If idle time is unknown, all usable CPUs count as the
server's.

There are four limits: the hottest worker's interpreter at the present shares (beyond it, latency degrades), all
interpreters (beyond them, throughput does not grow), the threads, and the CPUs. The smallest factor of the last three
is the hard ceiling. If several limits are reached, the CPUs come first and the threads last: threads are busy because
they wait for an interpreter, and interpreters because they wait for a CPU.
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
"""CPUs that one worker's interpreter can use: CPython's global lock lets one thread run at a time."""

REACHED = 0.85
"""A limit counts as reached at or above this utilization. Eight threads that always computed used 0.86 to 0.94 of a CPU
in their interpreter, and 0.88 if requests also waited for something else."""

LEAST_LOAD = 0.01
"""Below this utilization, headroom is beyond any plan and mostly noise: `far`. For CPUs, the capacity is the server's
use plus idle time, so a server that uses little of a saturated machine may have no headroom."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """The headroom of a server.

    by_limit: the factor of each limit; 1 means that the limit is reached.
    first: the limit with the smallest factor, or the one that causes the others if several are reached.
    ceiling: the same among the limits of throughput.
    far: limits beyond 100 times the present load; no other field includes them.
    """

    by_limit: dict[Limit, float]
    first: Limit | None
    ceiling: Limit | None
    far: tuple[Limit, ...] = ()

    @property
    def factor(self) -> float | None:
        """The headroom: the smallest factor."""
        return min(self.by_limit.values(), default=None)

    @property
    def is_upper_bound(self) -> bool:
        """Whether the CPU limit is unknown, and may come first."""
        return "cpu" not in self.by_limit and "cpu" not in self.far


def compute_headroom(
    flow: Flow,
    balance: Balance,
    available_threads: int | None,
    usable_cpus: float | None,
    cpu: CpuShares | None = None,
    others_follow: bool | None = None,
) -> Headroom:
    """The headroom of a server at the load of a window. Limits with unknown use are left out. others_follow: whether
    the CPU use of other programs grows with the server's requests."""
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
    # If other programs use most of the CPUs, requests may just as well wait for something else.
    causes = _CAUSES if cpu is None or cpu.own >= cpu.idle + (cpu.others or 0.0) else _CAUSES[1:]
    return Headroom(
        by_limit=by_limit,
        first=_first(by_limit, causes),
        ceiling=_first({limit: factor for limit, factor in by_limit.items() if limit != "hottest_interpreter"}, causes),
        far=tuple(limit for limit, use in uses.items() if use is not None and use < LEAST_LOAD),
    )


_CAUSES: tuple[Limit, ...] = ("cpu", "interpreters", "hottest_interpreter", "threads")
"""Limits in order of cause: each, once reached, causes the later ones to be reached."""


def _first(by_limit: dict[Limit, float], causes: tuple[Limit, ...]) -> Limit | None:
    """The limit that comes first. `by_limit` is sorted, smallest factor first."""
    reached = [limit for limit in causes if by_limit.get(limit, inf) <= 1 / REACHED]
    return reached[0] if reached else next(iter(by_limit), None)


def _cpu_room(cpu: CpuShares, others_follow: bool) -> tuple[float, float]:
    """The CPUs that the server, and the neighbours that grow with it, use now, and those that they can use."""
    used = cpu.own + cpu.others if others_follow and cpu.own and cpu.others is not None else cpu.own
    return used, used + cpu.idle


def _use(used: float | None, capacity: float | None) -> float | None:
    """The utilization of a resource; None if unknown."""
    if used is None or capacity is None:
        return None
    return ratio(used, capacity) or 0.0
