"""Advises what to change for more capacity, depending on the scarce resource: CPUs, interpreters or threads.

Every text that advises more threads or processes comes from `advise_capacity`, or rests on a measured load.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from uwsgi_headroom.analysis.bottlenecks import INTERPRETERS_BUSY, Advice, Reason, find_bottleneck
from uwsgi_headroom.analysis.capacity import fits
from uwsgi_headroom.analysis.demand import count_refused, write_at_once
from uwsgi_headroom.analysis.destinations import is_one_at_a_time
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.shortages import LOCKED, are_waits_known, mean_load, mostly_sleeps
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
from uwsgi_headroom.words.formats import counted
from uwsgi_headroom.words.template import Facts, fill

LEAST_BACKEND = 0.05
"""Below this share of the time, a backend is not named beside others."""

CALL_BLOCKS = Reason(
    "most likely, a call blocks a worker",
    "To see whether a call blocks an event loop, run {look}: a call that does not yield stops all other requests of "
    "its worker. For example, a database driver may not be patched for coroutines.",
)
CORES_BUSY = Reason(
    f"the {ASYNC} are busy",
    "Raise `gevent` (or `async`) if requests stay open on purpose (event streams, WebSockets, long polls) or wait for "
    "a backend that is not at its limit: a worker then serves more requests at once.",
    "If requests wait for a lock or a backend at its limit, hold the lock for less time, or make the backend faster: "
    "more requests at once would also wait.",
)
INTERPRETERS_COMPUTE = Reason(
    "the interpreters are busy",
    "{more}. Additional {slots} would wait for the interpreter lock: each interpreter already uses {load} of a CPU.",
)
SEE_WAITS = (
    "Run {how} to see what the threads wait for. For a lock of the application, change the code so that it holds the "
    "lock for less time; more processes help only if each has its own. For a backend, make it faster, or let it take "
    "more requests at once. For slow clients, let the web server in front of uWSGI buffer requests and responses. "
    "Until you know, do not change `threads` or `processes`: more threads might also wait."
)
"""Where it is not known what helps."""

RAISE_PROCESSES = "Raise `processes` from {now:plain} to {then:plain} ({room})"
SERVES = "After this step, uWSGI can serve at least {most:rate} (it serves {now:rate} now)"
NOT_COUNTED = (
    "How long requests will wait after this step is not known: clients that the full queue refused were not counted"
)
STOPS: dict[Stop, str] = {
    "memory": "There is not enough memory for the {wanted:plain} {unit} that the load needs",
    "cpu": "After this step, add CPUs to serve even more",
    "interpreters": "After this step, also raise `processes` to serve even more",
    "step": "Then run `check` again: the load may need up to {wanted:plain} {unit}",
    "size": "Even this step is not enough for the load: find out why requests take this long",
}
"""What to know of a step that is smaller than the load needs."""

OVERLOADED = (
    "[retries? with retries, ]requests arrive [about? about ][times? {times} times as fast as][slightly? slightly "
    "faster than] uWSGI serves them"
)
FULL_IN_BURSTS = "in bursts, all {ceiling:plain} {slots} are busy, and {more:more request} {more:waits|wait}"
MORE_THAN_SLOTS = (
    "on average, [floor? at least ]{number} requests are in service or waiting, and all workers together have {all}"
)
BURSTS_NEED_MORE = (
    "on average, requests need [floor? at least ]{number} of the {all} of all workers, but bursts would need more than "
    "all {ceiling:plain}"
)
"""Why a step is needed."""

LOCK_TOO = (
    "Threads spend {share:percent} of their time waiting for a lock of the application: more threads would also wait."
)
SLEEP_TOO = (
    "Threads spend {share:percent} of their time in calls that sleep. If requests sleep because of a rate limit, or "
    "before they try something again that failed, more of them would also sleep."
)
PROGRAMS_TOO = (
    "For {share:percent} of their time, threads wait for programs that they start, or for a pipe. With more threads, "
    "more of these programs run at once, and each needs memory and CPU of its own. If they wait for each other, or all "
    "threads for the same one, more threads would also wait."
)
DISK_TOO = (
    "For {share:percent} of their time, threads wait for a disk: more threads help only if it can serve more at once."
)
ANY_BACKEND = (
    "If all requests wait for the same backend, such as a database, make this backend faster before you add threads."
)
BACKENDS_TOO = (
    "Threads wait for backends for {share:percent} of their time[label?  (for {label}: {part:percent})]. More threads "
    "help only if these backends can take more requests at once; faster queries always help."
)
BACKEND_TOO = (
    "Threads wait for {label} for {share:percent} of their time. More threads help only if {label} can take more "
    "requests at once; faster queries always help."
)
TURNS_TOO = "Threads wait for {label} for {share:percent} of their time. More `threads` would also wait for their turn."


def advise_capacity(figures: Figures) -> Advice:
    """One step to take: for more capacity where evidence shows which helps, else to get it."""
    if step := find_proven_step(figures):
        return step
    waits, server = figures.server.waits, figures.server
    how = _check_as_root(server) if waits is None or waits.needs_right else show_calls(server)
    return Advice(fill(SEE_WAITS, {"how": how}))


def find_proven_step(figures: Figures) -> Advice | None:
    """The step that the evidence shows to help; None if that depends on what the threads wait for, and it is unknown.

    More threads help requests that wait for a backend with room to spare; for one lock, a backend at its limit or slow
    clients, they would wait as well. More processes help interpreters that compute much of the time.
    """
    if other := find_bottleneck(figures):
        return other
    load, slots = mean_load(figures), name_slots(figures.server)
    if load is not None and load > INTERPRETERS_BUSY:
        more = raise_processes(figures)
        facts = {"more": more.change, "slots": slots, "load": f"{load:.2f}"}
        found = INTERPRETERS_COMPUTE.advise(more.settings, all_busy=True, **facts)
        return found._replace(serves=more.serves)
    if slots == ASYNC:
        return _explain_coroutines(figures)
    if not are_waits_known(figures):
        return None
    return _more_workers_or_threads(figures, load)._replace(cause=f"all {slots} are busy", all_busy=True)


def _check_as_root(server: ServerRecord) -> str:
    address = server.address.removeprefix("unix://")
    which = shlex.quote(address) if address and "?" not in address else "--all"
    return f"`sudo $(command -v uwsgi-headroom) check {which}` on uWSGI's host"


def _explain_coroutines(figures: Figures) -> Advice:
    """What to do on a server with coroutines, where it is unknown what each request waits for."""
    if figures.polling or (figures.flow.observed or 0.0) >= ASYNC_FULL * (figures.ceiling or 0):
        return CORES_BUSY.advise(all_busy=True)
    server = figures.server
    is_hidden = server.waits is not None and server.waits.needs_right
    return CALL_BLOCKS.advise(look=_check_as_root(server) if is_hidden else f"{show_calls(server)} on a worker")


def _more_workers_or_threads(figures: Figures, load: float | None) -> Advice:
    """The advice to add workers or threads. load: mean load of an interpreter; None if unknown."""
    each = figures.threads_each
    if each <= 1:
        more, reserve = (
            raise_processes(figures),
            "Raise `threads` only if the application is safe to run in several threads.",
        )
        cautions = [_say_unless(figures), reserve * bool(each)]
        return more._replace(change=" ".join([f"{more.change}.", *filter(None, cautions)]))
    step = more_threads(figures, each)
    if step.stopped_by == "interpreters":
        more, most = raise_processes(figures), more_processes(figures).most
        if most and step.most and most > WORTH_PROCESSES * step.most:
            return more._replace(change=f"{more.change}. Additional `threads` would wait for the interpreter lock.")
    parts = [
        *(f"{part}." for part in _say_step(figures, step, f"Raise `threads` from {each} to {step.threads}")),
        "" if load is None else f"Each interpreter uses {load:.2f} of a CPU.",
        _say_unless(figures) or _say_backends(figures),
    ]
    return Advice(" ".join(filter(None, parts)), (("threads", step.threads),), _promise(figures, step))


WORTH_PROCESSES = 1.1
"""With processes that serve this much more than threads, the advice is processes: they take more memory."""


def raise_processes(figures: Figures, *, is_modelled: bool = True) -> Advice:
    """The advice to add workers, without the full stop. is_modelled: the model knows the limit."""
    processes, step = len(figures.server.workers), more_processes(figures)
    room = fits(figures.server.memory, step.processes - processes)
    change = fill(RAISE_PROCESSES, {"now": processes, "then": step.processes, "room": room})
    settings = (("processes", step.processes),)
    if not is_modelled:
        return Advice(change, settings)
    return Advice(". ".join(_say_step(figures, step, change)), settings, _promise(figures, step))


def _promise(figures: Figures, step: Step) -> float | None:
    """What a step serves at least, if that is more than now; None where requests sleep or wait for programs."""
    promised = None if mostly_sleeps(figures) or _share_of_programs(figures) >= MOSTLY else step.most
    return promised if promised and promised > (figures.flow.throughput or 0.0) else None


def _say_step(figures: Figures, step: Step, change: str) -> Iterator[str]:
    """A step, why it is needed, what it will do, and what keeps it from doing more: sentences without full stops."""
    demand = _say_demand(figures)
    yield f"{change}: {demand}" if demand else change
    if promised := _promise(figures, step):
        yield fill(SERVES, {"most": promised, "now": figures.flow.throughput or 0.0})
    if figures.demand.queue_was_full:
        yield NOT_COUNTED
    if step.stopped_by is not None:
        unit = "processes" if step.processes > len(figures.server.workers) else "threads in each process"
        yield fill(STOPS[step.stopped_by], {"wanted": step.wanted, "unit": unit})


def _say_demand(figures: Figures) -> str:
    """The offered work, as a clause; empty if it is unknown, or the interpreters are the reason."""
    if overload := find_overload(figures):
        is_counted, is_slight = bool(count_refused(figures.window, figures.server.queues)), overload < 1.05
        facts = {"retries": is_counted, "about": not (is_counted or is_slight), "slightly": is_slight}
        return fill(OVERLOADED, {**facts, "times": not is_slight and f"{overload:.1f}"})
    slots, in_bursts, at_once = name_slots(figures.server), count_at_once_in_bursts(figures), figures.demand.at_once
    ceiling = figures.ceiling or 0
    if in_bursts > (at_once or 0.0):
        more = max(1, round(in_bursts - ceiling))
        return fill(FULL_IN_BURSTS, {"ceiling": ceiling, "slots": slots, "more": more})
    if at_once is None or not ceiling or (at_once < ceiling and (mean_load(figures) or 0.0) > INTERPRETERS_BUSY):
        return ""
    return fill(
        MORE_THAN_SLOTS if at_once >= ceiling else BURSTS_NEED_MORE,
        {
            "floor": figures.demand.is_floor,
            "number": write_at_once(at_once),
            "all": counted(ceiling, slots.removesuffix("s")),
            "ceiling": ceiling,
        },
    )


def _share_of_programs(figures: Figures) -> float:
    """The part of the threads' time in which they wait for programs, or for a pipe as from one."""
    return figures.share("child") + figures.share("pipe")


def _say_unless(figures: Figures) -> str:
    """Why the step may change nothing; empty if nothing says so."""
    rows = (
        (LOCK_TOO, figures.share("lock"), LOCKED),
        (SLEEP_TOO, figures.share("sleep"), MOSTLY),
        (PROGRAMS_TOO, _share_of_programs(figures), MOSTLY),
        (DISK_TOO, figures.share("disk"), LOCKED),
    )
    return next((fill(text, {"share": share}) for text, share, least in rows if share >= least), "")


def _say_backends(figures: Figures) -> str:
    if figures.waits is None or figures.share("backend") < MOSTLY:
        return ANY_BACKEND
    own = [each for each in figures.waits.destinations if each.state == "backend" and (each.name or each.address)]
    largest = next((each for each in own[:1] if each.share >= LEAST_BACKEND), None)
    if largest and largest.share >= MOSTLY:
        facts: Facts = {"label": largest.label, "share": largest.share}
        return fill(TURNS_TOO if is_one_at_a_time(largest) else BACKEND_TOO, facts)
    label, part = (largest.label, largest.share) if largest else ("", 0.0)
    return fill(BACKENDS_TOO, {"label": label, "part": part, "share": figures.share("backend")})
