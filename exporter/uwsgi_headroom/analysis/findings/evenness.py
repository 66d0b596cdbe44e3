"""Findings about uneven workers: whether unevenness is chance, whether it hurts, and what helps.

Uneven shares are normal for uWSGI: any free thread may take the next request, and the kernel wakes threads in its own
order. They hurt if one worker's interpreter is nearly saturated while others have room, which shows in its response
times.
"""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.balance import ENOUGH_REQUESTS, WorkerFigures
from uwsgi_headroom.analysis.bottlenecks import SPREAD, UNREACHABLE
from uwsgi_headroom.analysis.capacity import fits
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.littles_law import judge_waiting, noticed_wait, ratio, response_time, waiting_clause
from uwsgi_headroom.analysis.routes import describe_route
from uwsgi_headroom.analysis.shortages import lacks_cpu
from uwsgi_headroom.analysis.worker_states import show_calls
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.words.formats import MOST_NUMBERS, duration, factor, mean_count, numbered, percent

UNEVEN = 1.25
"""At or above this hot ratio, unevenness is a finding if it also exceeds the noise floor."""

NAMED, COSTLY = 0.005, 0.10
"""What balancing would save of the response time is named from the first fraction on; unevenness hurts from the second
on."""

LOADED = (0.5, 0.7)
"""CPU seconds per second of the hot worker's interpreter. Below the first value, its threads hardly compete for its
lock, so uneven shares do not make it slow; from the second on, it is nearly saturated."""

SLOWER = (1.2, 1.5)
"""The ratio of the hot worker's response time to the calm workers' that is a warning, and that is critical if its
interpreter is also nearly saturated, and the difference is as long as a wait in the queue that users notice."""

MUCH_SLOWER = (3.0, 30)
"""A worker with at least the second number of requests is much slower at or above this ratio of its response time to
the others'."""

HELD = (10.0, 0.5)
"""So is one with fewer requests, which it may have because they are so slow, at or above this ratio of the time that
they have taken up to now, and of so many busy threads on average."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about uneven workers."""
    balance, hottest = figures.balance, figures.balance.hottest
    workers = len(balance.active)
    ratio_, floor, cost = balance.hot_ratio, balance.noise_floor, balance.cost
    if workers < 2:
        return
    if hottest is None or ratio_ is None or floor is None:
        yield from _enough(figures, workers)
        return
    loaded = _most_loaded(figures)
    is_uneven = ratio_ >= max(UNEVEN, floor)
    # Where shares are even, a worker is slow because it has some long requests, and nobody can spread those.
    if is_uneven and loaded and cost is not None and cost >= COSTLY and _slower(figures, loaded):
        yield _hurts(figures, loaded)
    elif is_uneven:
        if any(worker.ending for worker in figures.server.workers):
            return  # that is why they take none
        load = loaded.interpreter_load if loaded else None
        shares = _shares(figures, ratio_, floor)
        if figures.server.setup.mapped and judge_waiting(figures.longest_wait[0]) != "none":
            yield _unreachable(shares, hottest, figures)
        elif slow := _slow_worker(figures):
            yield _slow(figures.server, shares, *slow)
        elif (rest := _slower_rest(figures, hottest)) is not None:
            yield _fast(shares, hottest, rest)
        elif load is not None and (load < LOADED[0] or (cost is not None and cost < COSTLY)):
            yield _harmless(shares, load, cost, figures.server.setup.mapped)
        else:
            yield _undecided(shares, hottest, load, describe_route(figures.routes, figures.server))
    else:
        yield from _enough(figures, workers)


def _enough(figures: Figures, workers: int) -> Iterator[Finding]:
    """A finding if there are too few requests to judge: 36 (N-1) bring the noise floor down to a hot ratio of 1.8 at
    most."""
    needed = max(36 * (workers - 1), 2 * ENOUGH_REQUESTS)
    if figures.flow.requests < needed:
        yield Finding(
            code="too_few_requests",
            severity="info",
            title="Too few requests to judge how evenly the workers share them.",
            evidence=f"uWSGI completed {figures.flow.requests} requests in {duration(figures.window.seconds)}; at "
            f"least {needed - figures.flow.requests} more requests are needed.",
            meaning="To see more requests, measure for longer (with `check`: a larger `--seconds`).",
        )


def _most_loaded(figures: Figures) -> WorkerFigures | None:
    known = [worker for worker in figures.balance.active if worker.interpreter_load is not None]
    return max(known, key=lambda worker: worker.interpreter_load or 0, default=None)


def _slower(figures: Figures, worker: WorkerFigures) -> bool:
    calm = figures.balance.calm_response_time
    loaded = (worker.interpreter_load or 0) >= LOADED[0]
    return bool(loaded and calm and worker.response_time and worker.response_time >= SLOWER[0] * calm)


