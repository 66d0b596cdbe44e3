"""Advises what to change for more capacity, depending on the scarce resource: CPUs, interpreters or threads.

Here it is decided whether there is evidence for an advice. Every text that advises more threads or processes comes from
`add_capacity`, or rests on a measured load of the interpreters.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from uwsgi_headroom.analysis.bottlenecks import INTERPRETERS_BUSY, Explanation, Settings, find_bottleneck
from uwsgi_headroom.analysis.capacity import fits
from uwsgi_headroom.analysis.demand import count_refused, write_at_once
from uwsgi_headroom.analysis.destinations import TAKES_TURNS, UNKNOWN, is_one_at_a_time
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.shortages import LOCKED, UNLESS_LIMITED, are_waits_known, mean_load, mostly_sleeps
from uwsgi_headroom.analysis.sizing import (
    Step,
    Stop,
    count_at_once_in_bursts,
    find_overload,
    more_processes,
    more_threads,
)
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import ASYNC, ASYNC_FULL, name_slots, show_calls
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.words.formats import counted, percent, rate

LEAST_BACKEND = 0.05
"""Below this share of the time, a backend is not named beside others."""


def find_blocking_call(server: ServerRecord) -> str:
    """The advice about requests that wait although async cores are free."""
    is_hidden = server.waits is not None and server.waits.needs_right
    look = _check_as_root(server) if is_hidden else f"{show_calls(server)} on a worker"
    return (
        f"To see whether a call blocks an event loop, run {look}: a call that does not yield stops all other requests "
        "of its worker. For example, a database driver may not be patched for coroutines."
    )


class Advice(NamedTuple):
    """A change, with the options of uWSGI that it sets to a number, and the requests per second that the server then
    serves at least, None if unknown. The names are those of a finding's fields."""

    change: str
    settings: Settings = ()
    serves: float | None = None


def advise_capacity(figures: Figures) -> Advice:
    """One step to take: for more capacity where evidence shows which helps, else to get it."""
    step = find_proven_step(figures)
    return Advice(step.change, step.settings, step.serves) if step else Advice(_see_waits_first(figures))


def add_capacity(figures: Figures) -> str:
    """The same as a text, in the imperative."""
    return advise_capacity(figures).change


def find_proven_step(figures: Figures) -> Explanation | None:
    """The step that the evidence shows to help; None if that depends on what the threads wait for, and it is unknown.

    More threads help requests that wait for a backend with room to spare. For one lock, a backend at its limit or slow
    clients, they would wait as well. So advice to add threads needs to know the waits; advice to add processes needs
    that, or interpreters that compute much of the time.
    """
    if other := find_bottleneck(figures) or _find_busy_interpreters(figures):
        return other
    slots = name_slots(figures.server)
    if slots == ASYNC:
        fills = _fills_cores(figures)
        cause = f"the {ASYNC} are busy" if fills else "most likely, a call blocks a worker"
        return Explanation(cause, _advise_coroutines(figures), all_busy=fills)
    if not are_waits_known(figures):
        return None
    return Explanation(f"all {slots} are busy", *_more_workers_or_threads(figures, mean_load(figures)), all_busy=True)


def _find_busy_interpreters(figures: Figures) -> Explanation | None:
    """What to do if the interpreters compute for so much of the time that more threads would wait for them."""
    load = mean_load(figures)
    if load is None or load <= INTERPRETERS_BUSY:
        return None
    more = raise_processes(figures)
    return Explanation(
        "the interpreters are busy",
        f"{more.change}. Additional {name_slots(figures.server)} would wait for the interpreter lock: each interpreter "
        f"already uses {load:.2f} of a CPU.",
        more.settings,
        more.serves,
        all_busy=True,
    )


def _see_waits_first(figures: Figures) -> str:
    """How to see what the threads wait for, and what to do in each case."""
    waits = figures.server.waits
    is_hidden = waits is None or waits.needs_right
    how = _check_as_root(figures.server) if is_hidden else show_calls(figures.server)
    return (
        f"Run {how} to see what the threads wait for. If threads wait for a lock of the application, change the code "
        "so that it holds the lock for less time; more processes help only if each process has its own lock. If "
        "threads wait for a backend, make the backend faster, or let it take more requests at once. If threads wait "
        "for slow clients, let the web server in front of uWSGI buffer requests and responses. Until you know what the "
        "threads wait for, do not change `threads` or `processes`: more threads might also wait."
    )


