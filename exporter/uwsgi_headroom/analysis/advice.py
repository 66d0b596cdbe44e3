"""Finds what makes requests wait, and advises one step: against that, or for more CPUs, interpreters or threads.

Each reason rests on positive evidence: a state of the threads that was measured, a counter, an option. Every text that
advises more threads or processes comes from `advise_capacity`, or rests on a measured load.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.capacity import fits, has_no_room
from uwsgi_headroom.analysis.demand import count_refused, write_at_once
from uwsgi_headroom.analysis.destinations import UNKNOWN, is_one_at_a_time, list_main
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import is_standing, shows_a_limit
from uwsgi_headroom.analysis.log_words import ENDS, STARTS, see_log
from uwsgi_headroom.analysis.shortages import (
    CPU_FULL,
    LOCKED,
    NEARLY_ASLEEP,
    are_waits_known,
    find_cpu_of_own_threads,
    list_loads,
    mean_load,
    mostly_sleeps,
    sleep_between_events,
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
from uwsgi_headroom.analysis.wait_states import MOSTLY, wait_for_websockets
from uwsgi_headroom.analysis.worker_states import (
    ASYNC,
    ASYNC_FULL,
    AWAY,
    MANY_STUCK,
    are_reloaded,
    are_reloaded_at_once,
    are_stopped_when_idle,
    count_lost,
    find_ends,
    name_slots,
    part_away,
    reach_max_requests,
    show_calls,
    starts_on_demand,
)
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.words.formats import counted, name_pids, percent
from uwsgi_headroom.words.template import Fact, Facts, fill

INTERPRETERS_BUSY = 0.45
"""Above this mean load of the interpreters, more threads would mostly wait for them."""

MOSTLY_BUSY = 0.75
"""Below this mean fraction of busy threads, threads are free; requests that wait nevertheless may have a reason of
their own."""

WORKER_FULL = 0.9
"""At or above this mean fraction of its busy threads, a worker leaves requests of its own sockets waiting."""

Settings = tuple[tuple[str, int], ...]
"""Options of uWSGI, and the number that an advice sets each to."""


class Advice(NamedTuple):
    """A change, the options of uWSGI that it sets, and the requests per second that it serves at least."""

    change: str
    settings: Settings = ()
    serves: float | None = None
    cause: str = ""
    """What is short, as a clause; empty if no evidence shows that the change helps."""
    all_busy: bool = False
    """Whether it says that all threads, async cores or interpreters are busy: no cause while some are free."""


class Reason(NamedTuple):
    """A row of templates: why requests wait, as a clause; the first thing to do about it; and what else."""

    cause: str
    act: str
    then: str = ""

    def advise(self, settings: Settings = (), *, all_busy: bool = False, **facts: Fact) -> Advice:
        """What to do about it, with these facts."""
        change = fill(f"{self.act} {self.then}", facts).strip()
        return Advice(change, settings, cause=fill(self.cause, facts), all_busy=all_busy)


FORK = "[lazy? Alternatively, remove `lazy-apps`: uWSGI then loads the application once, before it forks the workers.]"
_CHAIN_RELOAD = "a chain reload (`lazy-apps` and `touch-chain-reload`): it replaces one worker after another."
_LOAD_FASTER = "let the application load faster: each worker was down for {each:duration}."
WORKERS_DOWN = Reason("workers are down part of the time", "{look}")
STARTED_ON_DEMAND = Reason(
    "uWSGI [idle? stops its workers when it is idle][not idle? does not start its workers before a request comes]",
    "[idle? Remove `idle`, or raise it: after {idle:plain} s without a request, uWSGI stops all workers, and the next "
    "request waits for one.][not idle? Remove `cheap`, so that the workers start before the first request.]",
    FORK,
)
REACH_MAX_REQUESTS = Reason(
    "workers that reach `max-requests` are down for long",
    "Raise `max-requests` from {max_requests:plain}, so that workers are replaced less often, or " + _LOAD_FASTER,
)
RELOADED_AT_ONCE = Reason("all workers were reloaded at once", f"Use {_CHAIN_RELOAD}")
RELOADED_IN_TURN = Reason(
    "while [only? the only worker is reloaded, nothing serves requests]"
    "[not only? a chain reload replaces a worker, the others are too few]",
    "Raise `processes` from {processes:plain} to {more:plain} ({room}): as many workers as now then serve requests "
    "while one is replaced. Alternatively, reload when there are fewer requests, or " + _LOAD_FASTER,
)
RELOADED = Reason(
    "uWSGI was reloaded", f"If requests waited while a full reload loaded the application, use {_CHAIN_RELOAD}"
)
RELOADED_AGAIN = Reason(
    "uWSGI is reloaded again and again",
    "Find out what reloads uWSGI: SIGHUP, `master-fifo`, or a file that is touched.",
    "The file is the one of `touch-reload`, or a module that `py-autoreload` watches. At each reload, requests wait.",
)
SLEEP_BETWEEN = Reason(
    "all {slots} are busy: they sleep between calls to {label}",
    "Run {calls} to find the line that sleeps between calls to {label}.",
    "If it retries after a pause (as urllib3 does with `backoff_factor`), find out why the calls fail, and retry less "
    "often. If it polls, more `threads` help: each request that sleeps needs one, and no CPU.",
)
SLEEP_FIRST = Reason(
    "all {slots} are busy, and nearly always asleep",
    "[place? Look at {place}, which sleeps.][not place? Run {calls} to find the line that sleeps.]",
    "If it retries after a pause, find out why the calls fail, and retry less often. Only if the sleep is on purpose: "
    "{more}",
)
SOCKETS_OF_THEIR_OWN = Reason(
    "a worker with sockets of its own has no free thread",
    "Let the web server spread the load evenly over the sockets of `map-socket`, or remove `map-socket`.",
)
CHEAPER_IS_LATE = Reason(
    "cheaper mode does not start more workers",
    "[all? Remove `cheaper`, so that all workers run][count? Raise `cheaper`][initial?  and `cheaper-initial`][count?  "
    "to {count:plain}]: cheaper mode spawns workers too late.",
)
DO_NOT_END = Reason(
    "the requests in service do not end, and hold the {slots}",
    "Run {calls} to see what the requests in service wait for: none was completed, and more {slots} would also wait.",
)
KEPT_CONNECTIONS = Reason(
    "clients that keep connections open hold the threads between requests",
    "Let a web server, or uWSGI's `http` router with `http-keepalive`, hold the connections of clients.",
    "With `http11-socket`, each connection holds a thread until it is closed; `http-socket` closes it at once.",
)
KEPT_BY_OPTION = Reason(
    "clients that keep connections to `http11-socket` open hold the threads",
    "Write `http-socket` in place of `http11-socket`: it closes each connection after the response.",
    "Or let the web server in front keep fewer connections than uWSGI has threads (nginx: `keepalive`).",
)
STAY_OPEN = Reason(
    "connections that stay open, such as WebSockets or event streams, hold the threads",
    "Serve these connections from a uWSGI of their own with `gevent`.",
    "There, each takes only an async core. Or add a thread for each (`threads`): buffering does not help.",
)
SLOW_CLIENTS = Reason(
    "slow clients hold the threads",
    "Let the web server in front of uWSGI buffer requests and responses, as nginx does by default.",
    "If you add threads, slow clients will also hold the new threads. Buffering does not help WebSockets, which "
    "also wait for clients: serve them from a uWSGI of their own with `gevent`.",
)
KEPT_OR_SLOW = Reason(
    "clients that are slow, or that keep connections open, hold the threads",
    SLOW_CLIENTS.act,
    f"{KEPT_CONNECTIONS.then} If no client gets a response, the web server or uWSGI's router may not speak the "
    "protocol of the socket: `uwsgi_pass` and `http-to` need a `socket`, `proxy_pass` needs an `http-socket`.",
)
"""Where no request is counted: which of both is unknown."""
OWN_THREADS_COMPUTE = Reason(
    "threads that serve no request use much of the workers' CPU time",
    "[variable? Set `{variable}=1` in the environment of uWSGI, and compare the response times.]"
    "[not variable? Run `top -H -p {pid}` to find the threads that serve no request.]",
    "`py-spy dump --pid {pid}` shows what background threads do. Move their work into a mule or the spooler; if a "
    "library computes in threads, limit their number (`OMP_NUM_THREADS`).",
)

UNREACHABLE = (
    "`map-socket` gives a socket its own workers: a free thread of another worker cannot take a request from it."
)
"""What such sockets mean."""

AGAIN_AND_AGAIN = 3
"""From so many full reloads in a window on, it matters what reloads uWSGI, more than how."""


def bring_workers_back(figures: Figures) -> Advice | None:
    """What to do first, if workers are down part of the time."""
    away, options = part_away(figures) or 0.0, figures.server.setup.options
    if away < AWAY and not _lacks_the_replaced(figures, away):
        return None
    if are_stopped_when_idle(figures):
        return STARTED_ON_DEMAND.advise(idle=options.idle or None, lazy=options.lazy_apps)
    known = _explain_replacement(figures, away)
    if known or away < AWAY:
        return known
    why = f"the reason why workers are down {percent(away)} of the time"
    return WORKERS_DOWN.advise(look=see_log(figures.server, why, (*ENDS, *STARTS)))


def _lacks_the_replaced(figures: Figures, away: float) -> bool:
    """Whether requests wait because one worker after another is away, although all together have threads to spare."""
    processes, threads, busy = len(figures.window.workers), figures.ceiling or 0, figures.flow.observed or 0.0
    left = threads * (processes - 1) / max(1, processes)
    is_long = processes * away >= AWAY and not figures.window.reloads
    return is_long and MOSTLY_BUSY * left <= busy < WORKER_FULL * threads and shows_a_limit(figures.flow)


def _explain_replacement(figures: Figures, away: float) -> Advice | None:
    ended, log, processes = find_ends(figures), figures.server.log, len(figures.window.workers)
    is_lossy = figures.window.harakiris or count_lost(figures)
    if is_lossy or (log and any(code in log.messages for code in ENDS)):
        return None
    if not ended:
        return find_reload(figures)
    each = away * figures.window.observed_seconds * processes / sum(times for _, times, _ in ended)
    if reach_max_requests(figures):
        return REACH_MAX_REQUESTS.advise(max_requests=figures.server.setup.options.max_requests, each=each)
    if not are_reloaded(figures):
        return None
    if are_reloaded_at_once(figures):
        return RELOADED_AT_ONCE.advise()
    more, room = processes + 1, fits(figures.server.memory, 1)
    settings = (("processes", more),) * (not has_no_room(figures.server.memory))
    return RELOADED_IN_TURN.advise(settings, only=processes == 1, processes=processes, more=more, room=room, each=each)


def find_reload(figures: Figures) -> Advice | None:
    """What to do about full reloads; None without one."""
    if figures.window.reloads >= AGAIN_AND_AGAIN:
        return RELOADED_AGAIN.advise()
    return RELOADED.advise() if figures.window.reloads else None


def why_free_threads_do_not_serve(figures: Figures) -> Advice | None:
    """What to do if requests wait although threads are free, for a known reason."""
    if not waits_while_threads_are_free(figures):
        return None
    if _is_mapped_to_a_full_worker(figures):
        return SOCKETS_OF_THEIR_OWN.advise()
    return (waits_for_a_reload(figures) and find_reload(figures)) or spawn_earlier(figures)


def spawn_earlier(figures: Figures) -> Advice | None:
    """What to do if cheaper mode keeps workers in reserve while requests wait."""
    workers, options, each = figures.server.workers, figures.server.setup.options, figures.threads_each
    up = sum(worker.state != "reserve" for worker in workers)
    if up == len(workers) or not each or starts_on_demand(options):
        return None
    count = min(len(workers) - 1, max(up, math.ceil((count_needed_threads(figures) or 0.0) / each)))
    if count <= (options.cheaper or 0):
        return CHEAPER_IS_LATE.advise(all=True, count=None, initial=False)
    initial = count > (options.cheaper_initial or 0)
    settings = (("cheaper", count), ("cheaper-initial", count))[: 1 + initial]
    return CHEAPER_IS_LATE.advise(settings, all=False, count=count, initial=initial)


def waits_for_a_reload(figures: Figures) -> bool:
    """Whether requests wait although threads are free and workers are up, most likely for a full reload."""
    if not figures.window.reloads or is_standing(figures.flow) or not waits_while_threads_are_free(figures):
        return False
    return not _is_mapped_to_a_full_worker(figures) and bring_workers_back(figures) in (None, find_reload(figures))


def waits_while_threads_are_free(figures: Figures) -> bool:
    """Whether requests wait although a part of the threads is free."""
    flow, _ = figures.longest_wait
    return shows_a_limit(flow) and (figures.flow.observed or 0.0) < MOSTLY_BUSY * (figures.ceiling or 0)


def _is_mapped_to_a_full_worker(figures: Figures) -> bool:
    if not figures.server.setup.mapped:
        return False
    threads = {worker.worker_id: worker.threads for worker in figures.server.workers}
    return any(
        (worker.concurrency or 0.0) >= WORKER_FULL * (threads.get(worker.worker_id) or math.inf)
        for worker in figures.workers
    )


def _find_requests_without_end(figures: Figures) -> Advice | None:
    if not is_standing(figures.flow) or (figures.flow.observed or 0.0) < MANY_STUCK * (figures.ceiling or 0):
        return None
    return DO_NOT_END.advise(slots=name_slots(figures.server), calls=show_calls(figures.server))


def connections_hold_threads(figures: Figures) -> bool:
    """Whether clients that keep their connections hold threads that are free by uWSGI's count (`http11-socket`)."""
    return figures.share("client") >= MOSTLY and waits_while_threads_are_free(figures)


