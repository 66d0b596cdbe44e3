"""Findings about clients that leave before their answer, about exceptions, which are counted together with them, and
about responses that say that the application failed, which only uWSGI's log shows.

uWSGI learns that a client has left when it writes the answer or reads the request's body. For each answer that it
cannot write, it counts a write error and, unless `write-errors-tolerance` allows for it, an exception as well, though
the application raised none (measured on uWSGI 2.0.31: 5 write errors, 5 exceptions; also with
`disable-write-exception`). So write errors are taken from the exceptions before these are judged.

A client that closes a TCP connection without a reset is not noticed if its whole answer fits into one write: both
counts are lower bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, sqrt
from shlex import quote

from uwsgi_headroom.analysis.advice import Advice
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.log import PROVEN, UNPROVEN
from uwsgi_headroom.analysis.littles_law import shows_a_limit, waiting_clause
from uwsgi_headroom.analysis.log_words import see_log
from uwsgi_headroom.analysis.settings import DEFAULT_HTTP_TIMEOUT
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import after_deploy
from uwsgi_headroom.history.totals import sum_if_all_known
from uwsgi_headroom.record import is_tcp
from uwsgi_headroom.uwsgi_log.messages import BY_CODE
from uwsgi_headroom.words.formats import counted, duration, percent

EXCEPTIONS = (3, 0.01)
"""Requests with an exception are a warning at or above this number and, surely, this fraction of all requests: the
application decides what is an error."""

SURELY = 1.5
"""By so many standard deviations (the square root of a count that is random) the number has to be above that fraction:
3 exceptions in 40 requests, 6 in 200. Without it, three in a minute of 300 requests were a warning, which
chance brings several times a day where one request in 1,000 raises one. If surely most requests raise one, from nine
of nine on, hardly anybody is served, which is critical."""

STATUS_5XX = r"\|app: .*\(HTTP/[0-9.]+ 5[0-9]{2}\)"
"""What the lines of requests with such a status have, for grep."""

LEFT = (3, 0.05)
"""Clients that left are a warning at or above this number and this fraction of all requests: a few people always close
a page before it is loaded."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about clients that leave, about exceptions, and about responses with a status from 500 to 599."""
    yield from _left(figures)
    yield from _exceptions(figures)
    yield from _server_errors(figures)


def count_left(figures: Figures) -> int:
    """The requests whose client had left, at least: one whose body could not be read may have no written answer
    either."""
    workers = figures.window.workers
    unwritten = sum_if_all_known([worker.write_errors for worker in workers])
    unread = sum_if_all_known([worker.read_errors for worker in workers])
    return max(unwritten or 0, unread or 0)


def _left(figures: Figures) -> Iterator[Finding]:
    left, flow = count_left(figures), figures.flow
    if not left:
        return
    part = left / max(left, flow.requests)
    unread = sum_if_all_known([worker.read_errors for worker in figures.window.workers]) or 0
    is_many = left >= LEFT[0] and part >= LEFT[1]
    uploads = 2 * unread > left
    too_late = wait_too_long(figures)
    shorter = _shorten_queue(figures) if too_late else None
    change = _advise(figures, uploads=uploads) if is_many else ""
    served = "" if flow.response_time is None else f" a request takes {duration(flow.response_time)} in uWSGI, and"
    yield Finding(
        code="clients_left",
        severity="critical" if too_late else "warning" if is_many else "info",
        title="Most responses come too late: clients have left, and uWSGI still serves their requests."
        if too_late
        else "Clients disconnect, or stop sending, before uWSGI has read their request."
        if uploads
        else _title(is_many),
        evidence=f"In {'all' if left >= flow.requests else f'at least {left} of'} {counted(flow.requests, 'request')}"
        f"{f' ({percent(part)})' if part >= 0.005 else ''}, the client disconnected before uWSGI had written the "
        f"response{f', or (for {unread:,} of these requests) stopped sending the request' if unread else ''};{served} "
        f"{waiting_clause(flow)}.",
        meaning="The work for these requests is wasted, and is done again if the clients retry. The disconnects are "
        "not a failure of the application. For each client that disconnects, uWSGI's log has a line with `write "
        "error`, and uWSGI counts an exception.",
        **(shorter or Advice(change))._asdict(),
    )


def wait_too_long(figures: Figures) -> bool:
    """Whether requests wait in the listen queue for longer than they are in service, and surely most clients have gone
    once theirs is served. If these ask again, the queue is full of requests that nobody waits for: 60 clients with a
    timeout of 1.5 s got 0.9 answers a second from four workers that served 16, and 15 with a queue of 16 (measured on
    uWSGI 2.0.31)."""
    left, flow = count_left(figures), figures.flow
    if not shows_a_limit(flow) or (flow.queue_wait or 0.0) < (flow.response_time or inf):
        return False
    return left - SURELY * sqrt(left) >= MOSTLY * flow.requests


def _shorten_queue(figures: Figures) -> Advice | None:
    """How to let no request wait for longer than its client does; None if a full queue is no longer than that."""
    served, own = figures.flow.throughput or 0.0, figures.flow.response_time or 0.0
    queues = figures.server.queues
    limit, name = max([(each.limit or 0, name) for name, each in queues.items()], default=(0, ""))
    size = round(served * (TIMELY * _find_patience(figures, name) - own))
    if not 0 < size < limit:
        return None
    return Advice(
        f"Lower `listen` from {limit} to {size}: a request then waits {duration(size / served)} at most (now up to "
        f"{duration(limit / served)}). More clients are turned away, but the others get their response before they "
        "give up. Let clients pause before they try again. Then add capacity.",
        (("listen", size),),
    )


