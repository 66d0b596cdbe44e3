"""Findings about what requests wait for in their own server: locks, slow clients, a full pipe; or that advice needs to
know it. What they wait for elsewhere is in `backend_waits`."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from uwsgi_headroom.analysis.bottlenecks import SLOW_CLIENTS as SLOW
from uwsgi_headroom.analysis.bottlenecks import STAY_OPEN as STAYS_OPEN
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.shortages import tries_again
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures, of_request, wait_for_websockets
from uwsgi_headroom.analysis.worker_states import see_calls
from uwsgi_headroom.words.formats import mean_threads, name_pids
from uwsgi_headroom.words.template import Facts, Private

USED = 0.5
"""The share of the threads in use from which on it matters what they wait for: below, there is room in any case."""

SLOW_CLIENTS = (0.1, 0.25)
"""The share of the available threads that wait for clients which is good to know, and which is a warning."""

LEAST_THREADS = 1.0
"""Fewer threads than this, on average, are no finding in any state."""

LEAST_SHARED = 0.05
"""Fewer threads than this, on average, in a connection that workers share mean that hardly any request uses it."""

AT_ONCE = 1.25
"""With more threads than one in such a connection on average, several wait for an answer at the same time, and each
takes the answer that comes first. With fewer, a lock of all processes may keep them apart: one thread after the other
is then seen, and a look that takes a moment sees some of them twice."""

LEAST_BLOCKED = 0.9
"""The same for what stops a server: its only thread is blocked for nearly all of the time."""

OF_MOST = 0.5
"""So many threads for each active worker in one place, on average, are one of nearly every worker."""

OUTPUT_BLOCKED = Kind(
    code="output_blocked",
    severity="critical or warning",
    title="Workers are blocked writing to a pipe (their {output}).",
    evidence="{writing:mean} of {busy:mean} busy threads wait to write to the pipe, and {behind:mean} wait for a lock "
    "that one of these threads holds; {completed:request} {completed:was|were} completed in the last "
    "{seconds:duration}.",
    meaning="A pipe holds 64 KB by default. When the pipe is full, each write waits until the program at the other "
    "end, such as a log collector or the service manager, reads from the pipe.",
    act="Run `lsof +E -a -p {pid} -d 1,2` to find the program at the other end of the pipe.",
    then="Restart this program if it has stopped reading. If it stops again, or reads too slowly, let uWSGI write its "
    "log to a file (`logto`), and log less.",
    clause="the workers are blocked writing to a pipe (their {output})",
    page_after=60,
    runbook="UwsgiOutputBlocked",
    limits="waits",
    states=("pipe",),
)

CONNECTION_SHARED = Kind(
    code="connection_shared",
    severity="critical, warning or info",
    title="Workers share one connection to {address}[critical? , and mix up responses].",
    evidence="{sharing} of {workers} workers have the same open connection; on average, {waiting:mean} threads wait "
    "for a response on it{of_request}.",
    meaning="The application opened the connection before uWSGI forked the workers. [critical? Each request takes the "
    "response that arrives first: users get wrong data, or the data of other users, unless each response carries the "
    "ID of its request.][not critical? If two workers use the connection at once, one worker may read the response to "
    "the other worker's request.]",
    act="Set `lazy-apps` and reload uWSGI: each worker then opens a connection of its own.",
    then="Alternatively, open the connection after the fork, in a function with the decorator `@postfork` of the "
    "module `uwsgidecorators`.",
    clause="[is_cause? the workers share one connection to {address}]",
    page_after=60,
    runbook="UwsgiConnectionShared",
    limits="waits",
    states=("backend",),
)

WAIT_FOR_CLIENTS = Kind(
    code="slow_clients",
    severity="warning or info",
    title="Threads wait for slow clients.",
    evidence="On average, {clients:mean} of {threads} threads wait for clients: busy threads spend {share:percent} of "
    "their time sending data to clients or receiving data from clients{of_request}.",
    meaning="A thread that waits for a client serves no other request. A few slow clients can hold all threads.",
    act="[not served? Check that the web server in front, or uWSGI's router, speaks the protocol of the "
    f"socket.][served? {SLOW.act}]",
    then="[not served? `uwsgi_pass` and `http-to` need a `socket`, `proxy_pass` needs an `http-socket`: else a worker "
    "waits for the rest of each request until a timeout. Also let the web server in front buffer requests. ]"
    f"{SLOW.then}",
    clause=f"[held, served? {SLOW.cause}][held, not served? the threads wait for their clients]",
    runbook="UwsgiClientsSlow",
    fills_threads=True,
    states=("client",),
)
"""Clients may be no slow ones if no request is completed: with an `http-socket` behind uWSGI's router, all threads
read, for `socket-timeout` (4 s) each (measured on uWSGI 2.0.31)."""
STAY_OPEN = replace(
    WAIT_FOR_CLIENTS,
    title="Threads wait for connections that stay open.",
    evidence="On average, {clients:mean} of {threads} threads wait for clients{of_request}, {share:percent} of the "
    "time of busy threads; most wait for what the client sends after its request, as with WebSockets.",
    meaning="Each connection that stays open holds a thread, which serves no other request.",
    act=STAYS_OPEN.act,
    then=STAYS_OPEN.then,
    clause=f"[held? {STAYS_OPEN.cause}]",
)

SLEEP_AGAIN = Kind(
    code="sleeps_again",
    severity="warning or info",
    title="Requests sleep, go on for a moment, and sleep again.",
    evidence="On average, {sleeping:mean} of {busy:mean} busy threads ({share:percent}) sleep, for {nap:duration} at a "
    "time{of_request}.",
    meaning="Most likely, requests wait for a rate limit, or check again and again whether something is free that only "
    "one request at a time can use, such as a SQLite file, a lock file or a lock in Redis. Other possible causes: a "
    "backend fails, and requests retry after a pause; or event streams and long polls wait for new events, and hold a "
    "thread on purpose.",
    act="Run {calls} to find the line that sleeps.",
    then="Then shorten the time for which one request keeps the others waiting (in SQLite: short write transactions), "
    "or repair the backend. More threads help only event streams and long polls: serve them with `gevent`, or add "
    "threads.",
    clause="[warning? requests sleep again and again]",
    runbook="UwsgiConcurrencyNearCapacity",
    fills_threads=True,
    limits="waits",
    states=("sleep",),
)


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about what requests wait for; none where it is not known."""
    waits = figures.waits
    if waits is not None:
        yield from _shared(figures, waits)
        yield from _clients(figures, waits)
        yield from _tries(figures, waits)


