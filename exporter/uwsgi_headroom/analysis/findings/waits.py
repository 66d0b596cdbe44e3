"""Findings about what requests wait for in their own server: locks, slow clients, a full pipe; or that advice needs to
know it. What they wait for elsewhere is in `backend_waits`."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.advice import lacks_evidence
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.limits import THREADS_BUSY
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.shortages import (
    IF_WEBSOCKETS,
    SERVE_WEBSOCKETS,
    WEBSOCKETS,
    tries_again,
)
from uwsgi_headroom.analysis.wait_states import (
    MOSTLY,
    WaitFigures,
    list_gaps,
    of_request,
    wait_for_websockets,
)
from uwsgi_headroom.analysis.worker_states import show_calls
from uwsgi_headroom.words.formats import duration, mean_count, mean_threads, name_pids, percent, say_completed

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


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about what requests wait for; none where it is not known."""
    waits = figures.waits
    if waits is None:
        return
    yield from _shared(figures, waits)
    yield from _clients(figures, waits)
    yield from _tries(figures, waits)


def find_unknown(figures: Figures) -> Iterator[Finding]:
    """What the advice on capacity lacks: how to see permanently what the threads wait for."""
    used = (figures.flow.observed or 0.0) / figures.ceiling if figures.ceiling else 0.0
    if not (used >= THREADS_BUSY or shows_a_limit(figures.flow)) or not lacks_evidence(figures):
        return
    gaps = list_gaps(figures.server) or ("what the threads wait for is known for only a part of the time",)
    why, _, remedy = (gaps[0], "", "") if figures.server.processes_off else gaps[0].partition(": ")
    yield Finding(
        code="waits_not_known",
        severity="info",
        title="What the threads wait for is not known, so more threads may not help.",
        evidence=f"{why[0].upper()}{why[1:]}.",
        meaning="More threads help if requests wait for a backend that can take more requests at once. If requests "
        "wait for a single lock, for a backend at its limit, or for slow clients, more threads would also wait.",
        change=f"To see at all times what the threads wait for, {remedy}." if remedy else "",
    )


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
    waits = figures.waits
    if waits is None or not blocks(figures, waits, waits.output):
        return
    stands = not figures.flow.requests or shows_a_limit(figures.flow)
    known = figures.server.waits
    what = (known.output_name if known else None) or "standard output or error"
    writer = next((worker.local_pid for worker in figures.server.workers if worker.local_pid and worker.ages), None)
    pid = name_pids([writer], "WORKER_PID")
    yield Finding(
        code="output_blocked",
        severity="critical" if stands else "warning",
        title=f"Workers are blocked writing to a pipe (their {what}).",
        evidence=f"{mean_count(waits.output)} of {mean_count(waits.total)} busy threads wait to write to the pipe, and "
        f"{mean_count(waits.threads.get('lock', 0.0))} wait for a lock that one of these threads holds; "
        f"{say_completed(figures.flow.requests)} in the last {duration(figures.window.seconds)}.",
        meaning="A pipe holds 64 KB by default. When the pipe is full, each write waits until the program at the other "
        "end, such as a log collector or the service manager, reads from the pipe.",
        clause=f"the workers are blocked writing to a pipe (their {what})",
        change=f"Find the program at the other end of the pipe with `lsof +E -a -p {pid} -d 1,2`, and "
        "restart it if it has stopped reading. If it stops again, or reads too slowly, let uWSGI write its log to a "
        "file (`logto`), and log less.",
    )


