"""Sizes the next step: how many threads or processes the offered work needs, what they serve, and what stops the step.

The step is for the offered work (`demand`) with a reserve: where all of it was served, it may grow by half
(`Figures.growth`), and random arrivals must wait less than the threshold of a wait that shows a limit, by Erlang's
formula for M/M/c (L. Kleinrock, "Queueing Systems", volume 1, 1975, section 3.5). Where it is a floor, every request in
the system must find a thread.

What a setting serves at most is the closed form of `repairman`, with the CPUs that the workers use now or that are
idle.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from math import ceil, inf, sqrt
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.capacity import count_more_workers, has_no_room, list_locked, usable_beside_others
from uwsgi_headroom.analysis.demand import SATURATED, count_refused, was_full
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import noticed_wait, ratio, shows_a_limit
from uwsgi_headroom.analysis.repairman import Model
from uwsgi_headroom.analysis.shortages import LOCKED
from uwsgi_headroom.analysis.usable import erlang_wait
from uwsgi_headroom.analysis.what_if.measured import MOST_IN_ALL, MOST_PROCESSES, MOST_THREADS
from uwsgi_headroom.analysis.what_if.predict import own_waiting
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.record import State

RESERVE = 0.75
"""The part of the threads, and of the most throughput, that the offered work takes after the step. At or above it the
finding about busy threads warns."""

LARGEST_STEP = 8
"""The largest factor by which a step raises processes for a floor: a queue that is full nearly all the time says little
of how many more are needed, and each takes memory that grows."""

MARGIN = 0.93
"""The part of the model's most throughput that is promised. On a quiet machine (ten settings of a real uWSGI,
docs/dev/evidence.md), one served 59.5 requests/s where the model has 63.7, the others up to 6 % less."""

WORTH = 0.97
"""The part of what a larger setting serves for which a smaller one will do."""

CONTENDED = 0.9
"""Below this part of what the threads would serve if none waited for an interpreter or a CPU, one of these is the
limit."""

BURSTY = 2.0
"""With a wait of more than this multiple of Erlang's, arrivals come in bursts."""

LEAST_BUSY = 0.01
"""Below this part of the time with all threads busy, too few samples say how many requests wait then."""

Stop = Literal["memory", "cpu", "interpreters", "size", "step"]
"""What keeps a step below the offered work. size: no larger setting is sensible; step: LARGEST_STEP."""


class Step(Struct, frozen=True):
    """The advised setting."""

    processes: int
    threads: int
    """Of each process; 0 if unknown."""
    most: float | None
    """Requests per second that it serves at least, once enough come; None if unknown."""
    wanted: int
    """The processes, or threads per process, that the offered work needs by the model."""
    stopped_by: Stop | None
    """Why the step is smaller, or serves less, than the offered work needs; None if nothing stops it."""