def killed_fill_threads(figures: Figures) -> bool:
    """Whether the threads were mostly busy with requests that were never completed, as their workers ended."""
    never = (figures.flow.observed or 0.0) - (figures.flow.littles_law or 0.0)
    has_ended = figures.window.harakiris + count_lost(figures) > 0
    return has_ended and never >= MANY_STUCK * (figures.ceiling or math.inf)


def _explain_clients(figures: Figures) -> Advice | None:
    if figures.share("client") < MOSTLY:
        return None
    if figures.server.setup.options.http11_socket:
        return KEPT_BY_OPTION.advise()
    if connections_hold_threads(figures):
        return KEPT_CONNECTIONS.advise()
    if wait_for_websockets(figures.server):
        return STAY_OPEN.advise()
    return (SLOW_CLIENTS if figures.window.is_counted else KEPT_OR_SLOW).advise()


def name_saturated(figures: Figures, saturation: Saturation) -> str:
    """The saturated backend by its name and address; empty if it is not known which one it is."""
    found = [each for each in figures.destinations if each.state == "backend"]
    if saturation.name:
        return next((each.label for each in found if each.name == saturation.name), saturation.name)
    main = [each.label for each in list_main(found)]
    return "".join(main) * (len(main) == 1 and main != [UNKNOWN])