def _shared(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    """Connections that were opened before the fork: answers go to whichever worker reads first."""
    connections = figures.server.shared_connections
    if not connections:
        return
    mixes = waits.shared >= AT_ONCE
    is_cause, largest = blocks(figures, waits, waits.shared), max(connections, key=lambda each: each.workers)
    others = f" (one of {len(connections)} shared connections)" if len(connections) > 1 else ""
    yield Finding(
        code="connection_shared",
        severity="critical" if mixes else "warning" if waits.shared >= LEAST_SHARED else "info",
        title=f"Workers share one connection to {largest.address}{others}{', and mix up responses' if mixes else ''}.",
        evidence=f"{largest.workers} of {len(figures.server.workers)} workers have the same open connection; "
        f"on average, {mean_count(waits.shared)} threads wait for a response on "
        f"it{of_request(waits, waits.each('backend'))}.",
        meaning="The application opened the connection before uWSGI forked the workers. "
        + (
            "Several requests wait for a response on this connection at the same time, and each takes the response "
            "that arrives first: users get wrong data, or the data of other users, unless each response carries the "
            "ID of its request."
            if mixes
            else "If two of these workers use the connection at once, one worker may read the response to the other "
            "worker's request."
        ),
        clause=f"the workers share one connection to {largest.address}" if is_cause else "",
        change="Set `lazy-apps` and reload uWSGI: each worker then opens a connection of its own. Alternatively, open "
        "the connection after the fork, in a function with the decorator `@postfork` of the module `uwsgidecorators`.",
    )


def _clients(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    threads, available = waits.threads.get("client", 0.0), figures.threads or 0
    known, warning = SLOW_CLIENTS
    if threads < LEAST_THREADS or threads < known * available:
        return
    stay_open = wait_for_websockets(figures.server)
    # Of requests that last, such as WebSockets, none is in a mean request.
    each = waits.each("client") or None
    buffer = (
        "Let the web server in front of uWSGI buffer requests and responses, as nginx does by default. If you add "
        f"threads, slow clients will also hold the new threads. {IF_WEBSOCKETS}"
    )
    yield Finding(
        code="slow_clients",
        severity="warning" if threads >= warning * available else "info",
        title="Threads wait for connections that stay open." if stay_open else "Threads wait for slow clients.",
        evidence=f"On average, {mean_count(threads)} of {mean_threads(available)} threads wait for clients: busy "
        f"threads spend {percent(waits.share('client'))} of their time sending data to clients or receiving data from "
        f"clients{of_request(waits, each)}." + (_AFTER if stay_open else ""),
        meaning="Each connection that stays open holds a thread, which serves no other request."
        if stay_open
        else "A thread that waits for a client serves no other request. A few slow clients can hold all threads.",
        clause=""
        if waits.share("client") < MOSTLY
        else WEBSOCKETS
        if stay_open
        else "slow clients hold the threads"
        if figures.flow.requests
        else "the threads wait for their clients",
        change=SERVE_WEBSOCKETS if stay_open else ("" if figures.flow.requests else _PROTOCOL) + buffer,
    )


_AFTER = (
    " Most of these threads do not wait for a request (that would be for `socket-timeout` at a time), but for what the "
    "client sends after it, as with WebSockets."
)


_PROTOCOL = (
    "Check that the web server in front, or uWSGI's router, speaks the protocol of the socket: `uwsgi_pass` and "
    "`http-to` need a `socket`, `proxy_pass` needs an `http-socket`. If the protocols differ, a worker waits for the "
    "rest of each request until a timeout. "
)
"""Of what clients may wait for as well if no request is completed: with an `http-socket` behind uWSGI's router, all
threads read, for `socket-timeout` (4 s) each (measured on uWSGI 2.0.31)."""


def _tries(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    """Requests that sleep, look whether they can go on, and sleep again."""
    if not tries_again(figures) or not waits.nap or waits.threads["sleep"] < LEAST_THREADS:
        return
    yield Finding(
        code="sleeps_again",
        severity="warning" if waits.threads["sleep"] >= USED * (figures.available or 0) else "info",
        title="Requests sleep, go on for a moment, and sleep again.",
        evidence=f"On average, {mean_count(waits.threads['sleep'])} of {mean_count(waits.total)} busy threads "
        f"({percent(waits.share('sleep'))}) sleep, for {duration(waits.nap)} at a "
        f"time{of_request(waits, waits.each('sleep'))}.",
        meaning="Most likely, requests wait for a rate limit, or for something that only one request at a time can "
        "use, such as a SQLite file, a lock file or a lock in Redis. While one request uses it, the others sleep, and "
        "check again and again whether it is free. Another possible cause: a backend fails, and requests retry after a "
        "pause. Event streams and long polls also sleep and check again while they wait for new events; they hold a "
        "thread on purpose.",
        clause="requests sleep again and again" if waits.threads["sleep"] >= USED * (figures.available or 0) else "",
        change=f"Run {show_calls(figures.server)} to find the line that sleeps. Then shorten the time for which one "
        "request keeps the others waiting (in SQLite: short write transactions), or avoid the wait. If a backend "
        "fails, repair the backend, and let requests retry less often: more threads or processes would only retry more "
        "often. More threads help only event streams and long polls, each of which holds a thread for as long as it "
        "lasts: serve them with `gevent`, or add threads.",
    )
