"""Judges what a server lacks, CPUs or a lock of the application: the facts on which advice and findings rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import median

from uwsgi_headroom.analysis.capacity import LEAST_OWN, REACHED, list_locked
from uwsgi_headroom.analysis.destinations import DestinationFigures
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import longest_service, ratio
from uwsgi_headroom.analysis.wait_states import MOSTLY, count_streams
from uwsgi_headroom.record import State

CPU_FULL = 0.90
"""CPU is scarce if the workers use at least this fraction of the usable CPUs."""

CPU_WAIT = 0.2
"""The share of the threads' time in the wait for a CPU from which on requests lack one."""

LOCKED = 0.25
"""The share of the threads' time in locks of the application from which on they limit the server, if it is known that
they are nearly always held; and from which on nothing is promised of more threads."""


def are_waits_known(figures: Figures) -> bool:
    """Whether it is known what the threads wait for, for half of their time or more."""
    return figures.waits is not None and figures.share("unknown") <= MOSTLY


def list_loads(figures: Figures) -> list[float]:
    """The known loads of the interpreters of active workers."""
    workers = figures.active or figures.workers
    return [worker.interpreter_load for worker in workers if worker.interpreter_load is not None]


def mean_load(figures: Figures) -> float | None:
    """The mean of those that may be under the interpreter lock; None if none is known."""
    locked = list_locked(figures.active or figures.workers)
    loads = [worker.interpreter_load for worker in locked if worker.interpreter_load is not None]
    return ratio(sum(loads), len(loads))


NO_CPU = 0.75
"""The share of their time in the wait for a CPU from which on requests that last are not stuck."""


def gets_no_cpu(figures: Figures) -> bool:
    """Whether requests wait for a CPU for nearly all of their time, because others use all CPUs: so they last."""
    waits, cpu, cpus = figures.waits, figures.cpu, figures.server.cpu_count
    if waits is None or cpu is None or cpus is None or not is_hardly_any_idle(cpu.idle, cpus):
        return False
    return waits.share("cpu_wait") >= NO_CPU and waits.threads.get("cpu_wait", 0.0) >= 1


def lacks_cpu(figures: Figures, cpus: float) -> bool:
    """Whether the workers use CPU while none is idle and, where that is measured, requests wait for one."""
    cpu = figures.cpu
    if gets_no_cpu(figures):
        return True
    if cpu is None or cpu.own < LEAST_OWN * cpus or not is_hardly_any_idle(cpu.idle, cpus):
        return False
    return not are_waits_known(figures) or waits_for_cpu(figures, CPU_WAIT) or are_children_busy(figures)


def are_children_busy(figures: Figures) -> bool:
    """Whether requests mostly wait for programs that they started, which use most of the CPU time."""
    if not figures.cpu or figures.share("child") < MOSTLY:
        return False
    return figures.cpu.own - sum(list_loads(figures)) >= MOSTLY * figures.cpu.own


OWN_THREADS = 0.2
"""Fewer CPUs than this are not worth a word, whichever threads use them."""


OF_LIBRARY = 0.25
"""Where a library computes in threads of its own, they use at least this part of what the workers use: on few CPUs,
half at most is theirs."""


def find_cpu_of_own_threads(figures: Figures) -> float:
    """The CPUs that threads use which serve no request, if that is a large part of what the workers use; else 0."""
    if figures.waits is None or not are_waits_known(figures):
        return 0.0
    used, part = sum(list_loads(figures)), OF_LIBRARY if figures.server.sample.pool_variable else MOSTLY
    rest = used - figures.waits.threads.get("cpu", 0.0)
    return rest if rest >= max(OWN_THREADS, part * used) else 0.0


def waits_for_cpu(figures: Figures, part: float, *, is_throttled: bool = False) -> bool:
    """Whether requests were measured to wait for a CPU for at least this part of their time in service. Where no CPU is
    idle, or a quota stops the workers, the holders of an interpreter's lock lack one, too: what waits for the lock
    waits for a CPU for the same part of the time as they do."""
    waits = figures.waits
    if waits is None:
        return False
    share, cpu, cpus = waits.share("cpu_wait"), figures.cpu, figures.server.cpu_count
    is_full = cpu is not None and cpus is not None and is_hardly_any_idle(cpu.idle, cpus)
    starved = share >= SOME_WAIT and (is_full or is_throttled)
    if starved and (mean_load(figures) or 0.0) < INTERPRETERS_FULL:
        # Threads that serve no request hold the lock as well.
        running = max(waits.share("cpu"), sum(list_loads(figures)) / waits.total)
        if cpu is not None and cpus is not None and cpu.own >= MOSTLY_OWN * cpus:
            running = 0.0
        share += waits.share("interpreter_lock") * share / (share + running)
    return share >= part