def fills_threads(figures: Figures, saturation: Saturation) -> bool:
    """Whether half of the threads waited for a saturated backend at a high rate, which is then close to its most."""
    return saturation.many >= MOSTLY * (figures.ceiling or math.inf)


def _own(figures: Figures) -> Advice | None:
    cpus, used = figures.server.cpus, sum(list_loads(figures))
    is_busy = (mean_load(figures) or 0.0) > INTERPRETERS_BUSY or (cpus is not None and used >= CPU_FULL * cpus.count)
    if not is_busy or not find_cpu_of_own_threads(figures):
        return None
    pid = next((worker.local_pid for worker in figures.server.workers if worker.local_pid), None)
    return OWN_THREADS_COMPUTE.advise(pid=name_pids([pid]), variable=figures.server.sample.pool_variable)


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

RAISE_PROCESSES = "[full? Add memory first. ]Raise `processes` from {now:plain} to {then:plain} ({room})"
SERVES = "After this step, uWSGI can serve at least {most:rate} (it serves {now:rate} now)"
NOT_COUNTED = (
    "How long requests will wait after this step is not known: clients that the full queue refused were not counted"
)
WANTED = "{wanted:plain} [processes? processes][not processes? threads in each process]"
STOPS: dict[Stop, str] = {
    "memory": f"There is not enough memory for the {WANTED} that the load needs",
    "cpu": "After this step, add CPUs to serve even more",
    "interpreters": "After this step, also raise `processes` to serve even more",
    "step": f"Then run `check` again: the load may need up to {WANTED}",
    "size": "Even this step is not enough for the load: find out why requests take this long",
}
"""What to know of a step that is smaller than the load needs."""

