"""Computes headroom: the factor by which load can grow before a limit is reached, and which limit that is.

By the utilization law, the use of each resource grows in proportion to throughput, so a resource with utilization U is
full at 1/U times the present load (bottleneck analysis: P. J. Denning, J. P. Buzen, "The Operational Analysis of
Queueing Network Models", Computing Surveys 10 (3), 1978; E. D. Lazowska et al., "Quantitative System Performance",
1984, chapters 3 and 5). This holds as long as the mix of requests does not change.

Beyond the hottest worker's interpreter, at the present shares, latency degrades; beyond the other limits, throughput
does not grow. If several are reached, the CPUs come first and the threads last: threads are busy because they wait for
a lock or an interpreter, and interpreters because they wait for a CPU.

If idle CPU time is known, the server's own use can grow by it: (own + idle) / own. The kernel shares CPUs fairly, so a
server that uses less than LEAST_OWN of them gets that much from other programs if it needs it: a server at rest beside
a batch job has no less headroom for it. Other programs whose use grows with the server's requests (`follow_requests`)
take their part of the idle time: (own + others + idle) / (own + others). If idle time is unknown, all usable CPUs count
as the server's.

Where workers have sockets of their own (`map-socket`), a request waits for the threads of its socket's workers, so the
limit of threads is that of the socket whose workers are busiest. Without any request, there is no load that could grow:
the headroom is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf, sqrt
from statistics import correlation, fmean, pstdev
from types import MappingProxyType
from typing import Any, Literal, get_args

from msgspec import Struct

from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.demand import SocketDemand
from uwsgi_headroom.analysis.littles_law import Flow, compute_flow, is_standing, ratio
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.wait_states import is_contended
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.window import CpuWindow, Window
from uwsgi_headroom.record import Memory
from uwsgi_headroom.words.formats import counted
from uwsgi_headroom.words.template import Facts, fill

Resource = Literal["hottest_interpreter", "interpreters", "threads", "cpu", "lock"]
LIMITS: tuple[Resource, ...] = get_args(Resource)
Limit = Literal[Resource, "other"]
"""`other`: what requests wait for is none of these (see `OtherLimit`)."""

REACHED = 0.85
"""A limit counts as reached at or above this utilization. Eight threads that always computed used 0.86 to 0.94 of a CPU
in their interpreter, and 0.88 if requests also waited for something else."""

LEAST_LOAD = 0.01
"""Below this utilization, headroom is beyond any plan and mostly noise: `far`. For CPUs, the capacity is the server's
use plus idle time, so a small user of a saturated machine may have no headroom."""

LEAST_OWN = 0.05
"""The fraction of the usable CPUs that the workers get whatever other programs do: twenty programs that always compute
leave this much to another. A server that uses less cannot lack CPU."""


class OtherLimit(Struct, frozen=True, gc=False):
    """What limits a server beside its resources. code: of the finding about it, or `errors`; why: a clause."""

    code: str
    why: str


class Headroom(Struct, frozen=True, gc=False, kw_only=True):
    """By how much load can grow. by_limit: the factor until each limit whose use is known and at least a hundredth, 1
    if it is reached. factor: the least of these; first: the limit that comes first, which has that factor or causes
    others to be reached; ceiling: the first of the limits that cap throughput, not only raise latency. All are null on
    a nearly idle server. far: limits at more than 100 times today's load. idle: limits of known use that say nothing
    about load. no_requests: the headroom is not known because no request came in the window. is_upper_bound: CPU or
    busy threads are not visible, and may run out first. unknown: limits that were seen and whose factor is not known
    yet. sleeps: threads come first, at least half of them are in use, and requests mostly sleep: if it is a rate limit
    that makes them sleep, there is no headroom. other: what limits the server, if it is none of its resources; if
    factor is then null, the headroom is not known. usable: by how much load can grow until requests wait noticeably, 1
    or less if they do; usable_first: the limit that they wait for first."""

    by_limit: dict[Limit, float]
    factor: float | None
    first: Limit | None
    ceiling: Limit | None
    far: tuple[Limit, ...] = ()
    idle: tuple[Limit, ...] = ()
    is_upper_bound: bool = False
    no_requests: bool = False
    unknown: tuple[Limit, ...] = ()
    sleeps: bool = False
    other: OtherLimit | None = None
    usable: float | None = None
    usable_first: Limit | None = None

    @property
    def limited_by(self) -> str | None:
        """The code of what limits the server before each of its resources; None if a resource comes first."""
        return self.other.code if self.other and self.first in (None, "other") else None


class ServerLoad(Struct, frozen=True, kw_only=True):
    """The load of a server in a window, and what it has to serve it. None: unknown."""

    flow: Flow
    workers: tuple[WorkerFigures, ...]
    threads: float | None
    """That can serve."""
    cpus: float | None
    """That the workers can use."""
    cpu: CpuShares | None = None
    by_socket: Sequence[SocketDemand] = ()
    """Of sockets that only some workers serve."""
    lock: LockFigures | None = None

    @property
    def active(self) -> list[WorkerFigures]:
        return [worker for worker in self.workers if worker.active]

    @property
    def cpu_use(self) -> float | None:
        """The part in use of the CPUs that the server, and the other programs that grow with it, can use."""
        cpu, cpus = self.cpu, self.cpus or 0.0
        if cpu is None:
            return ratio(sum_if_all_known([worker.interpreter_load for worker in self.active]), cpus)
        used = cpu.own + ((cpu.own and cpu.others_follow and cpu.others) or 0.0)
        return ratio(used, usable_beside_others(used, cpu.idle, cpus)) or 0.0


def compute_headroom(load: ServerLoad, *, lock_is_seen: bool = False, held_up: bool = False) -> Headroom:
    """The headroom of a server. lock_is_seen: whether requests wait for a lock; held_up: or for none of the limits."""
    flow, cpu, lock = load.flow, load.cpu, load.lock
    loads = [worker.interpreter_load for worker in list_locked(load.active)]
    of_threads = [ratio(flow.concurrency, load.threads or 0.0), *[socket.used for socket in load.by_socket]]
    uses: dict[Limit, float | None] = {
        "hottest_interpreter": _most(loads),
        "interpreters": ratio(sum_if_all_known(loads), len(loads)),
        "threads": _most(of_threads),
        "cpu": load.cpu_use,
        "lock": (lock and lock.is_known and lock.use) or None,
    }
    known = {limit: use for limit, use in uses.items() if use is not None}
    most = max(known.values(), default=0.0)
    # Threads that are free while requests wait do not serve: they are no headroom.
    is_free = known.get("threads", 0.0) < REACHED
    if is_free and (is_standing(flow) or (held_up and most < REACHED)):
        return rank_limits(idle=tuple(known))
    if flow.requests == 0 and (not flow.concurrency or most < LEAST_LOAD):
        return rank_limits(idle=tuple(known), no_requests=True)
    used = sorted((1 / use, limit) for limit, use in known.items() if use >= LEAST_LOAD)
    by_limit: dict[Limit, float] = {limit: factor for factor, limit in used}
    far, is_known = tuple([limit for limit in known if limit not in by_limit]), "threads" in known
    return rank_limits(
        by_limit,
        list_causes(cpu),
        far=far * is_known,
        idle=far * (not is_known),  # requests that wait for something else take threads, and no CPU
        unknown=("lock",) if (lock or lock_is_seen) and "lock" not in known else (),
    )


def list_locked(workers: Sequence[WorkerFigures]) -> list[WorkerFigures]:
    """The workers whose CPU time may all be under the interpreter lock. Where a worker uses most of a CPU and hardly
    any of its requests waits for the lock, they compute without it: so do those of others that hardly wait."""
    free = [worker for worker in workers if is_contended(worker) is False]
    is_outside = any((worker.interpreter_load or 0.0) >= REACHED for worker in free)
    return [worker for worker in workers if not (is_outside and worker in free)]


def _most(values: Iterable[float | None]) -> float | None:
    return max((each for each in values if each is not None), default=None)


_CAUSES: tuple[Limit, ...] = ("cpu", "interpreters", "hottest_interpreter", "lock", "other", "threads")
"""Limits in order of cause: each, once reached, causes the later ones to be reached."""


def list_causes(cpu: CpuShares | None) -> tuple[Limit, ...]:
    """The same for a server: beside other programs that use most of the CPUs, requests may wait for something else."""
    return _CAUSES if cpu is None or cpu.own >= cpu.idle + (cpu.others or 0.0) else _CAUSES[1:]


def rank_limits(
    by_limit: Mapping[Limit, float] = MappingProxyType({}),
    causes: Sequence[Limit] = (),
    *,
    far: tuple[Limit, ...] = (),
    idle: tuple[Limit, ...] = (),
    **others: Any,
) -> Headroom:
    """The headroom of these limits. causes: as of `list_causes`; others: further fields."""
    factors = dict(sorted(by_limit.items(), key=lambda pair: pair[1]))
    reached = [limit for limit in causes if factors.get(limit, inf) <= 1 / REACHED]
    order = [*reached, *factors]
    return Headroom(
        by_limit=factors,
        factor=min(factors.values(), default=None),
        first=next(iter(order), None),
        ceiling=next((limit for limit in order if limit != "hottest_interpreter"), None),
        far=far,
        idle=idle,
        is_upper_bound=not {"cpu", "threads"} <= {*factors, *far, *idle},
        **others,
    )


def usable_beside_others(own: float, idle: float, usable: float) -> float:
    """The CPUs that the workers can use beside other programs, which keep what they use but for LEAST_OWN."""
    return max(own + idle, LEAST_OWN * usable)


class CpuShares(Struct, frozen=True, gc=False):
    """The CPUs that the server can use, over the window. own: used by its workers and the processes they waited for;
    idle: unused; others: used by other programs, null if unknown. others_follow: whether the use by others grows with
    the server's requests, null if the last hour is not conclusive."""

    own: float
    idle: float
    others: float | None
    others_follow: bool | None = None


