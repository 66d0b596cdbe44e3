"""Findings about what requests wait for: clients, a pipe, an event loop, another server, or a call that hangs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import KEPT_BY_OPTION as KEEPS
from uwsgi_headroom.analysis.advice import KEPT_OR_SLOW as UNSURE
from uwsgi_headroom.analysis.advice import LEAST_BACKEND, fills_threads, name_saturated
from uwsgi_headroom.analysis.advice import SLOW_CLIENTS as SLOW
from uwsgi_headroom.analysis.advice import STAY_OPEN as STAYS_OPEN
from uwsgi_headroom.analysis.destinations import (
    DestinationFigures,
    describe,
    find_own,
    is_one_at_a_time,
    join_labels,
    list_hanging,
    list_main,
    see_backends,
)
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.routes import describe_stuck_route
from uwsgi_headroom.analysis.shortages import FEWER_CALLS, MAIN, find_wait_of_holder, gets_no_cpu, tries_again
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures, count_streams, hang, list_ages, wait_for_websockets
from uwsgi_headroom.analysis.worker_states import (
    MANY_STUCK,
    SOME_STUCK,
    fill_cores,
    find_harmful_requests,
    list_programs,
    print_pids,
    see_calls,
)
from uwsgi_headroom.record import State
from uwsgi_headroom.words.formats import listed, mean_threads, name_pids, percent, rate
from uwsgi_headroom.words.template import Facts, Private

USED = 0.5
"""The share of the threads in use from which on it matters what they wait for: below, there is room."""

SLOW_CLIENTS = (0.1, 0.25)
"""The share of the available threads that wait for clients which is good to know, and which is a warning."""

LEAST_THREADS = 1.0
"""Fewer threads than this, on average, are no finding in any state."""

LEAST_SHARED = 0.05
"""With fewer threads, on average, in a connection that workers share, hardly any request uses it."""

AT_ONCE = 1.25
"""With more threads than one in such a connection on average, several wait for an answer at once, and each takes the
first one. With fewer, a lock of all processes may keep them apart."""

LEAST_BLOCKED = 0.9
"""The same for what stops a server: its only thread is blocked for nearly all of the time."""

OF_MOST = 0.5
"""So many threads for each active worker in one place, on average, are one of nearly every worker."""

OWN_USED = 0.25
"""The share of the threads that wait for requests to their own server from which on that is a warning."""

MOST_DESTINATIONS = 4
"""The most destinations that evidence lists."""

OUTPUT_BLOCKED = Kind(
    code="output_blocked",
    severity="critical or warning",
    title="Workers are blocked writing to a pipe (their {output}).",
    evidence="{writing:mean} of {busy:mean} busy threads wait to write to the pipe, and {behind:mean} wait for a lock "
    "that one of these threads holds[counted? ; {completed:request} {completed:was|were} completed in the last "
    "{seconds:duration}].",
    meaning="A pipe holds 64 KB by default. When the pipe is full, each write waits until the program at the other "
    "end, such as a log collector or the service manager, reads from the pipe.",
    act="Run `lsof +E -a -p {pid} -d 1,2` to find the program at the other end of the pipe.",
    then="Restart it if it has stopped reading. If it stops again, let uWSGI write to a file (`logto`), and log less.",
    clause="the workers are blocked writing to a pipe (their {output})",
    page_after=60,
    runbook="UwsgiOutputBlocked",
    limits="waits",
    states=("pipe",),
)

LOG_BLOCKED = replace(
    OUTPUT_BLOCKED,
    title="Workers are blocked sending to a UNIX datagram socket, which its program no longer reads.",
    evidence=OUTPUT_BLOCKED.evidence.replace("write to the pipe", "send to {socket}"),
    meaning="Such a socket holds few messages. When it is full, each request that sends one waits.",
    act="Restart the program that reads {socket}, such as rsyslog, journald or a statsd agent.",
    then="If it stops again, let the application log to a file or to a queue, or set a timeout on its socket.",
    clause="the workers are blocked sending to a UNIX datagram socket, which its program no longer reads",
)

CONNECTION_SHARED = Kind(
    code="connection_shared",
    severity="critical, warning or info",
    title="Workers share one connection to {address}[critical? , and mix up responses].",
    evidence="{sharing} of {workers} workers have the same open connection; on average, {shared:mean} threads wait "
    "for a response on it{of_request}.",
    meaning="The application opened the connection before uWSGI forked the workers. [critical? Each request takes the "
    "response that arrives first: users get wrong data, or that of others, unless each response carries the ID of its "
    "request.][not critical? If two workers use it at once, one may read the response to the other's request.]",
    act="Set `lazy-apps` and reload uWSGI: each worker then opens a connection of its own.",
    then="Alternatively, open it after the fork, in a function with `@postfork` of `uwsgidecorators`.",
    clause="[is_cause? the workers share one connection to {address}]",
    page_after=60,
    runbook="UwsgiConnectionShared",
    limits="waits",
    states=("backend",),
)

WAIT_FOR_CLIENTS = Kind(
    code="slow_clients",
    severity="warning or info",
    title="Threads wait for[counted?  slow] clients.",
    evidence="On average, {waiting:mean} of {threads} threads wait for clients: busy threads spend {share:percent} of "
    "their time sending data to clients or receiving data from clients{of_request}.",
    meaning="A thread that waits for a client serves no other request. A few slow clients can hold all threads.",
    act="[not served? Check that the web server in front, or uWSGI's router, speaks the protocol of the "
    f"socket.][served? {SLOW.act}]",
    then="[expect? If clients send `Expect: 100-continue`, set `http-manage-expect`: each of them waits for a second. ]"
    "[not served? `uwsgi_pass` and `http-to` need a `socket`, `proxy_pass` needs an `http-socket`: else a worker "
    "waits for the rest of each request until a timeout. Also let the web server in front buffer requests. ]"
    f"[counted? {SLOW.then}][not counted? {UNSURE.then}]",
    clause=f"[held, served, counted? {SLOW.cause}][held, served, not counted? {UNSURE.cause}]"
    "[held, not served? the threads wait for their clients]",
    runbook="UwsgiClientsSlow",
    fills_threads=True,
    states=("client",),
)
READ_SLOWLY = replace(
    WAIT_FOR_CLIENTS,
    title="Threads wait for clients that read their responses slowly.",
    act=f"[off? Remove `{{off}} off` ({{place}}), or limit it to event streams.][not off? {SLOW.act}]",
    then="In nginx, `uwsgi_buffering off`, `proxy_buffering off` and the header `X-Accel-Buffering: no` pass the "
    "slowness of clients on to uWSGI. More threads would also wait.",
    clause="[held? clients read their responses slowly][held, off? , and `{off} off` makes uWSGI wait for them]",
)
KEPT = replace(
    WAIT_FOR_CLIENTS,
    title="Threads wait for clients that keep connections to `http11-socket` open.",
    meaning="After a response, the thread waits for the next request of the same connection (4 s, `socket-timeout`).",
    act=KEEPS.act,
    then=KEEPS.then,
    clause=f"[held? {KEEPS.cause}]",
)
STAY_OPEN = replace(
    WAIT_FOR_CLIENTS,
    title="Threads wait for connections that stay open.",
    evidence="On average, {waiting:mean} of {threads} threads serve clients that stay{of_request}, {share:percent} of "
    "the time of busy threads: WebSockets wait for the client, event streams still write.",
    meaning="Each connection that stays open holds a thread, which serves no other request.",
    act=STAYS_OPEN.act,
    then=STAYS_OPEN.then,
    clause=f"[held? {STAYS_OPEN.cause}]",
)

SLEEP_AGAIN = Kind(
    code="sleeps_again",
    severity="warning or info",
    title="Requests sleep, go on for a moment, and sleep again.",
    evidence="On average, {waiting:mean} of {busy:mean} busy threads ({share:percent}) sleep, for {nap:duration} at a "
    "time{of_request}.",
    meaning="Most likely, requests wait for a rate limit, or for something that only one at a time can use, such as a "
    "SQLite file, a lock file or a lock in Redis. Other causes: a backend fails, and requests retry after a pause; or "
    "long polls hold a thread on purpose.",
    act="Run {calls} to find the line that sleeps.",
    then="Then shorten the time for which one request keeps the others waiting (in SQLite: short write transactions), "
    "or repair the backend. More threads, or `gevent`, help only long polls.",
    clause="[warning? requests sleep again and again]",
    runbook="UwsgiConcurrencyNearCapacity",
    fills_threads=True,
    limits="waits",
    states=("sleep",),
)


STUCK = Kind(
    code="request_stuck",
    severity="critical or warning",
    title="Requests have been in service for longer than {limit:chosen}.",
    evidence="{stuck:request} {stuck:is|are} stuck in {ids:worker}, {stuck:in service|the oldest} for "
    "{oldest:duration}.{route}",
    meaning="[not coroutines? Each stuck request holds a thread that other requests need. Its time counts only once it "
    "has ended.][coroutines, full? Each stuck request holds an async core, and hardly any async cores are "
    "free.][coroutines, not full? Async cores are free, but no request is completed: a call that does not yield may "
    "block a worker and all of its requests. A database driver may not be patched.]",
    act="[not child? Run {calls} to see what the stuck {stuck:request does|requests do}.][child? Run {programs} "
    "to see the {stuck:program|programs} that the stuck {stuck:request waits|requests wait} for.]",
    then="[many? Then restart their workers with the command that {pids} prints. ]Set timeouts on the calls that the "
    "application makes[child? , and let it read the output of programs while they run (`communicate()`): a "
    "program in `pipe_write` waits for that][harakiri? , and set `harakiri` as the last resort].[reset?  `harakiri` "
    "({reset} s) does not end these requests: each further request resets the worker's only timer.][coroutines, full?  "
    "If these requests stay open on purpose, raise `gevent` (or `async`).][long?  If they are expected to take this "
    "long, raise `--stuck` of uwsgi-headroom.]",
    clause="[many? stuck requests hold the {slots}]",
    runbook="UwsgiRequestStuck",
    fills_threads=True,
)


BACKEND = Kind(
    code="waits_for_backend",
    severity="info",
    title="Requests spend most of their time waiting for {what}.",
    evidence="{waiting:mean} of {busy:mean} busy {slots} wait for {each}[part? , for {part:duration} of the "
    "{whole:duration} of a request].",
    meaning="A waiting request holds a thread, and uses no CPU. An overloaded backend gets faster when load falls.",
    act=FEWER_CALLS + "[not queries? {look}.]",
    then="Check whether the backend is overloaded, or waits for a lock. [turns? Redis runs one command at a time: "
    "`SLOWLOG GET` shows what holds it up. Connections with `flags=b` or `flags=P` wait for the result of a job: look "
    "at the job workers. ]Make the queries faster or fewer. More `threads` [turns? would also wait for their turn][not "
    "turns? help only if {what} can take more requests at once]. More CPU does not help.",
    clause="the {slots} wait for {what}",
    runbook="UwsgiConcurrencyNearCapacity",
    fills_threads=True,
    limits="turns",
    states=("backend", "dns"),
)
NO_ANSWER = replace(
    BACKEND,
    severity="warning",
    title="Requests wait for {what}.",
    evidence="{waiting:mean} of {busy:mean} busy {slots} wait for {each}[part? , for {part:duration} of the "
    "{whole:duration} of a request].[locked?  {locked:mean} wait for a lock that one of these threads holds.]",
    meaning="A request that waits for a backend holds a thread, but uses no CPU.",
    act="[silent? Find out why {silent} does not answer.][not silent? Run a DNS resolver with a cache on this host, "
    "and check the name servers in /etc/resolv.conf.]",
    then="[silent? It may be down, a firewall may drop packets or have forgotten idle connections, or its listen queue "
    "may be full. Set timeouts and TCP keepalives, and pause before a retry. More `threads` would also hang.]"
    "[not silent? Keep connections open: an open connection needs no lookup. More `threads` would also wait.]",
    clause="[is_cause? the {slots} wait for {what}]",
)
CALLS_ITSELF = replace(
    BACKEND,
    severity="warning or info",
    title="Requests call the uWSGI that serves them, and wait for the response.",
    meaning="Each of these requests needs a second thread. If all wait for one, nothing continues before a timeout.",
    act="Call the code behind the second requests instead, or let another uWSGI serve them.",
    then="More `threads` only make it rarer that all threads wait for second requests.",
    clause="requests call the uWSGI that serves them",
)

FILES = Kind(
    code="waits_for_files",
    severity="warning or info",
    title="Requests spend most of their time waiting for [not kind? a disk][kind? files on a {kind} file system]"
    "[mount?  ({mount})].",
    evidence="{waiting:mean} of {busy:mean} busy {slots} wait in the kernel for an answer of the file system"
    "{of_request}.",
    meaning="A thread that waits for a file serves no other request, and uses no CPU.",
    act="[kind? Find out why the {kind} file system answers slowly.]"
    "[not kind? Run `iostat -x 1` to see which disk is busy, and let requests write or read less there.]",
    then="[kind? A program or another host serves it: more `threads` would also wait. Keep files on a local disk if "
    "you can.][not kind? Each `fsync`, such as SQLite's, waits for the disk; a limit of operations (a cgroup, a "
    "cloud's volume) makes it wait longer. More `threads` help only if the disk can do more at once.]",
    clause="the threads wait for [not kind? a disk][kind? files on a {kind} file system][mount?  ({mount})]",
    runbook="UwsgiConcurrencyNearCapacity",
    fills_threads=True,
    states=("disk",),
)

SATURATED = Kind(
    code="backend_saturated",
    severity="warning or info",
    title="A backend is saturated[named?  ({named})].",
    evidence="At {low:rate}, the backend worked on {few:mean} requests at a time, and each took "
    "{few_seconds:duration}; at {high:rate}, on {many:mean} at a time, and each took {many_seconds:duration}.[part?  "
    "{waiting:mean} of {busy:mean} busy {slots} wait for {each}, {part:duration} of the {whole:duration} of a "
    "request.]",
    meaning="A backend with capacity to spare would not slow down; in this one, requests wait for each other.",
    act="{look}.",
    then="Make the queries faster or fewer, or give the "
    "backend more capacity. More threads or processes would also wait[most? , and uWSGI can hardly serve more than "
    "{most}].[not named?  To see which backend the threads wait for, give your backends names (`--backends`).]",
    clause="a backend is saturated[named?  ({named})]",
    runbook="UwsgiConcurrencyNearCapacity",
    fills_threads=True,
    limits="always",
    states=("backend",),
)


def find(figures: Figures) -> Iterator[Finding]:
    waits, (kind, mount) = figures.waits, figures.server.sample.file_system
    if waits is None:
        return
    yield from _shared(figures, waits)
    yield from _clients(figures, waits)
    reading, sleeping = waits.threads.get("disk", 0.0), waits.threads.get("sleep", 0.0)
    if waits.share("disk") >= MOSTLY and reading >= LEAST_THREADS:
        worse = reading >= USED * (figures.threads or 0)
        yield FILES.found(figures, worse=worse, kind=kind, mount=Private(mount))
    if tries_again(figures) and waits.nap and sleeping >= LEAST_THREADS:
        yield SLEEP_AGAIN.found(figures, waits, worse=sleeping >= USED * (figures.available or 0))


def blocks(figures: Figures, waits: WaitFigures, threads: float) -> bool:
    """Whether requests mostly wait for one thing, in which this mean number of threads is, or for the lock of these."""
    if threads < LEAST_BLOCKED or not waits.total:
        return False
    of_most = threads >= OF_MOST * figures.balance.active
    behind = waits.threads.get("lock", 0.0) + waits.threads.get("interpreter_lock", 0.0)
    return threads + behind * of_most >= MOSTLY * waits.total


def find_blocked_output(figures: Figures) -> Iterator[Finding]:
    waits, output = figures.waits, figures.server.sample.output_name
    if waits is None or not blocks(figures, waits, waits.output):
        return
    writer = next((worker.local_pid for worker in figures.server.workers if worker.local_pid and worker.ages), None)
    worse = figures.flow.requests == 0 or shows_a_limit(figures.flow)
    facts: Facts = {"writing": waits.output, "behind": waits.threads.get("lock", 0.0)}
    if output == "log socket":
        socket = Private(figures.server.sample.output_socket, "the socket")
        yield LOG_BLOCKED.found(figures, facts, worse=worse, socket=socket)
    else:
        pid = Private(name_pids([writer], "WORKER_PID"), "WORKER_PID")
        yield OUTPUT_BLOCKED.found(figures, facts, worse=worse, output=output or "standard output or error", pid=pid)


def _shared(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    if connections := figures.server.shared_connections:
        largest = max(connections, key=lambda each: each.workers)
        yield CONNECTION_SHARED.found(
            figures,
            waits,
            worse=(waits.shared >= LEAST_SHARED) + (waits.shared >= AT_ONCE),
            address=Private(largest.address, "a backend"),
            sharing=largest.workers,
            is_cause=blocks(figures, waits, waits.shared),
        )


def _clients(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    threads, available = waits.threads.get("client", 0.0) + count_streams(figures.server), figures.threads or 0
    known, warning = SLOW_CLIENTS
    stuck = sum(age >= figures.stuck_seconds for age, _ in list_ages(figures.server))
    if threads < LEAST_THREADS or threads < known * available or hang(figures.server, stuck):
        return
    is_many, share = threads >= warning * available, threads / max(threads, waits.total)
    facts: Facts = {"threads": mean_threads(available), "held": share >= MOSTLY, "waiting": threads, "share": share}
    off = next((each for each in figures.server.ways_in.lines if each.directive.endswith("_buffering")), None)
    if figures.server.sample.writing >= MOSTLY * threads:
        place = Private(off and f"{off.path}:{off.line}", "in nginx's configuration")
        yield READ_SLOWLY.found(figures, facts, off=off and off.directive, place=place, worse=is_many)
    elif wait_for_websockets(figures.server):
        yield STAY_OPEN.found(figures, facts, worse=is_many)
    elif figures.server.setup.options.http11_socket:
        yield KEPT.found(figures, facts, worse=is_many)
    else:
        options = figures.server.setup.options
        facts |= {"expect": bool(options.http and options.complete and not options.http_manage_expect)}
        yield WAIT_FOR_CLIENTS.found(figures, facts, served=figures.flow.requests != 0, worse=is_many)


COMPUTING: tuple[State, ...] = ("cpu", "cpu_wait", "interpreter_lock")


def find_stuck(figures: Figures) -> Iterator[Finding]:
    """The finding about stuck requests. `harakiri` helps only where it ends those of few threads."""
    requests, seconds = find_harmful_requests(figures), figures.stuck_seconds
    server, waits = figures.server, figures.waits
    if not requests or gets_no_cpu(figures):
        return
    (oldest, worst), ids = requests[0], sorted({worker_id for _, worker_id in requests})
    kind, limit = server.setup.concurrency_kind, server.setup.options.harakiri
    is_async, part = kind == "async", len(requests) / (figures.ceiling or math.inf)
    lack = not is_async and not figures.reload_wait and shows_a_limit(figures.flow)
    are_many = part >= MANY_STUCK or (lack and part >= SOME_STUCK)
    if tries_again(figures) and (figures.flow.littles_law or 0.0) >= MOSTLY * (figures.flow.observed or 0.0):
        are_many = False  # requests that take as long are completed all the time, as long polls
    has_threads = (figures.configured or 0) > len(server.workers) and kind not in ("async", None)
    is_reset = bool(limit and seconds > limit) and has_threads
    yield STUCK.found(
        figures,
        worse=are_many and (not is_async or shows_a_limit(figures.flow)),
        limit=seconds,
        stuck=len(requests),
        ids=ids,
        oldest=oldest,
        route=Private(describe_stuck_route(figures.routes, server, seconds)),
        coroutines=is_async,
        full=fill_cores(figures),
        calls=see_calls(server, worst),
        child=waits is not None and waits.threads.get("child", 0.0) >= max(MOSTLY * waits.total, MAIN * len(requests)),
        programs=list_programs(server, worst),
        many=are_many,
        pids=print_pids(figures, ids),
        harakiri=kind not in ("async", None) and not is_reset,
        reset=is_reset and limit,
        long=not is_async,
    )


def find_backends(figures: Figures) -> Iterator[Finding]:
    waits, known, available = figures.waits, figures.saturation, figures.threads or 0
    if waits is None:
        return
    locking = [each for each in [find_wait_of_holder(figures)] if each and each.is_silent]
    is_locked, facts = bool(locking), _list_backends(waits)  # it holds a lock, for which all others wait
    is_used = waits.outside * waits.total >= max(LEAST_THREADS, USED * available)
    hanging = locking or list_hanging(waits.destinations, available)
    are_most, main = waits.outside >= MOSTLY and is_used, list_main(waits.destinations)
    if own := find_own(waits.destinations):
        worse = own.threads >= OWN_USED * available or shows_a_limit(figures.flow)
        yield CALLS_ITSELF.found(figures, facts, worse=worse)
    elif hanging:
        silent = [each for each in hanging if each.is_silent]
        yield NO_ANSWER.found(
            figures,
            facts,
            what=_say(describe, hanging),
            is_cause=are_most or is_locked or sum(each.threads for each in hanging) >= MOSTLY * waits.total,
            locked=is_locked and Private(waits.threads["lock"]),
            silent=bool(silent) and _say(join_labels, silent),
        )
    elif known and waits.share("backend") >= MOSTLY and (is_used or fills_threads(figures, known)):
        named = name_saturated(figures, known)
        facts |= {"named": Private(named, known.name), "most": fills_threads(figures, known) and rate(known.high)}
        look = _say(see_backends, [each for each in waits.destinations if each.label == named])
        yield SATURATED.found(figures, facts, known, look=look, worse=is_used)
    elif are_most:
        turns = bool(main) and all(map(is_one_at_a_time, main))
        yield BACKEND.found(figures, facts, what=_say(describe, main), turns=turns, look=_say(see_backends, main))


def _list_backends(waits: WaitFigures) -> Facts:
    named = [each for each in waits.destinations if each.share >= LEAST_BACKEND][:MOST_DESTINATIONS]

    def list_shares(shown: Sequence[DestinationFigures]) -> str:
        return listed([f"{each.label} ({percent(each.share)})" for each in shown] or ["many backends"])

    return {
        "waiting": sum(each.threads for each in named) or waits.outside * waits.total,
        "each": _say(list_shares, named),
        "part": Private(sum(each.per_request or 0.0 for each in named) or None),
        "whole": sum((waits.per_request or {}).values()),
    }


def _say(write: Callable[[Sequence[DestinationFigures]], str], destinations: Sequence[DestinationFigures]) -> Private:
    """A text about destinations, and the same without addresses."""
    names = ["a backend" if set(each.name or each.address) & set(":/@") else each.name for each in destinations]
    hidden = [replace(each, address="", name=name) for each, name in zip(destinations, names, strict=True)]
    return Private(write(destinations), write(hidden))