OVERLOADED = (
    "[retries? with retries, ]requests arrive [about? about ][times? {times} times as fast as][slightly? slightly "
    "faster than] uWSGI serves them"
)
FULL_IN_BURSTS = "in bursts, all {ceiling:plain} {slots} are busy, and {more:more request} {more:waits|wait}"
MORE_THAN_SLOTS = (
    "on average, [bursts? requests need ][floor? at least ]{number} [not bursts? requests are in service or waiting, "
    "and all workers together have {all}][bursts? of the {all} of all workers, but bursts would need more than all "
    "{ceiling:plain}]"
)
"""Why a step is needed."""

SAFE = "Raise `threads` only if the application is safe to run in several threads."
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
    "Threads wait for {label} for {share:percent} of their time. [turns? More `threads` would also wait for their "
    "turn.][not turns? More threads help only if {label} can take more requests at once; faster queries always help.]"
)


def advise_capacity(figures: Figures) -> Advice:
    """One step to take: for more capacity where evidence shows which helps, else to get it."""
    if step := find_proven_step(figures):
        return step
    waits, server = figures.server.waits, figures.server
    how = _check_as_root(server) if waits is None or waits.needs_right else show_calls(server)
    return Advice(fill(SEE_WAITS, {"how": how}))


def find_proven_step(figures: Figures) -> Advice | None:
    """The step that the evidence shows to help; None if that depends on unknown waits of the threads.

    More threads help requests that wait for a backend with room to spare; for one lock, a backend at its limit or slow
    clients, they would wait as well. More processes help interpreters that compute much of the time.
    """
    reasons = (bring_workers_back, why_free_threads_do_not_serve, _find_requests_without_end, _explain_clients, _own)
    if other := next(filter(None, (reason(figures) for reason in reasons)), None):
        return other
    load, slots = mean_load(figures), name_slots(figures.server)
    if load is not None and load > INTERPRETERS_BUSY:
        more = raise_processes(figures)
        facts = {"more": more.change, "slots": slots, "load": f"{load:.2f}"}
        return INTERPRETERS_COMPUTE.advise(more.settings, all_busy=True, **facts)._replace(serves=more.serves)
    if slots == ASYNC:
        return _explain_coroutines(figures)
    dark = figures.share("unknown") + figures.share("other") + figures.share("disk")
    if not are_waits_known(figures) or round(dark, 6) > MOSTLY:
        return None
    return _look_before_more(figures, _more_workers_or_threads(figures, load), slots)


