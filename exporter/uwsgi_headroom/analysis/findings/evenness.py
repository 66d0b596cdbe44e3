"""Findings about uneven workers: whether unevenness is chance, whether it hurts, and what helps.

Uneven shares are normal for uWSGI. They hurt if one worker's interpreter is nearly saturated while others have room,
which shows in its response times.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import SOCKETS_OF_THEIR_OWN, UNREACHABLE
from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.capacity import fits
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.littles_law import judge_waiting, noticed_wait, ratio, response_time, waiting_clause
from uwsgi_headroom.analysis.shortages import lacks_cpu
from uwsgi_headroom.analysis.worker_states import see_calls
from uwsgi_headroom.words.formats import duration, percent
from uwsgi_headroom.words.template import Facts, Private, fill

UNEVEN = 1.25
"""At or above this hot ratio, unevenness is a finding if it also exceeds the noise floor."""

NAMED, COSTLY = 0.005, 0.10
"""What balancing would save of the response time is named from the first fraction on; it hurts from the second on."""

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

SHARE = (
    "Worker {hottest} takes {share:percent} of the requests[next? , and each other worker at most {next}; this is "
    "{hot_ratio:factor} an even share (chance alone explains at most {noise_floor:factor})]"
)

HURTS = Kind(
    code="unevenness_hurts",
    severity="critical or warning",
    title="Worker {hot} takes too much of the load: its interpreter is the limit.",
    evidence="Worker {hot} takes {share:percent} of the requests, and its interpreter uses {interpreter_load:cpu} of a "
    "CPU. Its requests take {response_time:duration}, against {calm:duration} on less busy workers[mean?  ({mean} on "
    "average)][lock_waiters? ; {lock_waiters:mean} of its threads wait for the interpreter lock (GIL)][spare? ; "
    "{spare} threads of other workers are idle].{route}",
    meaning="In one process, only one thread at a time can run Python: the threads of this worker wait for their turn "
    "(GIL). With equal shares, the mean response time would be {saved:duration} ({cost:percent}) shorter.",
    act="[mapped? Let the web server spread the load evenly over the sockets of `map-socket`, or remove "
    "`map-socket`.][not mapped, not split? Let every worker take requests from the same sockets.][split? Use more "
    "processes and fewer threads, such as {split} instead of {now}][fits?  ({fits})][split? .]",
    then="[maybe? If `map-socket` is set, spread the load over the sockets instead. ][not mapped? Make one change at a "
    "time, and measure after each change.]",
    clause="the interpreter of worker {hot} is the limit",
    replaces=("interpreter_bound",),
    runbook="UwsgiWorkersUneven",
    states=("cpu",),
)

UNDECIDED = Kind(
    code="uneven",
    severity="info",
    title="Worker {hottest} takes more requests than the others.",
    evidence=SHARE + ".[load?  The busiest interpreter uses {load:cpu} of a CPU.]{route}",
    meaning="Whether that makes requests slower is unknown: response times or interpreter loads are missing.",
    act="Look again under more load, or after a longer time: the missing figures need more requests.",
    runbook="UwsgiWorkersUneven",
)
OWN_SOCKET_WAITS = replace(
    UNDECIDED, evidence=SHARE + "; {waiting}.", meaning=UNREACHABLE, act=SOCKETS_OF_THEIR_OWN.act
)
ONE_SLOW = replace(
    UNDECIDED,
    title="Requests of worker {slow} take much longer than requests of other workers.",
    evidence=SHARE
    + ". Requests of worker {slow} take {times:factor} as long: {its:duration}, against {rest:duration}.",
    meaning="Either it served other kinds of requests, or something slows them, such as a lock or a broken connection.",
    act="Run {calls} to see what the requests of worker {slow} wait for.",
)
ONE_FAST = replace(
    UNDECIDED,
    title="Worker {hottest} takes more requests than the others, and responds much faster.",
    evidence=SHARE + ". Its requests take {its:duration} on average, and those of the others {rest:duration}.",
    meaning="A worker that responds faster is free sooner for the next request. If it has lost its connection to a "
    "database, for example, each of its requests may fail at once. Or it served other kinds of requests.",
    act="Check the access log of the web server for failed requests.",
    then="Also check uWSGI's log for errors. If the worker's requests fail, restart it: `kill -HUP` with its PID.",
)
HARMLESS = replace(
    UNDECIDED,
    code="unevenness_harmless",
    title="Requests are spread unevenly, but this has no impact.",
    evidence=SHARE
    + ". The busiest interpreter uses {load:cpu} of a CPU[saved? ; even shares would save {saved:percent}].",
    meaning="[mapped? The web server loads the sockets of `map-socket` unevenly. This is harmless here: the listen "
    "queues of these sockets are nearly empty.][not mapped? The kernel does not choose evenly among the free threads. "
    "Another thread serves a request just as well.]",
    act="",
)


def find(figures: Figures) -> Iterator[Finding]:
    balance = figures.balance
    if balance.active < 2 or balance.hottest is None or balance.noise_floor is None or balance.hot_ratio is None:
        return
    if balance.hot_ratio < max(UNEVEN, balance.noise_floor):
        return
    hottest = next(worker for worker in figures.active if worker.worker_id == balance.hottest)
    known = [worker for worker in figures.active if worker.interpreter_load is not None]
    loaded, calm = max(known, key=lambda worker: worker.interpreter_load or 0, default=None), balance.calm_response_time
    # Where shares are even, a worker is slow because it has some long requests, and nobody can spread those.
    is_slower = loaded and calm and (loaded.response_time or 0.0) >= SLOWER[0] * calm
    is_costly = balance.cost is not None and balance.cost >= COSTLY
    if loaded and is_slower and is_costly and (loaded.interpreter_load or 0) >= LOADED[0]:
        yield _hurts(figures, loaded)
    elif not any(worker.ending for worker in figures.server.workers):  # that is why they take none
        yield _explain(figures, hottest, loaded)


def _explain(figures: Figures, hottest: WorkerFigures, loaded: WorkerFigures | None) -> Finding:
    balance, mapped, (flow, _) = figures.balance, bool(figures.server.setup.mapped), figures.longest_wait
    cost, load = balance.cost, getattr(loaded, "interpreter_load", None)
    others = [worker.share or 0.0 for worker in figures.active if worker.worker_id != hottest.worker_id]
    facts: Facts = {"share": hottest.share or 0.0, "next": Private(percent(max(others))), "load": load}
    if mapped and judge_waiting(flow) != "none":
        return OWN_SOCKET_WAITS.found(figures, facts, balance, waiting=waiting_clause(flow))
    if slow := _slow_worker(figures):
        number, its = slow[0].worker_id, slow[0].response_time or 0.0
        facts |= {"slow": number, "its": its, "rest": slow[1], "calls": see_calls(figures.server, number)}
        return ONE_SLOW.found(figures, facts, balance, times=its / slow[1])
    if (rest := _slower_rest(figures, hottest)) is not None:
        return ONE_FAST.found(figures, facts, balance, its=hottest.response_time or 0.0, rest=rest)
    if load is not None and (load < LOADED[0] or (cost is not None and cost < COSTLY)):
        saved = cost is not None and NAMED <= cost < COSTLY and cost
        return HARMLESS.found(figures, facts, balance, saved=saved, mapped=mapped)
    return UNDECIDED.found(figures, facts, balance)


def _hurts(figures: Figures, hot: WorkerFigures) -> Finding:
    calm, mean = figures.balance.calm_response_time or 0.0, figures.flow.response_time or 0.0
    slow, cpus = hot.response_time or 0.0, figures.server.cpus
    is_noticed = slow >= SLOWER[1] * calm and slow - calm >= noticed_wait(calm)
    is_slow = cpus and lacks_cpu(figures, cpus.count)  # all workers are, and balancing helps little
    others = [worker for worker in figures.active if worker.worker_id != hot.worker_id]
    each = ratio(figures.available or 0, figures.balance.active)
    idle = each and each * len(others) - sum(worker.concurrency or 0.0 for worker in others)
    return HURTS.found(
        figures,
        _split(figures),
        hot,
        worse=(hot.interpreter_load or 0.0) >= LOADED[1] and is_noticed and not is_slow,
        hot=hot.worker_id,
        calm=calm,
        mean=Private(duration(mean)),
        spare=idle is not None and idle >= 1 and Private(f"{idle:.0f}"),
        saved=mean - calm,
        cost=figures.balance.cost or 0,
        worker_id=hot.worker_id,
    )


def even_out(figures: Figures) -> str:
    facts = _split(figures)
    return f"{fill(HURTS.act, facts)} {fill(HURTS.then, facts)}".strip()


def _split(figures: Figures) -> Facts:
    active, mapped = figures.balance.active, figures.server.setup.mapped
    threads = round(ratio(figures.available or 0, active) or 0.0)
    splits = not mapped and threads >= 2
    return {
        "mapped": mapped,
        "split": splits and f"{2 * active}x{(threads + 1) // 2}",
        "now": f"{active}x{threads}",
        "fits": splits and Private(fits(figures.server.memory, active)),
        "maybe": mapped is None,
    }


def _slow_worker(figures: Figures) -> tuple[WorkerFigures, float] | None:
    """The slowest worker, if much slower than the others, or busy with few requests, and their response time."""

    def rest_of(worker: WorkerFigures) -> float | None:
        return response_time(each for each in figures.window.workers if each.worker_id != worker.worker_id)

    def is_held(worker: WorkerFigures) -> bool:
        busy, rest, (least, threads) = worker.concurrency or 0.0, rest_of(worker), HELD
        each = busy * figures.window.seconds / (worker.requests + 1)
        return busy >= threads and rest is not None and each >= least * rest

    each = [
        (worker.response_time or 0.0, worker)
        for worker in figures.active
        if worker.requests >= MUCH_SLOWER[1] or (worker.requests and is_held(worker))
    ]
    time, slowest = max(each, key=lambda pair: pair[0], default=(0.0, figures.active[0]))
    rest = rest_of(slowest)
    return (slowest, rest) if rest and time >= MUCH_SLOWER[0] * rest else None


def _slower_rest(figures: Figures, hottest: WorkerFigures) -> float | None:
    least, requests = MUCH_SLOWER
    others = [worker for worker in figures.window.workers if worker.worker_id != hottest.worker_id]
    rest = response_time(others)
    enough = min(hottest.requests, sum(worker.requests for worker in others)) >= requests
    if figures.server.setup.mapped or not enough or rest is None or hottest.response_time is None:
        return None
    return rest if rest >= least * hottest.response_time else None