def _check_as_root(server: ServerRecord) -> str:
    """The command that shows once what only another user may see."""
    address = server.address.removeprefix("unix://")
    which = shlex.quote(address) if address and "?" not in address else "--all"
    return f"`sudo $(command -v uwsgi-headroom) check {which}` on uWSGI's host"


def _fills_cores(figures: Figures) -> bool:
    return bool(figures.polling) or (figures.flow.observed or 0.0) >= ASYNC_FULL * (figures.ceiling or 0)


def _advise_coroutines(figures: Figures) -> str:
    """What to do on a server with coroutines. One thread serves many requests there, so nothing shows what each waits
    for."""
    if not _fills_cores(figures):
        return find_blocking_call(figures.server)
    return (
        "Raise `gevent` (or `async`) if requests stay open on purpose (event streams, WebSockets, long polls) or wait "
        "for a backend that is not at its limit: a worker then serves more requests at once. If requests wait for a "
        "lock or a backend at its limit, hold the lock for less time, or make the backend faster: more requests at "
        "once would also wait."
    )


def _more_workers_or_threads(figures: Figures, load: float | None) -> Advice:
    """The advice to add workers or threads. load: mean load of an interpreter; None if unknown."""
    each = figures.threads_each
    if each <= 1:
        reserve = " Raise `threads` only if the application is safe to run in several threads." if each else ""
        more = raise_processes(figures)
        return more._replace(change=f"{more.change}.{reserve}")
    step = more_threads(figures, each)
    if step.stopped_by == "interpreters":
        more, most = raise_processes(figures), more_processes(figures).most
        if most and step.most and most > WORTH_PROCESSES * step.most:
            return more._replace(change=f"{more.change}. Additional `threads` would wait for the interpreter lock.")
    parts = [
        f"Raise `threads` from {each} to {step.threads}{_say_why(figures)}.",
        *(f"{part}." for part in _say_effect(figures, step)),
        "" if load is None else f"Each interpreter uses {load:.2f} of a CPU.",
        _what_they_wait_for(figures),
    ]
    return Advice(" ".join(filter(None, parts)), (("threads", step.threads),), _promise(figures, step))


WORTH_PROCESSES = 1.1
"""With processes that serve this much more than threads, the advice is processes: they take more memory."""


def raise_processes(figures: Figures, *, is_modelled: bool = True) -> Advice:
    """The advice to add workers, without the full stop. is_modelled: whether threads, interpreters and CPUs are what
    limits the server: the model knows no other limit, and then promises nothing."""
    processes = len(figures.server.workers)
    step = more_processes(figures)
    room = fits(figures.server.memory, step.processes - processes)
    if not is_modelled:
        change = f"Raise `processes` from {processes} to {step.processes} ({room})"
        return Advice(change, (("processes", step.processes),), None)
    sentences = [
        f"Raise `processes` from {processes} to {step.processes} ({room}){_say_why(figures)}",
        *_say_effect(figures, step),
    ]
    return Advice(". ".join(sentences), (("processes", step.processes),), _promise(figures, step))


def _promise(figures: Figures, step: Step) -> float | None:
    """What a step serves at least, if that is more than now; None where requests sleep, because the model takes a rate
    limit for a sleep, or wait for programs, because these may wait for each other."""
    promised = None if mostly_sleeps(figures) or _share_of_programs(figures) >= MOSTLY else step.most
    return promised if promised and promised > (figures.flow.throughput or 0.0) else None


def _say_why(figures: Figures) -> str:
    """When a step changes nothing, if anything says so, and the offered work, if it is known; to follow the step."""
    demand = _say_demand(figures)
    unless = UNLESS_LIMITED if mostly_sleeps(figures) else ""
    if _share_of_programs(figures) >= MOSTLY:
        unless = ", unless requests wait for the same program, or for programs that wait for each other"
    if unless:
        return unless + (f". {demand[0].upper()}{demand[1:]}" if demand else "")
    return f": {demand}" if demand else ""