def _look_before_more(figures: Figures, more: Advice, slots: str) -> Advice:
    """The advice to add workers or threads, or to see first why requests sleep."""
    called = next((each.label for each in figures.destinations if each.address), "")
    facts = {"calls": show_calls(figures.server), "slots": slots}
    if mostly_sleeps(figures) and called:
        return SLEEP_BETWEEN.advise((), all_busy=True, label=called, **facts)
    if mostly_sleeps(figures, NEARLY_ASLEEP) and not sleep_between_events(figures):
        place = figures.main_place(["sleep"])
        return SLEEP_FIRST.advise((), all_busy=True, place=place, more=more.change, **facts)
    return more._replace(cause=f"all {slots} are busy", all_busy=True)


def _check_as_root(server: ServerRecord) -> str:
    address = server.address.removeprefix("unix://")
    which = shlex.quote(address) if address and "?" not in address else "--all"
    return f"`sudo $(command -v uwsgi-headroom) check {which}` on uWSGI's host"


def _explain_coroutines(figures: Figures) -> Advice:
    """What to do on a server with coroutines, where each request's wait is unknown."""
    if figures.polling or (figures.flow.observed or 0.0) >= ASYNC_FULL * (figures.ceiling or 0):
        return CORES_BUSY.advise(all_busy=True)
    server = figures.server
    look = _check_as_root(server) if server.sample.needs_right else f"{show_calls(server)} on a worker"
    return CALL_BLOCKS.advise(look=look)


def _more_workers_or_threads(figures: Figures, load: float | None) -> Advice:
    """The advice to add workers or threads. load: mean load of an interpreter; None if unknown."""
    each = figures.threads_each
    if each <= 1:
        more, cautions = raise_processes(figures), [_say_unless(figures), SAFE * bool(each)]
        return more._replace(change=" ".join([f"{more.change}.", *filter(None, cautions)]))
    step = more_threads(figures, each)
    if step.stopped_by == "interpreters":
        more, most = raise_processes(figures), more_processes(figures).most
        if most and step.most and most > WORTH_PROCESSES * step.most:
            return more._replace(change=f"{more.change}. Additional `threads` would wait for the interpreter lock.")
    parts = [
        *(f"{part}." for part in _say_step(figures, step, f"Raise `threads` from {each} to {step.threads}")),
        fill("[load? Each interpreter uses {load:cpu} of a CPU.]", {"load": load}),
        _say_unless(figures) or _say_backends(figures),
    ]
    return Advice(" ".join(filter(None, parts)), (("threads", step.threads),), _promise(figures, step))