def _hurts(figures: Figures, hot: WorkerFigures) -> Finding:
    calm, mean = figures.balance.calm_response_time or 0.0, figures.flow.response_time or 0.0
    load, slow, share = hot.interpreter_load or 0.0, hot.response_time or 0.0, hot.share or 0.0
    idle = _idle_elsewhere(figures, hot)
    spare = f"; {idle:.0f} threads of other workers are idle" if idle and idle >= 1 else ""
    waiting = (
        ""
        if hot.lock_waiters is None
        else f"; {mean_count(hot.lock_waiters)} of this worker's threads wait for the interpreter lock"
    )
    is_noticed = slow >= SLOWER[1] * calm and slow - calm >= noticed_wait(calm)
    is_severe = load >= LOADED[1] and is_noticed and not _lacks_cpu(figures)
    return Finding(
        code="unevenness_hurts",
        severity="critical" if is_severe else "warning",
        title=f"Worker {hot.worker_id} takes too much of the load: its interpreter is the limit.",
        evidence=f"Worker {hot.worker_id} takes {percent(share)} of the requests. The interpreter of this worker uses "
        f"{load:.2f} of a CPU. The requests of this worker take {duration(slow)}, against {duration(calm)} on the less "
        "busy workers; the mean of all workers is "
        f"{duration(mean)}{waiting}{spare}.{describe_route(figures.routes, figures.server)}",
        meaning="The threads of this worker wait for one interpreter lock: in one process, only one thread at a time "
        f"can run Python. If all workers had equal shares, the mean response time would be {duration(mean - calm)} "
        f"({percent(figures.balance.cost or 0)}) shorter.",
        change=even_out(figures),
        clause=f"the interpreter of worker {hot.worker_id} is the limit",
    )


def _lacks_cpu(figures: Figures) -> bool:
    """Whether no CPU is idle: all workers are then slow for that reason, and balancing helps little."""
    return figures.server.cpus is not None and lacks_cpu(figures, figures.server.cpus.count)


def _idle_elsewhere(figures: Figures, hot: WorkerFigures) -> float | None:
    """The mean number of idle threads in the other active workers."""
    others = [worker for worker in figures.balance.active if worker.worker_id != hot.worker_id]
    busy = sum(worker.concurrency or 0.0 for worker in others)
    each = ratio(figures.available or 0, len(figures.balance.active))
    return None if each is None else each * len(others) - busy


def _cause(mapped: bool | None) -> str:
    """Why the shares differ, as far as the sockets of each worker show it."""
    if mapped:
        return "`map-socket` gives workers sockets of their own, and the web server loads these sockets unevenly."
    order = "the kernel does not choose evenly among the free threads"
    if mapped is False:
        return f"Cause: {order}."
    return f"Possible causes: {order}, or `map-socket` gives workers sockets of their own."


def even_out(figures: Figures) -> str:
    """Advice to spread the load of the hottest worker."""
    active = len(figures.balance.active)
    threads = round((figures.available or 0) / active) if active else 0
    if figures.server.setup.mapped:
        return SPREAD
    unless = (
        ""
        if figures.server.setup.mapped is False
        else "; if `map-socket` is set, spread the load over the sockets instead"
    )
    if threads < 2:
        return f"Let every worker take requests from the same sockets{unless}. Then measure again."
    return (
        f"Use more processes and fewer threads, such as {2 * active}x{threads // 2} instead of {active}x{threads} "
        f"({fits(figures.server.memory, active)}){unless}. Make one change at a time, and measure after each change."
    )


def _shares(figures: Figures, hot_ratio: float, floor: float) -> str:
    parts = {worker.worker_id: worker.share or 0.0 for worker in figures.balance.active}
    percents = "/".join(f"{100 * part:.0f}" for part in parts.values())
    shares = f"{numbered('Worker', list(parts))} take {percents} % of the requests"
    if len(parts) > MOST_NUMBERS:
        hottest = max(parts, key=lambda worker_id: parts[worker_id])
        others = [part for worker_id, part in parts.items() if worker_id != hottest]
        shares = (
            f"Worker {hottest} takes {percent(parts[hottest])} of the requests, and each of the other {len(others)} "
            f"workers takes {percent(min(others)).removesuffix(' %')} to {percent(max(others))}"
        )
    return (
        f"{shares}; the largest share is {factor(hot_ratio)} an even share (chance alone explains at most "
        f"{factor(floor)})"
    )