def _say_demand(figures: Figures) -> str:
    """The offered work, as a clause; empty if it is unknown."""
    if overload := find_overload(figures):
        is_counted = count_refused(figures.window, figures.server.queues)
        about = "" if is_counted else "about "
        faster = f"{about}{overload:.1f} times as fast as" if overload >= 1.05 else "slightly faster than"
        return f"{'with retries, ' if is_counted else ''}requests arrive {faster} uWSGI serves them"
    slots, in_bursts, at_once = name_slots(figures.server), count_at_once_in_bursts(figures), figures.demand.at_once
    ceiling = figures.ceiling or 0
    if in_bursts > (at_once or 0.0):
        more = max(1, round(in_bursts - ceiling))
        return f"in bursts, all {ceiling} {slots} are busy, and {counted(more, 'more request')} wait{'s' * (more == 1)}"
    if at_once is None or not ceiling:
        return ""
    number = f"{'at least ' if figures.demand.is_floor else ''}{write_at_once(at_once)}"
    all_slots = counted(ceiling, slots.removesuffix("s"))
    if at_once >= ceiling:
        return f"on average, {number} requests are in service or waiting, and all workers together have {all_slots}"
    if (mean_load(figures) or 0.0) > INTERPRETERS_BUSY:
        return ""  # the reason is the interpreters
    most = f"the {all_slots} of all workers"
    mean = f"on average, requests need {number} of {most}, but bursts would need more than all {ceiling}"
    return mean if at_once >= ceiling / 2 else f"bursts would need more than {most}"


def _say_effect(figures: Figures, step: Step) -> Iterator[str]:
    """What a step will do, and what keeps it from doing more, as sentences without their full stops."""
    if promised := _promise(figures, step):
        most, now = rate(promised), rate(figures.flow.throughput or 0.0)
        yield f"After this step, uWSGI can serve at least {most} (it serves {now} now)"
    if figures.demand.queue_was_full:
        yield (
            "How long requests will wait after this step is not known: the clients that the full queue turned away "
            "were not counted"
        )
    if step.stopped_by is not None:
        unit = "processes" if step.processes > len(figures.server.workers) else "threads in each process"
        yield STOPS[step.stopped_by].format(wanted=step.wanted, unit=unit)


STOPS: dict[Stop, str] = {
    "memory": "There is not enough memory for the {wanted} {unit} that the load needs",
    "cpu": "After this step, add CPUs to serve even more",
    "interpreters": "After this step, also raise `processes` to serve even more",
    "step": "Then run `check` again: the load may need up to {wanted} {unit}",
    "size": "Even this step is not enough for the load: find out why requests take this long",
}
"""What to know of a step that is smaller than the load needs."""


def _share_of_programs(figures: Figures) -> float:
    """The part of the threads' time in which they wait for programs that they start, or for a pipe, as from one."""
    return figures.waits.share("child") + figures.waits.share("pipe") if figures.waits else 0.0


def _what_they_wait_for(figures: Figures) -> str:
    """What to do before there are more threads."""
    waits = figures.waits
    if waits and waits.share("lock") >= LOCKED:
        return (
            f"Threads spend {percent(waits.share('lock'))} of their time waiting for a lock of the application, for "
            "which additional threads will also wait."
        )
    if waits and mostly_sleeps(figures):
        return (
            f"Threads spend {percent(waits.share('sleep'))} of their time in calls that sleep. If requests sleep "
            "because of a rate limit, or before they try something again that failed, additional threads would also "
            "sleep."
        )
    if (share := _share_of_programs(figures)) >= MOSTLY:
        return (
            f"For {percent(share)} of their time, threads wait for programs that they start, or for a pipe. With "
            "more threads, more of these programs run at once, and each needs memory and CPU of its own."
        )
    if waits and waits.share("disk") >= LOCKED:
        return (
            f"For {percent(waits.share('disk'))} of their time, threads wait for a disk: more threads help only if the "
            "disk can serve more at once."
        )
    if waits is None or waits.share("backend") < MOSTLY:
        return (
            "If all requests wait for the same backend, such as a database, make this backend faster before you add "
            "threads."
        )
    own = [each for each in waits.destinations if each.state == "backend" and (each.name or each.address)]
    largest = own[0] if own else None
    part = ""
    share, what = waits.share("backend"), UNKNOWN
    if largest and largest.share >= MOSTLY:
        share, what = largest.share, largest.label
    elif largest and largest.share >= LEAST_BACKEND:
        part = f" (for {largest.label}: {percent(largest.share)})"
    named = "these backends" if what == UNKNOWN else what
    takes_more = f"More threads help only if {named} can take more requests at once; faster queries always help."
    if largest and what == largest.label and is_one_at_a_time(largest):
        takes_more = TAKES_TURNS
    return f"Threads wait for {what} for {percent(share)} of their time{part}. {takes_more}"
