"""Advises what to change for more capacity, depending on the scarce resource: CPUs, interpreters or threads.

Here it is decided whether there is evidence for an advice. Every text that advises more threads or processes comes from
`add_capacity`, or rests on a measured load of the interpreters.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.capacity import fits
from uwsgi_headroom.analysis.demand import count_refused, describe_demand
from uwsgi_headroom.analysis.destinations import (
    CALLS_ITSELF,
    TAKES_TURNS,
    UNKNOWN,
    DestinationFigures,
    advise,
    describe,
    find_own,
    is_one_at_a_time,
    list_hanging,
    list_main,
    see_backends,
)
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import is_standing, shows_a_limit
from uwsgi_headroom.analysis.log_words import ENDS, STARTS, see_log
from uwsgi_headroom.analysis.shortages import (
    CPU_FULL,
    LOCKED,
    UNLESS_LIMITED,
    WAIT_FOR_THREADS,
    are_children_busy,
    are_waits_known,
    find_cpu_of_own_threads,
    find_holder,
    is_lock_bound,
    lacks_cpu,
    list_loads,
    mean_load,
    mostly_sleeps,
    tries_again,
    waits_for_cpu,
)
from uwsgi_headroom.analysis.sizing import (
    Step,
    Stop,
    count_at_once_in_bursts,
    count_needed_threads,
    find_overload,
    more_processes,
    more_threads,
)
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import (
    ASYNC,
    ASYNC_FULL,
    AWAY,
    MANY_STUCK,
    RESUME,
    find_failing,
    find_harmful_requests,
    find_paused,
    name_slots,
    part_away,
    show_calls,
)
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.words.formats import duration, numbered, percent, rate

INTERPRETERS_BUSY = 0.45
"""Above this mean load of the interpreters, more threads would mostly wait for their interpreter."""

LEAST_BACKEND = 0.05
"""Below this share of the time, a backend is not named beside others."""

MOSTLY_BUSY = 0.75
"""Below this mean fraction of busy threads, threads are free; requests that wait nevertheless may have a reason of
their own."""

WORKER_FULL = 0.9
"""At or above this mean fraction of its busy threads, a worker leaves requests of its own sockets waiting."""

SPREAD = "Let the web server spread the load evenly over the sockets of `map-socket`, or remove `map-socket`."
"""The advice about unequal shares of such sockets."""

UNREACHABLE = (
    "`map-socket` gives workers sockets of their own: a free thread cannot take a request that waits at the socket of "
    "another worker."
)
"""What such sockets mean."""


def find_blocking_call(server: ServerRecord) -> str:
    """The advice about requests that wait although async cores are free."""
    is_hidden = server.waits is not None and server.waits.needs_right
    look = _check_as_root(server) if is_hidden else f"{show_calls(server)} on a worker"
    return (
        f"Run {look}: a call that does not give way to other requests stops all requests of its worker. For example, a "
        "database driver may not be patched for coroutines."
    )


Settings = tuple[tuple[str, int], ...]
"""Options of uWSGI, and the number that an advice sets each to."""


class Advice(NamedTuple):
    """A change, with the options of uWSGI that it sets to a number, and the requests per second that the server then
    serves at least, None if unknown. The names are those of a finding's fields."""

    change: str
    settings: Settings = ()
    serves: float | None = None


class Explanation(NamedTuple):
    """A change that evidence shows to help, as in `Advice`. cause: what is short, as a clause."""

    cause: str
    change: str
    settings: Settings = ()
    serves: float | None = None


def advise_capacity(figures: Figures) -> Advice:
    """One step to take: for more capacity where evidence shows which helps, else to get it."""
    step = find_proven_step(figures)
    return Advice(*step[1:]) if step else Advice(_see_waits_first(figures))


def add_capacity(figures: Figures) -> str:
    """The same as a text, in the imperative."""
    return advise_capacity(figures).change


def lacks_evidence(figures: Figures) -> bool:
    """Whether `add_capacity` advises neither more threads nor more processes, because it is not known what the threads
    wait for, and nothing else shows what would help."""
    return find_proven_step(figures) is None


