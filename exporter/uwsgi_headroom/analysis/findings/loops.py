"""Findings about the event loops of workers with coroutines, whose one thread serves all requests of its worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding, Severity
from uwsgi_headroom.analysis.littles_law import ratio, shows_a_limit
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import kill, show_calls
from uwsgi_headroom.history.window import WorkerWindow
from uwsgi_headroom.record import LoopUse, WorkerRecord
from uwsgi_headroom.words.formats import counted, duration, numbered, percent, say_completed
from uwsgi_headroom.words.states import name_activity

HELD = (0.1, 0.25)
"""The part of the time in which a call holds a loop that is good to know, and that makes requests wait: a request that
comes at a random moment then waits for a call in every fourth case."""

ALWAYS = 0.75
"""If the loops of all workers are held for this part of the time, hardly anything else is served."""

LONG = 3.0
"""Seconds for which one call holds a loop that users notice, however rare it is."""


class _Held(NamedTuple):
    """A loop that is held. part: of the time; seconds: for how long one call held it."""

    part: float
    seconds: float
    worker: WorkerRecord
    window: WorkerWindow
    use: LoopUse

    @property
    def activity(self) -> str:
        return name_activity(*self.use.hold)

    @property
    def calls(self) -> str:
        """The calls, with what they do if it is known."""
        return f"calls that are {self.activity}" if self.activity else "calls"


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about loops that calls hold up."""
    held = _find_held(figures)
    if not held:
        return
    worst = held[0]
    alike = sorted(each.worker.worker_id for each in held if each.activity == worst.activity)
    makes_wait = worst.part >= HELD[1] or worst.seconds >= LONG
    loops = "event loops" if len(alike) > 1 else "event loop"
    title = f"The {loops} of {numbered('worker', alike)} {'are' if len(alike) > 1 else 'is'} blocked by {worst.calls}"
    yield Finding(
        code="loop_held",
        severity=_judge(figures, held),
        title=f"{title}.",
        evidence=_describe(figures, worst, [each for each in held if each.worker.worker_id not in alike]),
        meaning="With coroutines, one thread serves all requests of a worker. While a call occupies this thread, all "
        "requests of the worker stop.",
        clause=f"t{title[1:]}" if makes_wait else "",
        change=_advise(figures, held),
    )


def _judge(figures: Figures, held: list[_Held]) -> Severity:
    """Critical if nothing goes on: every loop is held, and calls hold it for long, or requests wait for it; or no
    request was completed, and all that are in service are in loops that are held."""
    always = {each.worker.worker_id: each for each in held if each.part >= ALWAYS}
    serving = [worker for worker in figures.server.workers if worker.state == "accepting"]
    with_requests = {worker.worker_id for worker in serving if worker.ages}
    if not figures.flow.requests and with_requests and with_requests <= always.keys():
        return "critical"
    if serving and len(always) >= len(serving):
        is_long = all(each.seconds >= LONG for each in always.values())
        if is_long or not figures.flow.requests or shows_a_limit(figures.flow):
            return "critical"
    return "warning" if held[0].part >= MOSTLY or held[0].seconds >= LONG else "info"


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


def _describe(figures: Figures, worst: _Held, others: list[_Held]) -> str:
    worker, window = worst.worker, worst.window
    load = ratio(window.cpu_seconds, figures.window.seconds) if window.cpu_seconds is not None else None
    pid = worker.local_pid or "unknown"
    return (
        f"Calls occupied the thread of worker {worker.worker_id} (PID {pid}) for {percent(worst.part)} of the last "
        f"{duration(figures.window.observed_seconds)}"
        + (f", one of them for {duration(worst.seconds)}" if worst.seconds >= 1 else "")
        + ("" if load is None else f"; this thread used {load:.2f} of a CPU")
        + f". In this worker, {counted(len(worker.ages), 'request')} {'is' if len(worker.ages) == 1 else 'are'} in "
        f"service, and {say_completed(window.requests)}."
        + "".join(
            f" Worker {each.worker.worker_id} was blocked for {percent(each.part)} of the time, by {each.calls}."
            for each in others[:3]
        )
    )


def _find_blocked(figures: Figures, held: list[_Held]) -> list[WorkerRecord]:
    """The workers that something blocks for as long as a stuck request, with all of their requests: it was seen for so
    long, or a shorter window saw no request of the worker end, and the oldest is as old."""

    def is_blocked(each: _Held) -> bool:
        oldest = max((age or 0.0 for age in each.worker.ages.values()), default=0.0)
        goes_on = each.part < ALWAYS or each.window.requests > 0
        return oldest >= figures.stuck_seconds and (each.seconds >= figures.stuck_seconds or not goes_on)

    return [each.worker for each in held if each.use.held and is_blocked(each)]


def _advise(figures: Figures, held: list[_Held]) -> str:
    """One change. More cores would only be held as well. A loop that never goes on needs a restart first."""
    worst, blocked = held[0], _find_blocked(figures, held)
    see = show_calls(figures.server, worst.worker.worker_id)
    find_it = f"Find the call with {see}, and "
    if blocked:
        which = numbered("worker", sorted(worker.worker_id for worker in blocked))
        it, its = ("it", "its") if len(blocked) == 1 else ("them", "their")
        find_it = (
            f"Run {see} to find the call, then restart {which} with {kill('KILL', blocked)} (SIGTERM does not end "
            f"{it}). This loses {its} requests. Later, "
        )
    hold, options = worst.use.hold, figures.server.setup.options
    if hold.state in ("cpu", "cpu_wait", "interpreter_lock"):
        return (
            f"{find_it}move the work of this call out of the event loop into another process, such as a spooler or a "
            "mule. If you cannot move the work, let the call yield to other requests between its steps "
            "(`gevent.sleep(0)`). More async cores do not help: their requests would also wait."
        )
    if hold.how == "file" or hold.state in ("lock", "disk", "child"):
        return (
            f"{find_it}move this call to a thread beside the event loop (`gevent.get_hub().threadpool`), or to a "
            "spooler. More async cores do not help: their requests would also wait."
        )
    if options.gevent is None and options.complete:
        return (
            f"{find_it}replace the call by one that yields to other requests while it waits, from a library for "
            "the event loop that uWSGI runs. More async cores do not help: their requests would also wait."
        )
    return (
        f"{find_it}make this call yield to other requests while it waits. The option "
        "`gevent-early-monkey-patch` does this for Python's own functions (sockets, locks, sleeping). A client library "
        "that is written in C needs a patch of its own (`psycogreen` for psycopg2). More async cores do not help: "
        "their requests would also wait."
    )