PATIENCE, TIMELY = 2.0, 0.8
"""For how many seconds clients wait where that is not seen, and the part of that time in which their answer comes."""


def _find_patience(figures: Figures, name: str) -> float:
    """How long clients wait at this socket until they leave: half of all that left the queue did so earlier. The queue
    of a UNIX socket does not list clients that have gone, and most of these were not served before."""
    median = figures.queue_waits.percentiles.get(0.5) if figures.queue_waits and not is_tcp(name) else None
    return (median and median.seconds) or PATIENCE


def _title(is_many: bool) -> str:
    if not is_many:
        return "A few clients disconnect before they get their response."
    return "Clients disconnect before they get their response: a timeout is too short."


def _advise(figures: Figures, *, uploads: bool) -> str:
    if uploads:
        return (
            "Let the web server in front of uWSGI buffer requests (in nginx: `proxy_request_buffering`, "
            "`uwsgi_request_buffering`). If clients send their requests slowly, raise `socket-timeout`."
        )
    options = figures.server.setup.options
    server = "the web server (`uwsgi_read_timeout`, `proxy_read_timeout`)"
    router = f"uWSGI's router (`http-timeout`, {options.http_timeout or DEFAULT_HTTP_TIMEOUT} s)"
    others = f", of {server} and of {router}" if options.http else f" and of {server}"
    compare = f"ompare the timeouts of the clients{others} with the response times"
    if shows_a_limit(figures.flow):
        return f"First shorten the wait in the listen queue. Then c{compare}, and raise those that are shorter."
    return f"C{compare}. Raise the timeouts that are shorter, or make the slowest requests shorter."


def _exceptions(figures: Figures) -> Iterator[Finding]:
    raised, requests = figures.window.exceptions - count_left(figures), figures.flow.requests
    if raised <= 0:
        return
    part = raised / max(raised, requests)
    see = see_log(figures.server, "the tracebacks", ("traceback", "client_left", "write_error"))
    is_warning, are_most = _judge(raised, requests)
    some = f" ({percent(part)})" if part >= 0.005 else ""
    are_known = all(worker.write_errors is not None for worker in figures.window.workers)
    yield Finding(
        code="exceptions",
        severity="critical" if are_most else "warning" if is_warning else "info",
        title="Most requests raise exceptions that the application does not catch."
        if are_most
        else "Requests raise exceptions that the application does not catch.",
        evidence=f"{raised} of {counted(requests, 'request')}{some} raised an exception.",
        meaning="uWSGI counts each exception that the application does not catch. "
        + (
            "It also counts an exception when a client disconnects; the number above does not include these exceptions."
            if are_known
            else "uWSGI also counts an exception for each client that disconnects before it has the whole response."
        ),
        change=after_deploy(figures, figures.server.workers, see) if are_most else see if is_warning else "",
    )


def _judge(number: int, requests: int) -> tuple[bool, bool]:
    """Whether so many of these requests that failed are worth a warning, and whether surely most of all failed."""
    surely = number - SURELY * sqrt(number)
    return number >= EXCEPTIONS[0] and surely >= EXCEPTIONS[1] * requests, surely >= MOSTLY * requests


def _server_errors(figures: Figures) -> Iterator[Finding]:
    """Responses of an application that catches its exceptions, as Flask and Django do, and of uWSGI itself. uWSGI also
    writes a line with status 500 for an exception that is not caught, and for a request that it refuses: if these may
    be half of the lines, their findings say enough."""
    messages, requests = figures.server.log.messages if figures.server.log else {}, figures.flow.requests
    message = messages.get("status_5xx")
    raised = max(0, figures.window.exceptions - count_left(figures))
    said = raised + sum(each.agreed for code, each in messages.items() if BY_CODE[code].proof == "uncalled")
    if message is None or 2 * said >= message.count:
        return
    number = message.count - said
    is_warning, are_most = _judge(number, requests)
    is_proven = message.agreed >= PROVEN * message.count
    part = number / max(number, requests)
    path = figures.server.setup.log_path
    lines = f"`grep -aE '{STATUS_5XX}' {quote(path)} | tail`" if path.startswith("/") else "uWSGI's log"
    see = (
        f"Check the application's own log for these errors; {lines} shows the URLs of the requests. If the lines say "
        "`app: -1`, look for a rule of uWSGI's routing (`route`) that ends requests."
    )
    errors = "responses are server errors (status 500 to 599)"
    yield Finding(
        code="server_errors",
        severity="critical" if are_most and is_proven else "warning" if is_warning else "info",
        title=f"{'Most' if are_most else 'Some'} {errors}, by the lines of requests in uWSGI's log."
        if is_proven
        else f"uWSGI's log says that {'most' if are_most else 'some'} {errors}.",
        evidence=f"{number} of {counted(max(number, requests), 'request')}"
        f"{f' ({percent(part)})' if part >= 0.005 else ''} got such a response; uWSGI counted "
        f"{counted(raised, 'exception') if raised else 'no exception'}.{'' if is_proven else f' {UNPROVEN}'}",
        meaning="uWSGI counts only exceptions that the application does not catch. Flask and Django catch all "
        "exceptions of a request and respond with status 500, so no counter of uWSGI shows these errors.",
        change=after_deploy(figures, figures.server.workers, see) if are_most else see if is_warning else "",
    )