def find_proven_step(figures: Figures) -> Explanation | None:
    """The step that the evidence shows to help; None if that depends on what the threads wait for, and it is unknown.

    More threads help requests that wait for a backend with room to spare. For one lock, a backend at its limit or slow
    clients, they would wait as well. So advice to add threads needs to know the waits; advice to add processes needs
    that, or interpreters that compute much of the time.
    """
    reasons = (
        _bring_workers_back,
        why_free_threads_do_not_serve,
        _why_requests_do_not_end,
        _why_threads_would_not_help,
        _why_backends_hang,
        _find_own_threads,
        _find_scarce_cpus,
        _find_busy_interpreters,
    )
    if other := next(filter(None, (reason(figures) for reason in reasons)), None):
        return other
    slots = name_slots(figures.server)
    if slots == ASYNC:
        return Explanation(
            f"the {ASYNC} are busy" if _fills_cores(figures) else "a call blocks a worker, most likely",
            _advise_coroutines(figures),
        )
    if not are_waits_known(figures):
        return None
    return Explanation(f"all {slots} are busy", *_more_workers_or_threads(figures, mean_load(figures)))


def _bring_workers_back(figures: Figures) -> Explanation | None:
    """What to do first, if workers are paused or down."""
    if find_paused(figures.server.workers):
        return Explanation("workers are paused", RESUME)
    if failing := find_failing(figures):
        which = numbered("worker", failing)
        return Explanation(
            f"{which} cannot start", see_log(figures.server, f"why {which} cannot start", (*STARTS, *ENDS))
        )
    away = part_away(figures)
    if away is not None and away >= AWAY:
        why = see_log(figures.server, f"why workers are down {percent(away)} of the time", (*ENDS, *STARTS))
        return Explanation("workers are down for a part of the time", why)
    return None


AGAIN_AND_AGAIN = 3
"""From so many full reloads in a window on, it matters what reloads uWSGI, more than how."""


def why_free_threads_do_not_serve(figures: Figures) -> Explanation | None:
    """What to do if requests wait although threads are free, for a known reason."""
    if not waits_while_threads_are_free(figures):
        return None
    if _is_mapped_to_a_full_worker(figures):
        return Explanation("a worker with sockets of its own is full", SPREAD)
    if waits_for_a_reload(figures):
        if (times := figures.window.reloads) >= AGAIN_AND_AGAIN:
            return Explanation(
                "uWSGI is reloaded again and again",
                f"Find out what reloads uWSGI, {times} times in the last {duration(figures.window.seconds)}: something "
                "touches the file of `touch-reload` or a module that `py-autoreload` watches, writes to `master-fifo`, "
                "or sends SIGHUP. At each reload, requests wait until the application is loaded.",
            )
        return Explanation(
            "uWSGI was reloaded",
            "Use a chain reload (`lazy-apps` and `touch-chain-reload`) if requests waited while a full reload loaded "
            "the application. A chain reload replaces one worker after another.",
        )
    return spawn_earlier(figures)


def spawn_earlier(figures: Figures) -> Explanation | None:
    """What to do if cheaper mode keeps workers in reserve while requests wait."""
    workers = figures.server.workers
    reserve = [worker for worker in workers if worker.state == "reserve"]
    each = round((figures.ceiling or 0) / len(workers)) if workers else 0
    if not reserve or not each:
        return None
    up = len(workers) - len(reserve)
    needed = math.ceil((count_needed_threads(figures) or 0.0) / each)
    count = min(len(workers) - 1, max(up, needed))
    return Explanation(
        "cheaper mode keeps workers in reserve",
        f"Raise `cheaper` and `cheaper-initial` to {count}: cheaper mode spawns workers too late.",
        (("cheaper", count), ("cheaper-initial", count)),
    )


def waits_for_a_reload(figures: Figures) -> bool:
    """Whether requests wait although threads are free, in a window with a full reload, and are completed, and no worker
    is paused, down or the only one that takes them. They most likely waited while it loaded the application."""
    if not figures.window.reloads or is_standing(figures.flow) or not waits_while_threads_are_free(figures):
        return False
    return not (_is_mapped_to_a_full_worker(figures) or _bring_workers_back(figures))


