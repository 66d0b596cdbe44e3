"""Findings about event loops, each of which serves many requests in one thread: what holds it, or threads beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.waits import COMPUTING, NO_ANSWER
from uwsgi_headroom.analysis.littles_law import ratio, shows_a_limit
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import kill, see_calls
from uwsgi_headroom.history.window import WorkerWindow
from uwsgi_headroom.record import LoopUse, WorkerRecord
from uwsgi_headroom.words.formats import duration
from uwsgi_headroom.words.states import name_activity
from uwsgi_headroom.words.template import Facts, Private

HELD = (0.1, 0.25)
"""The part of the time in which a call holds a loop that is good to know, and that makes requests wait: a request that
comes at a random moment then waits for a call in every fourth case."""

ALWAYS = 0.75
"""If the loops of all workers are held for this part of the time, hardly anything else is served."""

LONG = 3.0
"""Seconds for which one call holds a loop that users notice, however rare it is."""

SOME_HELPERS, MOSTLY_LOOK_UP = 4, 0.75
"""From so many threads beside a loop on, of which this part looks up names, lookups wait for their turn."""

LOOP_HELD = Kind(
    code="loop_held",
    severity="critical, warning or info",
    title="The event {ids:loop|loops} of {ids:worker} {ids:is|are} blocked by calls[doing?  that are {doing}].",
    evidence="Calls occupied the thread of worker {worker_id} for {part:percent} of the last {seconds:duration}"
    "[longest? , one of them for {longest}][load? ; this thread used {load:cpu} of a CPU]. In this worker, "
    "{serving:request} {serving:is|are} in service[counted? , and {completed:request} {completed:was|were} completed]."
    "[others?  Other calls block {others:worker}.]",
    meaning="One thread serves all requests of a worker: while a call occupies it, they stop, on all async cores.",
    act="[unpatched? Set `gevent-early-monkey-patch`, unless the application calls `monkey.patch_all()` itself]"
    "[not unpatched? Run {calls} to find the call][blocked? , then restart {blocked:worker} with {kill}].",
    then="[unpatched? Else run {calls} to find the call. ][blocked? SIGTERM does not end {blocked:it|them}, and "
    "SIGKILL loses {blocked:its|their} requests. Later: ][computes? Move the work of this call into another process, "
    "such as a spooler or a mule, or let it yield between its steps (`gevent.sleep(0)`).][threads? Move this call to a "
    "thread beside the event loop (`gevent.get_hub().threadpool`), or to a spooler.][other_loop? Replace the call by "
    "one that yields while it waits, from a library for the event loop that uWSGI runs.][gevent? Make this call yield "
    "while it waits: `gevent-early-monkey-patch` does this for Python's own functions, and a library in C needs its "
    "own patch (`psycogreen` for psycopg2).]",
    clause="[waits? the event {ids:loop|loops} of {ids:worker} {ids:is|are} blocked by calls][also?  that are {doing}]",
    page_after=60,
    replaces=("request_stuck",),
    runbook="UwsgiLoopHeld",
    limits="always",
)
LOOK_UP = replace(
    NO_ANSWER,
    title="Requests wait for lookups of names, which hold the threads beside the event loops.",
    evidence="Of the {threads:mean} threads beside the loop of a worker, {waiting:mean} wait for name servers.",
    meaning="A pool of 10 threads looks up names for gevent, unless `GEVENT_RESOLVER` selects another way: further "
    "lookups wait for their turn.",
    act="Run a DNS resolver with a cache on this host, and check the name servers in /etc/resolv.conf.",
    then="Keep connections open: an open connection needs no lookup.",
    clause="lookups of names hold the threads beside the event loops",
)


class _Held(NamedTuple):
    """A loop that is held. part: of the time; seconds: for how long one call held it."""

    part: float
    seconds: float
    worker: WorkerRecord
    window: WorkerWindow
    use: LoopUse

    worker_id: int
    activity: str


def find_lookups(figures: Figures) -> Iterator[Finding]:
    """The lookups of names that requests on event loops wait for, which no loop shows."""
    waiting, threads = figures.server.waits.lookups if figures.server.waits else (0.0, 0.0)
    if threads >= SOME_HELPERS and waiting >= MOSTLY_LOOK_UP * threads:
        yield LOOK_UP.found(figures, waiting=waiting, threads=threads)


def find_held_loops(figures: Figures) -> Iterator[Finding]:
    held = _find_held(figures)
    if not held:
        return
    worst, blocked = held[0], _find_blocked(figures, held)
    alike = sorted(each.worker_id for each in held if each.activity == worst.activity)
    makes_wait, cpu = worst.part >= HELD[1] or worst.seconds >= LONG, worst.window.cpu_seconds
    state, _, how = worst.use.hold
    yield LOOP_HELD.found(
        figures,
        _choose_remedy(figures, worst),
        worst,
        worse=_stand(figures, held) + (worst.part >= MOSTLY or worst.seconds >= LONG),
        ids=alike,
        others=[each.worker_id for each in held if each.worker_id not in alike],
        doing=Private(worst.activity, name_activity(state, "", how)),
        waits=makes_wait,
        also=makes_wait and bool(worst.activity),
        calls=see_calls(figures.server, worst.worker_id),
        blocked=sorted(worker.worker_id for worker in blocked),
        kill=Private(kill("KILL", blocked), "SIGKILL"),
        seconds=figures.window.observed_seconds,
        longest=worst.seconds >= 1 and duration(worst.seconds),
        load=ratio(cpu, figures.window.seconds),
        serving=len(worst.worker.ages),
        completed=worst.window.requests,
    )


def _stand(figures: Figures, held: list[_Held]) -> bool:
    """Whether nothing goes on: every loop is held for long, or none was completed and those in service are held."""
    always = {each.worker_id: each for each in held if each.part >= ALWAYS}
    serving = [worker for worker in figures.server.workers if worker.state == "accepting"]
    with_requests = {worker.worker_id for worker in serving if worker.ages}
    if figures.flow.requests == 0 and with_requests and with_requests <= always.keys():
        return True
    is_long = all(each.seconds >= LONG for each in always.values())
    is_felt = is_long or figures.flow.requests == 0 or shows_a_limit(figures.flow)
    return bool(serving) and len(always) >= len(serving) and is_felt


def _find_held(figures: Figures) -> list[_Held]:
    waits, seconds = figures.server.waits, figures.window.observed_seconds
    uses = (waits and waits.loops) or {}
    windows = {worker.worker_id: worker for worker in figures.window.workers}
    found = []
    for worker in figures.server.workers:
        use, window = uses.get(worker.worker_id), windows.get(worker.worker_id)
        part = ratio(getattr(window, "loop_held_seconds", None), seconds)
        if use is None or window is None or part is None:
            continue
        # Where no request is counted, a loop that only looks for a free core makes no progress that shows.
        if not figures.window.is_counted and worker.worker_id in figures.polling and use.hold.state in COMPUTING:
            continue
        if use.held:  # a call that computes is known only after a CPU second: long where CPUs are scarce
            part = max(part, min(1.0, use.longest / seconds))
        if part >= HELD[0] or use.longest >= LONG:
            held = worker, window, use, worker.worker_id, name_activity(*use.hold)
            found.append(_Held(part, use.longest, *held))
    return sorted(found, key=lambda each: (-each.part, -each.seconds))


def find_part_held(figures: Figures) -> float | None:
    """The part of the time for which calls hold the loop that they hold most; None if none is."""
    return next((each.part for each in _find_held(figures)), None)


def _find_blocked(figures: Figures, held: list[_Held]) -> list[WorkerRecord]:

    def is_blocked(each: _Held) -> bool:
        oldest = max((age or 0.0 for age in each.worker.ages.values()), default=0.0)
        goes_on = each.part < ALWAYS or each.window.requests > 0 or not figures.window.is_counted
        return oldest >= figures.stuck_seconds and (each.seconds >= figures.stuck_seconds or not goes_on)

    return [each.worker for each in held if each.use.held and is_blocked(each)]


def _choose_remedy(figures: Figures, worst: _Held) -> Facts:
    hold, options = worst.use.hold, figures.server.setup.options
    computes = hold.state in COMPUTING
    threads = not computes and (hold.how == "file" or hold.state in ("lock", "disk", "child"))
    yields, is_other = not computes and not threads, options.gevent is None and options.complete
    other_loop, gevent = yields and is_other, yields and not is_other
    is_patched = options.gevent_monkey_patch or options.gevent_early_monkey_patch or not options.complete
    facts: Facts = {"computes": computes, "threads": threads, "other_loop": other_loop, "gevent": gevent}
    return facts | {"unpatched": gevent and not is_patched}