WORTH_PROCESSES = 1.1
"""With processes that serve this much more than threads, the advice is processes: they take more memory."""


def raise_processes(figures: Figures, *, is_modelled: bool = True) -> Advice:
    """The advice to add workers, without the full stop. is_modelled: the model knows the limit."""
    processes, step = len(figures.server.workers), more_processes(figures)
    room, is_full = fits(figures.server.memory, step.processes - processes), has_no_room(figures.server.memory)
    change = fill(RAISE_PROCESSES, {"full": is_full, "now": processes, "then": step.processes, "room": room})
    settings = (("processes", step.processes),) * (not is_full)
    if not is_modelled:
        return Advice(change, settings)
    return Advice(". ".join(_say_step(figures, step, change)), settings, _promise(figures, step))


def _promise(figures: Figures, step: Step) -> float | None:
    """What a step serves at least, if that is more than now; None where requests wait for what the model does not know:
    they sleep, or wait for programs, files or something unknown."""
    dark = figures.share("disk") + figures.share("other") + figures.share("unknown")
    is_known = not mostly_sleeps(figures) and _share_of_programs(figures) < MOSTLY and dark < LOCKED
    return step.most if is_known and (step.most or 0.0) > (figures.flow.throughput or 0.0) else None


def _say_step(figures: Figures, step: Step, change: str) -> Iterator[str]:
    """A step, why it is needed, what it will do, and what keeps it from doing more: sentences without full stops."""
    yield fill("{change}[demand? : {demand}]", {"change": change, "demand": _say_demand(figures)})
    if promised := _promise(figures, step):
        yield fill(SERVES, {"most": promised, "now": figures.flow.throughput or 0.0})
    if figures.demand.queue_was_full and count_refused(figures.window, figures.server.queues) is None:
        yield NOT_COUNTED
    if step.stopped_by is not None:
        of_processes = step.processes > len(figures.server.workers)
        yield fill(STOPS[step.stopped_by], {"wanted": step.wanted, "processes": of_processes})


def _say_demand(figures: Figures) -> str:
    """The offered work, as a clause; empty if it is unknown, or the interpreters are the reason."""
    if overload := find_overload(figures):
        is_counted, is_slight = bool(count_refused(figures.window, figures.server.queues)), overload < 1.05
        facts: Facts = {"retries": is_counted, "about": not (is_counted or is_slight), "slightly": is_slight}
        return fill(OVERLOADED, facts | {"times": not is_slight and f"{overload:.1f}"})
    slots, in_bursts, at_once = name_slots(figures.server), count_at_once_in_bursts(figures), figures.demand.at_once
    ceiling = figures.ceiling or 0
    if in_bursts > (at_once or 0.0):
        more = max(1, round(in_bursts - ceiling))
        return fill(FULL_IN_BURSTS, {"ceiling": ceiling, "slots": slots, "more": more})
    if at_once is None or not ceiling or (at_once < ceiling and (mean_load(figures) or 0.0) > INTERPRETERS_BUSY):
        return ""
    facts = {"floor": figures.demand.is_floor, "number": write_at_once(at_once), "bursts": at_once < ceiling}
    return fill(MORE_THAN_SLOTS, facts | {"all": counted(ceiling, slots.removesuffix("s")), "ceiling": ceiling})


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
    own = (each for each in figures.destinations if each.state == "backend" and (each.name or each.address))
    largest = next(own, None)
    part = largest.share if largest else 0.0
    facts: Facts = {"label": largest.label if largest and part >= LEAST_BACKEND else "", "part": part}
    if largest and part >= MOSTLY:
        return fill(BACKEND_TOO, facts | {"share": part, "turns": is_one_at_a_time(largest)})
    return fill(BACKENDS_TOO, facts | {"share": figures.share("backend")})