def waits_while_threads_are_free(figures: Figures) -> bool:
    """Whether requests wait although a part of the threads is free."""
    flow, _ = figures.longest_wait
    return shows_a_limit(flow) and (figures.flow.observed or 0.0) < MOSTLY_BUSY * (figures.ceiling or 0)


def _is_mapped_to_a_full_worker(figures: Figures) -> bool:
    """Whether workers have sockets of their own, and the threads of a worker are nearly always busy."""
    if not figures.server.setup.mapped:
        return False
    threads = {worker.worker_id: worker.threads for worker in figures.server.workers}
    return any(
        (worker.concurrency or 0.0) >= WORKER_FULL * (threads.get(worker.worker_id) or math.inf)
        for worker in figures.balance.workers
    )


def _why_requests_do_not_end(figures: Figures) -> Explanation | None:
    """What to do instead of adding threads, if the present ones are held by requests that do not end."""
    slots = name_slots(figures.server)
    if len(find_harmful_requests(figures)) >= MANY_STUCK * (figures.ceiling or math.inf) and slots != ASYNC:
        return Explanation(
            "stuck requests hold the threads",
            "First find out what the stuck requests wait for: more threads would also get stuck.",
        )
    if killed_fill_threads(figures):
        return Explanation(
            f"requests that never end hold the {slots}",
            f"Workers are killed while they serve requests. First find out what these requests wait for: more {slots} "
            "would also wait.",
        )
    if is_standing(figures.flow) and (figures.flow.observed or 0.0) >= MANY_STUCK * (figures.ceiling or 0):
        return Explanation(
            f"the requests in service do not end, and hold the {slots}",
            f"First find out with {show_calls(figures.server)} what the requests in service wait for: no request was "
            f"completed, and more {slots} would most likely also wait.",
        )
    return None


def connections_hold_threads(figures: Figures) -> bool:
    """Whether clients that keep their connections hold threads that are free by uWSGI's count: it counts no request in
    service while it waits for the next one on a connection (`http11-socket`). How many they hold is not known."""
    client = figures.waits.share("client") if figures.waits else 0.0
    return client >= MOSTLY and waits_while_threads_are_free(figures)


def killed_fill_threads(figures: Figures) -> bool:
    """Whether the threads were busy, most of the time, with requests that were never completed, because `harakiri` or
    anything else ended their workers. What the completed ones took says little of these."""
    flow, window = figures.flow, figures.window
    ended = window.harakiris + sum(worker.lost for worker in window.workers)
    never = (flow.observed or 0.0) - (flow.littles_law or 0.0)
    return ended > 0 and never >= MANY_STUCK * (figures.ceiling or math.inf)


def _why_threads_would_not_help(figures: Figures) -> Explanation | None:
    """What to do instead of adding threads, if these would only wait as the present ones do."""
    if figures.waits and figures.waits.share("client") >= MOSTLY:
        if connections_hold_threads(figures):
            return Explanation(
                "clients that keep their connections hold the threads between requests",
                "Let a web server, or uWSGI's `http` router with `http-keepalive`, hold the connections of clients. "
                "With `http11-socket`, each connection holds a thread until it is closed. `http-socket` closes the "
                "connection after the answer.",
            )
        return Explanation(
            "slow clients hold the threads",
            "Let the web server in front of uWSGI buffer requests and responses. If you add threads, slow clients will "
            "also hold the new threads.",
        )
    if tries_again(figures):
        return Explanation(
            "requests sleep again and again",
            "Find out why requests sleep again and again: if they try something again, more threads would only try "
            "more often; event streams and long polls need a thread each.",
        )
    if is_lock_bound(figures):
        if find_holder(figures) == "thread":
            return Explanation(
                WAIT_FOR_THREADS,
                "Find out what the application's own threads do: more `threads` for requests may also wait.",
            )
        return Explanation(
            "the threads wait for a lock of the application",
            "Find out which lock of the application the threads wait for: more threads would also wait for this lock.",
        )
    return explain_saturation(figures)


