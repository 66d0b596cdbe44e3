"""Findings about the event loops of workers with coroutines, whose one thread serves all requests of its worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
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


LOOP_HELD = Kind(
    code="loop_held",
    severity="critical, warning or info",
    title="The event {alike:loop|loops} of {alike:worker} {alike:is|are} blocked by calls[doing?  that are {doing}].",
    evidence="Calls occupied the thread of worker {worst} for {part:percent} of the last {seconds:duration}[longest? , "
    "one of them for {longest}][load? ; this thread used {load:cpu} of a CPU]. In this worker, {serving:request} "
    "{serving:is|are} in service, and {completed:request} {completed:was|were} completed.[others?  Other calls block "
    "{others:worker}.]",
    meaning="With coroutines, one thread serves all requests of a worker. While a call occupies this thread, all "
    "requests of the worker stop, also those on more async cores.",
    act="Run {calls} to find the call[blocked? , then restart {blocked:worker} with {kill}].",
    then="[blocked? SIGTERM does not end {blocked:it|them}, and SIGKILL loses {blocked:its|their} requests. Later: ]"
    "[computes? Move the work of this call out of the event loop into another process, such as a spooler or a mule, or "
    "let the call yield to other requests between its steps (`gevent.sleep(0)`).][threads? Move this call to a thread "
    "beside the event loop (`gevent.get_hub().threadpool`), or to a spooler.][other_loop? Replace the call by one that "
    "yields to other requests while it waits, from a library for the event loop that uWSGI runs.][gevent? Make this "
    "call yield to other requests while it waits: `gevent-early-monkey-patch` does this for Python's own functions "
    "(sockets, locks, sleeping), and a client library that is written in C needs a patch of its own (`psycogreen` for "
    "psycopg2).]",
    clause="[waits? the event {alike:loop|loops} of {alike:worker} {alike:is|are} blocked by calls][also?  that are "
    "{doing}]",
    page_after=60,
    replaces=("request_stuck",),
    runbook="UwsgiLoopHeld",
    limits="always",
)


class _Held(NamedTuple):
    """A loop that is held. part: of the time; seconds: for how long one call held it."""

    part: float
    seconds: float
    worker: WorkerRecord
    window: WorkerWindow
    use: LoopUse

    @property
    def activity(self) -> str:
        """What the call does; empty if that is not known."""
        return name_activity(*self.use.hold)


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about loops that calls hold up."""
    held = _find_held(figures)
    if not held:
        return
    worst, blocked = held[0], _find_blocked(figures, held)
    alike = sorted(each.worker.worker_id for each in held if each.activity == worst.activity)
    makes_wait = worst.part >= HELD[1] or worst.seconds >= LONG
    state, _, how = worst.use.hold
    yield LOOP_HELD.found(
        figures,
        _describe(figures, worst) | _choose_remedy(figures, worst),
        worse=_stand(figures, held) + (worst.part >= MOSTLY or worst.seconds >= LONG),
        alike=alike,
        others=[each.worker.worker_id for each in held if each.worker.worker_id not in alike],
        doing=Private(worst.activity, name_activity(state, "", how)),
        waits=makes_wait,
        also=makes_wait and bool(worst.activity),
        calls=see_calls(figures.server, worst.worker.worker_id),
        blocked=sorted(worker.worker_id for worker in blocked),
        kill=Private(kill("KILL", blocked), "SIGKILL"),
        worker_id=alike[0] if len(alike) == 1 else None,
    )


def _stand(figures: Figures, held: list[_Held]) -> bool:
    """Whether nothing goes on: every loop is held, and calls hold it for long, or requests wait for it; or no request
    was completed, and all that are in service are in loops that are held."""
    always = {each.worker.worker_id: each for each in held if each.part >= ALWAYS}
    serving = [worker for worker in figures.server.workers if worker.state == "accepting"]
    with_requests = {worker.worker_id for worker in serving if worker.ages}
    if not figures.flow.requests and with_requests and with_requests <= always.keys():
        return True
    is_long = all(each.seconds >= LONG for each in always.values())
    is_felt = is_long or not figures.flow.requests or shows_a_limit(figures.flow)
    return bool(serving) and len(always) >= len(serving) and is_felt


def _find_held(figures: Figures) -> list[_Held]:
    """The loops that are held, the worst first."""
    waits, seconds = figures.server.waits, figures.window.observed_seconds
    uses = waits.loops if waits and waits.loops else {}
    windows = {worker.worker_id: worker for worker in figures.window.workers}
    found = []
    for worker in figures.server.workers:
        use, window = uses.get(worker.worker_id), windows.get(worker.worker_id)
        part = ratio(window.loop_held_seconds, seconds) if window and window.loop_held_seconds is not None else None
        if use is None or window is None or part is None:
            continue
        if use.held:  # a call that computes is known only after a CPU second, which takes long where CPUs are scarce
            part = max(part, min(1.0, use.longest / seconds))
        if part >= HELD[0] or use.longest >= LONG:
            found.append(_Held(part, use.longest, worker, window, use))
    return sorted(found, key=lambda each: (-each.part, -each.seconds))


def find_part_held(figures: Figures) -> float | None:
    """The part of the time for which calls hold the loop that they hold most; None if none is."""
    held = _find_held(figures)
    return held[0].part if held else None


def _describe(figures: Figures, worst: _Held) -> Facts:
    window = worst.window
    load = ratio(window.cpu_seconds, figures.window.seconds) if window.cpu_seconds is not None else None
    return {
        "worst": worst.worker.worker_id,
        "part": worst.part,
        "seconds": figures.window.observed_seconds,
        "longest": worst.seconds >= 1 and duration(worst.seconds),
        "load": load,
        "serving": len(worst.worker.ages),
        "completed": window.requests,
    }


def _find_blocked(figures: Figures, held: list[_Held]) -> list[WorkerRecord]:
    """The workers that something blocks for as long as a stuck request, with all of their requests: it was seen for so
    long, or a shorter window saw no request of the worker end, and the oldest is as old."""

    def is_blocked(each: _Held) -> bool:
        oldest = max((age or 0.0 for age in each.worker.ages.values()), default=0.0)
        goes_on = each.part < ALWAYS or each.window.requests > 0
        return oldest >= figures.stuck_seconds and (each.seconds >= figures.stuck_seconds or not goes_on)

    return [each.worker for each in held if each.use.held and is_blocked(each)]


def _choose_remedy(figures: Figures, worst: _Held) -> Facts:
    """What helps against a call: one of these facts is known. More cores would only be held as well."""
    hold, options = worst.use.hold, figures.server.setup.options
    computes = hold.state in ("cpu", "cpu_wait", "interpreter_lock")
    threads = not computes and (hold.how == "file" or hold.state in ("lock", "disk", "child"))
    yields = not computes and not threads
    is_other = options.gevent is None and options.complete
    return {
        "computes": computes,
        "threads": threads,
        "other_loop": yields and is_other,
        "gevent": yields and not is_other,
    }