SOME_WAIT = 0.05
"""The share of the time in the wait for a CPU from which on holders of a lock lack one, too."""

MOSTLY_OWN = 0.75
"""From this share of the usable CPUs on, the workers use most of them themselves."""

INTERPRETERS_FULL = 0.75
"""Above this mean load of the interpreters, requests wait for the lock itself: its holders run."""


def is_hardly_any_idle(idle: float, cpus: float) -> bool:
    """Whether hardly any of these CPUs is idle. idle: their mean number."""
    return idle <= (1 - CPU_FULL) * cpus


NAPS = 3.5
"""From so many naps of a request on, it tries something again. The end of a sleep, and being preempted, count as naps
too."""


NEARLY_ASLEEP = 0.8
"""From this share of the time on, sleep has to be explained before anything is added."""


def mostly_sleeps(figures: Figures, least: float = MOSTLY) -> bool:
    """Whether requests mostly sleep: from outside, a sleep for a rate limit is like any other."""
    return figures.share("sleep") >= least


def sleep_between_events(figures: Figures) -> bool:
    """Whether it is shown that requests sleep on purpose."""
    waits = figures.waits
    return waits is not None and count_streams(figures.server) >= MOSTLY * waits.threads.get("sleep", 0.0)


def tries_again(figures: Figures) -> bool:
    """Whether requests mostly sleep, again and again: those that are completed, or those in service now."""
    waits = figures.waits
    if waits is None or waits.nap is None or not mostly_sleeps(figures) or sleep_between_events(figures):
        return False
    ages = [age or 0.0 for worker in figures.server.workers for age in worker.ages.values()]
    lasts = longest_service(figures.flow, figures.window) or median(ages or [0.0])  # stuck requests are a few
    age = waits.share("sleep") * lasts
    return max((waits.per_request or {}).get("sleep", 0.0), age) >= NAPS * waits.nap


MANY_CALLS, SHORT_TURN, _TURNS, ASKS = 50, 0.003, 2, 0.02
"""From so many calls of a request on, its queries are too many, if it is put on a CPU at least so often, in seconds:
after each answer, and once more where it waits for its interpreter; and this share of its time is spent in calls."""


def count_calls(figures: Figures) -> int | None:
    """About how often a request asks backends, at least, or how often in a second if requests are not counted; None if
    that is not often, or not known."""
    turn, time = figures.server.sample.turn, figures.flow.response_time
    is_known = time is not None or not figures.window.is_counted
    if figures.waits is None or not turn or not is_known or turn > SHORT_TURN or figures.share("backend") < ASKS:
        return None
    calls = (1.0 if time is None else time) / turn / _TURNS
    return int(round(calls, 1 - len(str(int(calls))))) if calls >= MANY_CALLS else None


FEWER_CALLS = (
    "[queries, counted? Let each request ask {asked} less often, say with a JOIN (now {queries:plain} times or more).]"
    "[queries, not counted? Let requests ask {asked} less often, say with a JOIN (now {queries:plain} times a second).]"
)


SOLE, MAIN = 0.9, 0.8
"""The part of the threads beside those that wait for a lock from which on one thing is all they do, and from which on
it is what the holder does, if it is a pipe or a disk: others may be on their way to the lock."""


def find_wait_of_holder(figures: Figures) -> DestinationFigures | None:
    """What the thread waits for that holds the lock for which others wait: one backend, if all the rest wait for it, or
    one was seen there whenever others waited."""
    holders, seen = _count_holders(figures), figures.server.sample.holder_backend
    known = [each for each in figures.destinations if each.address]
    of_holder = [each for each in known if each.address == seen and holders < inf]
    return next(iter([*of_holder, *(each for each in known[:1] if each.threads >= SOLE * holders)]), None)


def _count_holders(figures: Figures) -> float:
    waits = figures.waits
    if waits is None or waits.share("lock") < LOCKED or figures.server.sample.holder != "request":
        return inf
    return waits.total - waits.threads.get("lock", 0.0)


def name_wait_of_holder(figures: Figures) -> str:
    """The same as words, also where it is a pipe or a disk, which all processes may share; empty if it is not known."""
    threads: Mapping[State, float] = (figures.waits and figures.waits.threads) or {}
    shared: Sequence[State] = ("pipe", "disk")
    if main := find_wait_of_holder(figures):
        return main.label
    return next((f"a {state}" for state in shared if threads.get(state, 0.0) >= MAIN * _count_holders(figures)), "")


def is_lock_bound(figures: Figures) -> bool:
    """Whether requests mostly wait for a lock of the application or a pool, or for one that is nearly always held."""
    share = figures.share("lock")
    is_held = figures.lock is not None and figures.lock.is_known and figures.lock.hottest >= REACHED
    return share >= MOSTLY or (share >= LOCKED and is_held)