def explain_saturation(figures: Figures) -> Explanation | None:
    """What to do about a saturated backend; None if none is known to be."""
    saturation = figures.saturation
    if saturation is None:
        return None
    named = name_saturated(figures, saturation)
    what = f"the backend {named}" if named else "a backend"
    which = "" if named else " To see which backend the threads wait for, give your backends names (`--backends`)."
    return Explanation(
        f"{what} is saturated",
        f"{see_backends(list_saturated(figures, saturation))}. If the problem began with a deploy, roll the deploy "
        f"back. Then make the queries to {named or 'the backend'} faster or fewer, or give {named or 'the backend'} "
        f"more capacity. More threads or processes would also wait{_say_most(figures, saturation)}.{which}",
    )


def name_saturated(figures: Figures, saturation: Saturation) -> str:
    """The saturated backend by its name and address; empty if it is not known which one it is."""
    found = list_saturated(figures, saturation)
    return found[0].label if found else saturation.name or ""


def list_saturated(figures: Figures, saturation: Saturation) -> list[DestinationFigures]:
    """The saturated backend, as what threads wait for; empty if it is not known which one it is."""
    found = [each for each in (figures.waits.destinations if figures.waits else ()) if each.state == "backend"]
    if saturation.name:
        return [each for each in found if each.name == saturation.name][:1]
    main = list_main(found)
    return main if len(main) == 1 and main[0].label != UNKNOWN else []


def fills_threads(figures: Figures, saturation: Saturation) -> bool:
    """Whether half of the threads waited for a saturated backend, on average, while the rate was high. It is then close
    to what the backend completes at most; else it is the mean of short bursts and the time between them."""
    return saturation.many >= MOSTLY * (figures.ceiling or math.inf)


def _say_most(figures: Figures, saturation: Saturation) -> str:
    return f", and load can hardly grow beyond {rate(saturation.high)}" if fills_threads(figures, saturation) else ""


def _why_backends_hang(figures: Figures) -> Explanation | None:
    """What to do if a backend does not answer, if name servers are slow, or if the backend is this server itself."""
    own = find_own(figures.waits.destinations) if figures.waits else None
    if own:
        return Explanation(CALLS_ITSELF, advise([own]))
    hanging = list_hanging(figures.waits.destinations, figures.available or 0) if figures.waits else []
    if not figures.waits or sum(each.threads for each in hanging) < MOSTLY * figures.waits.total:
        return None
    return Explanation(f"the {name_slots(figures.server)} wait for {describe(hanging)}", advise(hanging))


OWN_THREADS_COMPUTE = "threads that serve no request use most of the workers' CPU time"
"""The cause of interpreters that are busy without requests, as a clause."""


def find_computing_thread(figures: Figures) -> str:
    """The advice about threads that serve no request, and compute."""
    pid = next((worker.local_pid or worker.pid for worker in figures.server.workers if worker.pid), None)
    return (
        f"Find the thread with `top -H -p {pid or 'PID'}` and `py-spy dump --pid {pid or 'PID'}`. Move its work into a "
        "process of its own, such as a mule or the spooler; if a library computes in threads, limit their number "
        "(`OMP_NUM_THREADS`). Each further process would also start these threads."
    )


def _find_own_threads(figures: Figures) -> Explanation | None:
    """What to do if the interpreters or CPUs are busy with threads that serve no request."""
    cpus, used = figures.server.cpus, sum(list_loads(figures))
    is_busy = (mean_load(figures) or 0.0) > INTERPRETERS_BUSY or (cpus is not None and used >= CPU_FULL * cpus.count)
    if not is_busy or not find_cpu_of_own_threads(figures):
        return None
    return Explanation(OWN_THREADS_COMPUTE, find_computing_thread(figures))