def compute_shares(cpu: CpuWindow | None, others_follow: bool | None = None) -> CpuShares | None:
    """The mean CPU use in a window; None if unknown."""
    if cpu is None or not cpu.measured_seconds:
        return None
    seconds = cpu.measured_seconds
    others = ratio(cpu.others_seconds, seconds)
    return CpuShares(cpu.own_seconds / seconds, cpu.idle_seconds / seconds, others, others_follow)


SLICE_SECONDS = 60.0
"""Length of a slice. CPU time is read once a second, so the error of one reading is a sixtieth."""

LEAST_SLICES = 20
"""The fewest slices that can show a connection."""

LEAST_SPREAD = 0.1
"""The smallest standard deviation of the changes in requests per second, over their mean."""

LEAST_SIGNIFICANCE = 4.0
"""At or above this t-statistic, others follow the requests: by simulation, chance reaches it once in 400 times."""

LEAST_EFFECT = 0.25
"""The smallest fraction of the others' CPU time that must be proportional to the requests. Below it, most of it
does not grow with the load."""


def extract_pair(window: Window) -> tuple[float, float] | None:
    """The figures of a slice for `follow_requests`; None if unknown, or if samples cover less than half of it."""
    shares, throughput = compute_shares(window.cpu), compute_flow(window).throughput
    if throughput is None or shares is None or shares.others is None:
        return None
    return (throughput, shares.others) if window.observed_seconds >= window.seconds / 2 else None