def blocks(figures: Figures, waits: WaitFigures, threads: float) -> bool:
    """Whether requests mostly wait for one thing, in which this mean number of threads is seen: these threads
    themselves, or, where a thread of most workers is in it, those that wait for its lock."""
    if threads < LEAST_BLOCKED or not waits.total:
        return False
    of_most = threads >= OF_MOST * len(figures.balance.active)
    behind = waits.threads.get("lock", 0.0) + waits.threads.get("interpreter_lock", 0.0)
    return threads + (behind if of_most else 0.0) >= MOSTLY * waits.total


def find_blocked_output(figures: Figures) -> Iterator[Finding]:
    """The finding about a pipe that does not take what the workers write to it."""
    waits, known = figures.waits, figures.server.waits
    if waits is None or not blocks(figures, waits, waits.output):
        return
    writer = next((worker.local_pid for worker in figures.server.workers if worker.local_pid and worker.ages), None)
    yield OUTPUT_BLOCKED.found(
        figures,
        worse=not figures.flow.requests or shows_a_limit(figures.flow),
        output=(known and known.output_name) or "standard output or error",
        writing=waits.output,
        busy=waits.total,
        behind=waits.threads.get("lock", 0.0),
        completed=figures.flow.requests,
        seconds=figures.window.seconds,
        pid=Private(name_pids([writer], "WORKER_PID"), "WORKER_PID"),
    )


def _shared(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    """Connections that were opened before the fork: answers go to whichever worker reads first."""
    connections = figures.server.shared_connections
    if not connections:
        return
    largest = max(connections, key=lambda each: each.workers)
    yield CONNECTION_SHARED.found(
        figures,
        worse=(waits.shared >= LEAST_SHARED) + (waits.shared >= AT_ONCE),
        address=Private(largest.address, "a backend"),
        sharing=largest.workers,
        workers=len(figures.server.workers),
        waiting=waits.shared,
        of_request=of_request(waits, waits.each("backend")),
        is_cause=blocks(figures, waits, waits.shared),
    )


def _clients(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    threads, available = waits.threads.get("client", 0.0), figures.threads or 0
    known, warning = SLOW_CLIENTS
    if threads < LEAST_THREADS or threads < known * available:
        return
    is_most, is_many = waits.share("client") >= MOSTLY, threads >= warning * available
    facts: Facts = {
        "clients": threads,
        "threads": mean_threads(available),
        "share": waits.share("client"),
        # Of requests that last, such as WebSockets, none is in a mean request.
        "of_request": of_request(waits, waits.each("client") or None),
    }
    if wait_for_websockets(figures.server):
        yield STAY_OPEN.found(figures, facts, held=is_most, worse=is_many)
    else:
        yield WAIT_FOR_CLIENTS.found(figures, facts, held=is_most, served=figures.flow.requests > 0, worse=is_many)


def _tries(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    """Requests that sleep, look whether they can go on, and sleep again."""
    if not tries_again(figures) or not waits.nap or waits.threads["sleep"] < LEAST_THREADS:
        return
    yield SLEEP_AGAIN.found(
        figures,
        worse=waits.threads["sleep"] >= USED * (figures.available or 0),
        sleeping=waits.threads["sleep"],
        busy=waits.total,
        share=waits.share("sleep"),
        nap=waits.nap,
        of_request=of_request(waits, waits.each("sleep")),
        calls=see_calls(figures.server),
    )