def _find_scarce_cpus(figures: Figures) -> Explanation | None:
    """What to do if CPUs are what the server lacks."""
    cpus = figures.server.cpus
    used = sum(list_loads(figures))
    if cpus and used >= CPU_FULL * cpus.count:
        return Explanation(
            "the workers use all the CPU that they can get",
            f"Add CPUs, or move load to another host: the workers use {percent(used / cpus.count)} of their CPUs.",
        )
    if cpus and lacks_cpu(figures, cpus.count) and are_children_busy(figures):
        return Explanation("programs that the application starts use all CPUs", LESS_CHILDREN)
    if cpus and lacks_cpu(figures, cpus.count):
        return Explanation("no CPU is idle", "Move other programs to another host, or add CPUs: no CPU is idle.")
    if are_waits_known(figures) and waits_for_cpu(figures, MOSTLY):
        return Explanation("requests wait for a CPU", GET_CPU)
    return None


LESS_CHILDREN = "Start fewer programs at the same time, for example from a queue of jobs, or add CPUs."
"""The advice about programs that requests start and wait for."""

GET_CPU = (
    "Find out what uses the CPUs. Run `top` to see other programs, and the time that the hypervisor takes (`st`). "
    "Check how much CPU uWSGI's cgroup gets compared with others (CPUWeight, cpu.shares), and on which CPUs the "
    "workers may run (`cpu-affinity`)."
)
"""The advice about requests that wait for a CPU where it is not known who has it."""


def _find_busy_interpreters(figures: Figures) -> Explanation | None:
    """What to do if the interpreters compute for so much of the time that more threads would wait for them."""
    load = mean_load(figures)
    if load is None or load <= INTERPRETERS_BUSY:
        return None
    more = raise_processes(figures)
    return Explanation(
        "the interpreters are busy",
        f"{more.change}. Each interpreter uses {load:.2f} of a CPU, so more {name_slots(figures.server)} would wait "
        "for their interpreter.",
        more.settings,
        more.serves,
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
        "threads wait for, do not change `threads` or `processes`: more threads would perhaps also wait."
    )


def _check_as_root(server: ServerRecord) -> str:
    """The command that shows once what only another user may see."""
    address = server.address.removeprefix("unix://")
    which = shlex.quote(address) if address and "?" not in address else "--all"
    return f"`sudo $(command -v uwsgi-headroom) check {which}` on the server's host"


def _fills_cores(figures: Figures) -> bool:
    return (figures.flow.observed or 0.0) >= ASYNC_FULL * (figures.ceiling or 0)


def _advise_coroutines(figures: Figures) -> str:
    """What to do on a server with coroutines. One thread serves many requests there, so nothing shows what each waits
    for."""
    if not _fills_cores(figures):
        return find_blocking_call(figures.server)
    return (
        "Raise `gevent` (or `async`) if requests stay open on purpose (event streams, WebSockets, long polls) or wait "
        "for a backend that is not at its limit: a worker then serves more requests at once. If requests wait for a "
        "lock or a backend at its limit, make the lock or the backend faster: more requests at once would also wait."
    )


def _more_workers_or_threads(figures: Figures, load: float | None) -> Advice:
    """The advice to add workers or threads. load: mean load of an interpreter; None if unknown."""
    processes = len(figures.server.workers)
    each = round((figures.ceiling or 0) / processes) if processes else 0
    if each <= 1:
        reserve = " Raise `threads` only if the application is safe to run in several threads." if each else ""
        more = raise_processes(figures)
        return more._replace(change=f"{more.change}.{reserve}")
    step = more_threads(figures, each)
    if step.stopped_by == "interpreters":
        more, most = raise_processes(figures), more_processes(figures).most
        if most and step.most and most > WORTH_PROCESSES * step.most:
            return more._replace(change=f"{more.change}. More `threads` would wait for their interpreter.")
    parts = [
        f"Raise `threads` from {each} to {step.threads}{_say_unless(figures)}{_say_demand(figures)}.",
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
        f"Raise `processes` from {processes} to {step.processes} ({room}){_say_unless(figures)}{_say_demand(figures)}",
        *_say_effect(figures, step),
    ]
    return Advice(". ".join(sentences), (("processes", step.processes),), _promise(figures, step))