def follow_requests(slices: Sequence[tuple[float, float]]) -> bool | None:
    """Whether the CPU use of other programs grows with the requests; None if there are too few slices, or the load is
    too steady. Each slice: requests per second, and CPUs used by others. The test is the correlation of the *changes*
    from slice to slice, since two series that both drift often correlate (C. W. J. Granger, P. Newbold, 1974): for n
    changes, t = r sqrt((n - 2) / (1 - r²))."""
    if len(slices) < LEAST_SLICES:
        return None
    requests, others = zip(*slices, strict=True)
    changes, of_others = ([after - before for before, after in pairwise(each)] for each in (requests, others))
    alone, spread = pstdev(changes), pstdev(of_others)
    if not any(requests) or alone < LEAST_SPREAD * fmean(requests):
        return None
    together = correlation(changes, of_others) if spread else 0.0
    effect = ratio(together * spread / alone * fmean(requests), fmean(others)) or 0.0
    unexplained = 1 - together**2
    significance = together * sqrt((len(changes) - 2) / unexplained) if unexplained > 0 else inf
    return effect >= LEAST_EFFECT and significance >= LEAST_SIGNIFICANCE


def count_more_workers(memory: Memory) -> int:
    """The number of workers that fit into the available memory; more may fit unless the memory of one is exact."""
    return memory.available // memory.per_worker


def has_no_room(memory: Memory | None) -> bool:
    """Whether it is known that not one more worker fits."""
    return memory is not None and memory.is_exact and not count_more_workers(memory)


_EACH = "[bound? at most ]{size:bytes}[several?  each]"
FIT = "{more:more worker} of " + _EACH + " {more:fits|fit} into the {available:bytes} available"
_REST = ": " + _EACH + ", {available:bytes} available"
SOME_FIT = "of which there is room for {room:plain} [exact? only][bound? for certain]" + _REST
NONE_FITS = "for which there [exact? is][bound? may be] no room" + _REST


def fits(memory: Memory | None, more_processes: int) -> str:
    """Whether so many more processes fit into memory: `2 more workers of 180 MB each fit into the 1.2 GB available`."""
    if memory is None:
        return f"check first that memory suffices for {counted(more_processes, 'more worker')}"
    room = count_more_workers(memory)
    facts: Facts = {"size": memory.per_worker, "available": memory.available, "more": more_processes, "room": room}
    facts |= {"several": more_processes > 1, "exact": memory.is_exact, "bound": not memory.is_exact}
    if room >= more_processes:
        return fill(FIT, facts)
    return fill(SOME_FIT if room else NONE_FITS, facts)