def more_threads(figures: Figures, each: int) -> Step:
    """The step to more threads per process. each: threads per process now. An interpreter or a CPU may stop it."""
    processes, model = len(figures.server.workers), measure(figures)
    largest = max(each + 1, min(MOST_THREADS, MOST_IN_ALL // processes))
    wanted = max(each + 1, ceil((count_needed_threads(figures) or 0.0) / processes))
    threads, stop = min(wanted, largest), _stop_at(wanted, largest)
    if model is None:
        return Step(processes, threads, None, wanted, stop)
    serve = partial(model.most_throughput, processes)
    if serve(threads) < CONTENDED * processes * threads / (model.computing + model.unlocked + model.waiting):
        stop = "cpu" if WORTH * model.cpus <= processes else "interpreters"
        larger = range(each + 1, threads)
        threads = larger.start + bisect_left(larger, WORTH * serve(threads), key=serve)
    return Step(processes, threads, _promise(figures, model, processes, threads), wanted, stop)


def _stop_at(wanted: int, largest: int) -> Stop | None:
    return None if wanted <= largest else "size"


def more_processes(figures: Figures) -> Step:
    """The step to more processes, of as many threads as now."""
    processes, each, model = len(figures.server.workers), figures.threads_each, measure(figures)
    largest = max(processes + 1, min(MOST_PROCESSES, MOST_IN_ALL // max(1, each)))
    wanted = max(processes + 1, ceil((count_needed_threads(figures) or 0.0) / each) if each else 0)
    lacks_cpu = False
    if model is not None and each:
        rate, most = _find_wanted_rate(figures, model), WORTH * model.of_cpus
        lacks_cpu, counts = most < rate, range(processes + 1, largest)
        serve = partial(model.most_throughput, threads=each)
        enough = counts.start + bisect_left(counts, min(rate, most), key=serve)
        # If the CPUs are the limit, more workers than use them up would only share them.
        wanted = enough if lacks_cpu else max(wanted, enough)
    count = min(wanted, largest)
    stop: Stop | None = "cpu" if lacks_cpu else _stop_at(wanted, largest)
    if figures.demand.is_floor and count > LARGEST_STEP * processes:
        count, stop = LARGEST_STEP * processes, "step"
    memory = figures.server.memory
    if memory is not None and memory.is_exact and 0 < count_more_workers(memory) < count - processes:
        count, stop = processes + count_more_workers(memory), "memory"
    serves = _promise(figures, model, count, each) if model and each and not has_no_room(memory) else None
    return Step(count, each, serves, wanted, stop)


def _promise(figures: Figures, model: Model, processes: int, threads: int) -> float | None:
    """What a setting serves at least; None where requests wait for something of which the model knows nothing."""
    if model.unlocked or (figures.waits and sum(map(figures.waits.share, UNKNOWN_TO_MODEL)) >= LOCKED):
        return None  # nor is it known which part of its CPU time is under the interpreter lock after all
    promised, lock = min(MARGIN, model.efficiency) * model.most_throughput(processes, threads), figures.lock
    if lock is None or not lock.is_known:
        return promised
    more = processes / len(figures.server.workers) if lock.scope == "worker" else 1.0
    return min(promised, lock.least_limit * more)


UNKNOWN_TO_MODEL: tuple[State, ...] = ("lock", "disk", "child", "unknown")
"""What may run out while requests wait for it: a promise would suppose that it never does."""


def count_needed_threads(figures: Figures) -> float | None:
    """The threads that the offered work needs, with the reserve; None if the offered work is unknown."""
    demand, flow = figures.demand, figures.flow
    if demand.at_once is None:
        return None
    in_bursts = count_at_once_in_bursts(figures)
    if demand.is_floor:
        overload, at_once = find_overload(figures), demand.at_once + demand.retrying
        if overload is not None:
            at_once = _expect(figures, overload) * (figures.ceiling or 0)
        return max(at_once / RESERVE, in_bursts)
    offered = flow.concurrency or 0.0
    needed = max(1, ceil(figures.growth * offered / RESERVE))
    if flow.response_time:
        allowed = noticed_wait(flow.response_time)
        while erlang_wait(needed, offered, flow.response_time) >= allowed:
            needed += 1
        # A wait falls at least as threads rise: the same work is done by more. Few bursts need a thread per request.
        in_bursts = min(in_bursts, (figures.ceiling or 0) * (flow.queue_wait or 0.0) / allowed)
    return max(needed, in_bursts)


def find_overload(figures: Figures) -> float | None:
    """How many times as many requests arrive as the threads serve, by the part of the time for which a queue takes no
    more; None if the threads are not all busy, no queue was full, or the number in the system says less than that.

    Each request that is served leaves a place in the queue, until the next one arrives: at r times the rate of service,
    for 1/r of the time, whatever the times in service are (by simulation to within 2 %). Clients who were refused and
    try again count as arrivals: where the kernel counts refusals, the factor is at most that of all attempts. Of a
    history without these times, the part follows from that of the last two places, 1 - 1/r² (M/M/c/K for large K).
    """
    window, busy, demand = figures.window, figures.flow.observed, figures.demand
    if busy is None or not figures.ceiling or busy < SATURATED * figures.ceiling or not window.observed_seconds:
        return None
    parts = [window.queue_full_seconds[name] for name in window.queue_full_seconds if was_full(window, name)]
    full = min(1.0, max(parts, default=0.0) / window.observed_seconds)
    brimming = window.brimming_seconds
    refusing = 1 - sqrt(1 - full) if brimming is None else brimming / window.observed_seconds
    if not full or refusing >= 1:
        return None
    overload = 1 / (1 - refusing)
    at_once = (demand.at_once or 0.0) + demand.retrying
    if UNSURE * overload * figures.ceiling >= at_once:
        return None
    refused = ratio(count_refused(window, figures.server.queues), figures.flow.throughput or 0.0)
    return min(overload, 1 + (inf if refused is None else refused))


UNSURE = 1.2
"""By how much the step exceeds what `find_overload` says: its samples are few, and a queue that fills during the window
is full for a part of it."""


def _expect(figures: Figures, overload: float) -> float:
    """The overload to expect: counted attempts have the retries in them, which end once all are served."""
    return overload * (UNSURE if count_refused(figures.window, figures.server.queues) is None else 1.0)


def count_at_once_in_bursts(figures: Figures) -> float:
    """The mean number of requests in the system while all threads are busy, if requests come in bursts; else 0."""
    flow, threads, window = figures.flow, figures.ceiling, figures.window
    if not threads or flow.observed is None or not flow.response_time or not shows_a_limit(flow):
        return 0.0
    busy = ratio(window.full_seconds, window.observed_seconds) or 0.0
    expected = erlang_wait(threads, flow.observed, flow.response_time)
    if busy < LEAST_BUSY or (flow.queue_wait or 0.0) <= BURSTY * expected:
        return 0.0
    return threads + (flow.queue_length or 0.0) / busy


def measure(figures: Figures) -> Model | None:
    """The model of a server; None if its throughput or its response time is unknown."""
    flow, processes, each = figures.flow, len(figures.server.workers), figures.threads_each
    if not flow.response_time or not flow.throughput or not processes:
        return None
    cpu = sum_if_all_known([worker.cpu_seconds for worker in figures.window.workers])
    computing = min(ratio(cpu, flow.completed) or 0.0, flow.response_time)
    waits, waiting = (figures.waits and figures.waits.per_request) or {}, flow.response_time - computing
    if any(waits.values()):
        waiting = own_waiting(waits, flow.response_time)
    usable = figures.server.cpu_count or inf
    if figures.cpu and usable < inf:
        usable = usable_beside_others(figures.cpu.own, figures.cpu.idle, usable)
    loads = {each: each.interpreter_load or 0.0 for each in figures.workers}
    part = ratio(sum(loads[each] for each in list_locked(figures.workers)), sum(loads.values())) or 0.0
    waiting = waiting if computing + waiting else flow.response_time
    model = Model(part * computing, waiting, usable, unlocked=(1 - part) * computing)
    if not each or (flow.observed or 0.0) < SATURATED * (figures.ceiling or inf):
        return model
    served = flow.throughput / model.most_throughput(processes, each)
    return replace(model, efficiency=min(1.0, max(LEAST_EFFICIENCY, served)))


LEAST_EFFICIENCY = 0.5
"""A server that serves a smaller part of the model's throughput while all its threads are busy is limited by something
that the model does not know, and that more threads may pass by."""


def _find_wanted_rate(figures: Figures, model: Model) -> float:
    """Requests per second that a setting must serve at most; of a floor, if each request found a thread at once."""
    demand, throughput = figures.demand, figures.flow.throughput or 0.0
    if not demand.is_floor or demand.at_once is None:
        return figures.growth * throughput / RESERVE
    if overload := find_overload(figures):
        return _expect(figures, overload) * throughput / RESERVE
    at_once = (demand.at_once + demand.retrying) / RESERVE
    return max(throughput / RESERVE, at_once / (model.computing + model.unlocked + model.waiting))