def _promise(figures: Figures, step: Step) -> float | None:
    """What a step serves at least, if that is more than now; None where requests sleep, because the model takes a rate
    limit for a sleep."""
    promised = None if mostly_sleeps(figures) else step.most
    return promised if promised and promised > (figures.flow.throughput or 0.0) else None


def _say_unless(figures: Figures) -> str:
    """When a step changes nothing, to follow it; empty if nothing says so."""
    return UNLESS_LIMITED if mostly_sleeps(figures) else ""


def _say_demand(figures: Figures) -> str:
    """The offered work, to follow the change; empty if it is unknown."""
    if overload := find_overload(figures):
        is_counted = count_refused(figures.window, figures.server.queues)
        arrive = "with retries, requests arrive" if is_counted else "requests arrive about"
        return f": {arrive} {overload:.1f} times as fast as uWSGI serves them"
    slots, in_bursts = name_slots(figures.server), count_at_once_in_bursts(figures)
    if in_bursts > (figures.demand.at_once or 0.0):
        of = f"{figures.ceiling or 0} {slots}"
        return f": while all {slots} are busy, there are {in_bursts:.0f} requests at once for {of}"
    offered = describe_demand(figures.demand, figures.ceiling, slots)
    return f": there are {offered}" if offered else ""


def _say_effect(figures: Figures, step: Step) -> Iterator[str]:
    """What a step will do, and what keeps it from doing more, as sentences without their full stops."""
    if promised := _promise(figures, step):
        most, now = rate(promised), rate(figures.flow.throughput or 0.0)
        yield f"After this step, uWSGI can serve at least {most} (now: {now})"
    if figures.demand.queue_was_full:
        yield (
            "How long requests then wait is not known, because no figure includes the clients that the full queue "
            "turned away"
        )
    if step.stopped_by is not None:
        yield STOPS[step.stopped_by].format(wanted=step.wanted)


STOPS: dict[Stop, str] = {
    "memory": "There is no memory for the {wanted} that the load needs",
    "cpu": "After this step, the CPUs are the limit: more load needs more CPUs",
    "interpreters": "After this step, the interpreters are the limit: more load needs more `processes`",
    "step": "Then check again: up to {wanted} may be needed",
    "size": "The load needs even more than this step: first find out why requests take so long",
}
"""What to know of a step that is smaller than the load needs."""


def _what_they_wait_for(figures: Figures) -> str:
    """What to do before there are more threads."""
    waits = figures.waits
    if waits and waits.share("lock") >= LOCKED:
        return (
            f"Threads wait for a lock of the application for {percent(waits.share('lock'))} of their time, and more "
            "threads would also wait for it."
        )
    if waits and mostly_sleeps(figures):
        return (
            f"Threads sleep for {percent(waits.share('sleep'))} of their time. If a rate limit lets requests sleep "
            "until it is their turn, more threads would also sleep, and no more requests would be served."
        )
    if waits and waits.share("child") >= MOSTLY:
        return (
            f"For {percent(waits.share('child'))} of their time, threads wait for programs that they start. With more "
            "threads, more of these programs run at once, and each needs memory and CPU of its own."
        )
    if waits and waits.share("disk") >= LOCKED:
        return (
            f"For {percent(waits.share('disk'))} of their time, threads wait for a disk: more threads help only if the "
            "disk can serve more at once."
        )
    if waits is None or waits.share("backend") < MOSTLY:
        return "If all requests wait for the same backend, such as a database, make this backend faster first."
    own = [each for each in waits.destinations if each.state == "backend" and (each.name or each.address)]
    largest = own[0] if own else None
    part = ""
    share, what = waits.share("backend"), UNKNOWN
    if largest and largest.share >= MOSTLY:
        share, what = largest.share, largest.label
    elif largest and largest.share >= LEAST_BACKEND:
        part = f" ({percent(largest.share)} for {largest.label})"
    named = "the backend" if what == UNKNOWN else what
    takes_more = f"More threads help only if {named} can take more requests at once; faster queries help in any case."
    if largest and what == largest.label and is_one_at_a_time(largest):
        takes_more = TAKES_TURNS
    return f"Threads wait for {what} for {percent(share)} of their time{part}. {takes_more}"