def _harmless(shares: str, load: float, cost: float | None, mapped: bool | None) -> Finding:
    free = "another free thread serves a request just as well"
    why = "the listen queues of these sockets are nearly empty" if mapped else free
    saved = (
        ""
        if cost is None or not NAMED <= cost < COSTLY
        else f"; even shares would save {percent(cost)} of the response time"
    )
    return Finding(
        code="unevenness_harmless",
        severity="info",
        title="Requests are spread unevenly, but this has no impact.",
        evidence=f"{shares}. The busiest interpreter uses {load:.2f} of a CPU{saved}.",
        meaning=f"{_cause(mapped)} Uneven shares are harmless here: {why}.",
    )


def _unreachable(shares: str, hottest: WorkerFigures, figures: Figures) -> Finding:
    return Finding(
        code="uneven",
        severity="info",
        title=f"Worker {hottest.worker_id} takes more requests than the others.",
        evidence=f"{shares}; {waiting_clause(figures.longest_wait[0])}.",
        meaning=UNREACHABLE,
        change=SPREAD,
    )


def _slow_worker(figures: Figures) -> tuple[WorkerFigures, float] | None:
    """The slowest worker, if it is much slower than the others, and their response time in seconds."""
    times = {
        worker.worker_id: worker.response_time or 0.0
        for worker in figures.balance.active
        if worker.requests >= MUCH_SLOWER[1] or (worker.requests and _held(figures, worker))
    }
    slowest = max(figures.balance.active, key=lambda worker: times.get(worker.worker_id, -1.0))
    rest = response_time(worker for worker in figures.window.workers if worker.worker_id != slowest.worker_id)
    return (slowest, rest) if rest and times.get(slowest.worker_id, 0.0) >= MUCH_SLOWER[0] * rest else None


def _held(figures: Figures, worker: WorkerFigures) -> bool:
    """Whether a worker's threads are busy with few requests: by Little's law, each takes much longer than those of the
    other workers."""
    rest = response_time(each for each in figures.window.workers if each.worker_id != worker.worker_id)
    busy, (least, threads) = worker.concurrency or 0.0, HELD
    each = busy * figures.window.seconds / (worker.requests + 1)
    return busy >= threads and rest is not None and each >= least * rest


def _slow(server: ServerRecord, shares: str, slow: WorkerFigures, rest: float) -> Finding:
    return Finding(
        code="uneven",
        severity="info",
        title=f"Requests of worker {slow.worker_id} take much longer than requests of other workers.",
        evidence=f"Requests of this worker take {factor((slow.response_time or 0.0) / rest)} as long as requests of "
        f"the other workers: {duration(slow.response_time or 0.0)} on average, against {duration(rest)}. {shares}.",
        meaning="Either this worker served other kinds of requests than the other workers, or something in this worker "
        "makes requests wait, such as a lock or a broken connection.",
        change=f"Run {show_calls(server, slow.worker_id)} to see what the requests of worker "
        f"{slow.worker_id} wait for.",
    )


def _slower_rest(figures: Figures, hottest: WorkerFigures) -> float | None:
    """The response time of the other workers, in seconds, if they are much slower than the one that takes most
    requests."""
    least, requests = MUCH_SLOWER
    others = [worker for worker in figures.window.workers if worker.worker_id != hottest.worker_id]
    rest = response_time(others)
    enough = min(hottest.requests, sum(worker.requests for worker in others)) >= requests
    if figures.server.setup.mapped or not enough or rest is None or hottest.response_time is None:
        return None
    return rest if rest >= least * hottest.response_time else None


def _fast(shares: str, fast: WorkerFigures, rest: float) -> Finding:
    return Finding(
        code="uneven",
        severity="info",
        title=f"Worker {fast.worker_id} takes more requests than the others, and responds much faster.",
        evidence=f"Requests of this worker take {duration(fast.response_time or 0.0)} on average, and requests of the "
        f"other workers take {duration(rest)}. {shares}.",
        meaning="A worker that responds faster is free sooner for the next request. For example, if a worker has lost "
        "its connection to a database, each of its requests may fail immediately, and this worker then takes most of "
        "the requests. It is also possible that this worker served other kinds of requests than the other workers. "
        "uWSGI does not count the status codes of its responses, so the cause is not known.",
        change="Check the access log of the web server for failed requests, and uWSGI's log for errors of worker "
        f"{fast.worker_id}. If requests of this worker fail, restart the worker: run `kill -HUP` with its PID.",
    )


def _undecided(shares: str, hottest: WorkerFigures, load: float | None, route: str) -> Finding:
    known = (
        "The CPU use of the interpreters is not known"
        if load is None
        else f"The busiest interpreter uses {load:.2f} of a CPU"
    )
    return Finding(
        code="uneven",
        severity="info",
        title=f"Worker {hottest.worker_id} takes more requests than the others.",
        evidence=f"{shares}. {known}.{route}",
        meaning="It is not known whether the uneven shares make requests slower: the response times or the interpreter "
        "loads of the workers are missing.",
        change="Look again under more load, or after a longer time: the missing figures need more requests.",
    )
