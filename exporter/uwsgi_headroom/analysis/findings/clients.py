"""Findings about what clients get: none of the response, because they left; an exception, an error, a static file.

For each answer that uWSGI cannot write, it counts a write error and mostly an exception as well, so these are taken
from the exceptions. A client that closes a TCP connection without a reset may not be noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, sqrt
from shlex import quote

from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.log import PROVEN, UNPROVEN
from uwsgi_headroom.analysis.findings.threads import THREADS_BUSY
from uwsgi_headroom.analysis.littles_law import ratio, shows_a_limit
from uwsgi_headroom.analysis.log_words import LOG
from uwsgi_headroom.analysis.percentiles import find_percentile
from uwsgi_headroom.analysis.setting_facts import DEFAULT_HTTP_TIMEOUT
from uwsgi_headroom.analysis.wait_states import MOSTLY, MOSTLY_FILES, list_ages
from uwsgi_headroom.analysis.worker_states import ASYNC, name_slots, see_calls
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.record import LogMessage, is_tcp
from uwsgi_headroom.uwsgi_log.messages import BY_CODE
from uwsgi_headroom.words.template import Facts, Private

EXCEPTIONS = (3, 0.01)
"""Requests with an exception are a warning at or above this number and, surely, this fraction of all requests: the
application decides what is an error."""

SURELY = 1.5
"""By so many standard deviations (the square root of a count that is random) the number has to be above that fraction:
3 exceptions in 40 requests, 6 in 200. Else chance would bring a warning several times a day."""

STATUS_5XX = r"\|app: .*\(HTTP/[0-9.]+ 5[0-9]{2}\)"
"""What the lines of requests with such a status have, for grep."""

LEFT = (3, 0.05)
"""Clients that left are a warning at or above this number and this fraction of all requests: a few people always close
a page before it is loaded."""

PATIENCE, TIMELY = 2.0, 0.8
"""Seconds that clients wait where that is not seen, and the part of that time in which their answer comes."""

SOCKET_TIMEOUT = 4
"""uWSGI's default: a request that it ends held a thread for so long."""

FEW, ENOUGH, NEARLY_ALL = 20, 50, 0.9
"""Fewer requests in a window show no share, for a note and for a warning; and from this share of errors on, hardly
anybody gets a page: that of scanners and of health checks is smaller where people do."""

HOLD_MUCH, HOLD_MOST = 0.25, 0.5
"""From these fractions of the threads on, files take what other requests could use, and most of what there is."""

LEFT_EARLY = Kind(
    code="clients_left",
    role="harm",
    severity="warning or info",
    title="[info? Some clients disconnect before they have their whole response.]"
    "[warning? Clients disconnect before their response is complete: a timeout is too short, or they leave streams.]",
    evidence="In at least {number} of {requests:request} ({part:fine_percent}), the client left before the "
    "response[unread? , or stopped sending the request ({unread})][time? ; a request takes {time:duration} in "
    "uWSGI][wait? ; {wait}].",
    meaning="The work for these requests is wasted, and is done again if the clients retry. This is no failure of the "
    "application, although uWSGI counts an exception for each.",
    act="[warning? Compare the timeouts of clients and web server with the response times, and read its error log.]",
    then="[warning? Where clients only leave event streams or downloads, nothing is wrong. If requests wait in the "
    "listen queue, shorten that wait first. Then raise the shorter timeouts (`uwsgi_read_timeout` or "
    "`proxy_read_timeout` of nginx, `http-timeout` of uWSGI), or make requests shorter.]",
    runbook="UwsgiExceptionsHigh",
)
UPLOADS_LEFT = replace(
    LEFT_EARLY,
    severity="warning",
    title="Clients disconnect, or stop sending, before uWSGI has read their request.",
    act="Let the web server buffer requests (nginx: `proxy_request_buffering`, `uwsgi_request_buffering`).",
    then="If clients send their requests slowly, raise `socket-timeout`.",
)
SEEN_TO_LEAVE = replace(
    LEFT_EARLY,
    severity="warning",
    evidence="Of {requests:request} that were seen in service, {number} ({part:fine_percent}) went on after the client "
    "had left[wait? ; {wait}].",
)
ALL_LEFT = replace(
    LEFT_EARLY,
    role="cause",
    severity="warning",
    title="All clients leave before they get their response: requests take longer than clients wait.",
    evidence="{left} clients have closed their connection, half of them after {patience:duration}; {serving:request} "
    "{serving:is|are} in service[ends? , and take about {takes:duration}][wait? ; {wait}].",
    act="Run {calls} to see why requests take so long.",
    then="[ends? Or raise the clients' timeout above {takes:duration}. ]More threads do not help.",
    clause="clients leave before they get their response, since requests take longer than clients wait",
)
MOST_LEFT = replace(
    LEFT_EARLY,
    severity="critical",
    title="Most responses come too late: clients have left, and uWSGI still serves their requests.",
    act="[size? Lower `listen` to {size:plain}: a request then waits {short:duration} at most.]"
    "[not size? Shorten the wait in the listen queue.]",
    then="[size? More clients are turned away, but the rest get a response in time. ]Let clients pause before a retry.",
    page_after=60,
)

GIVEN_UP = replace(
    LEFT_EARLY,
    title="Requests take longer than uWSGI's `http` router waits for them (`http-timeout`).",
    evidence="At least {number}[counted?  of {requests:request} ({part:fine_percent})] took longer than {patience} s.",
    meaning="The router then closes the connection: the client gets no response, and the worker works in vain. A "
    "response sent in parts is not cut off.",
    act="[warning? Raise `http-timeout` ({patience}) above the time of the longest request, or shorten that request.]",
    then="",
)

TIMED_OUT = replace(
    LEFT_EARLY,
    title="[agrees? Clients][not agrees? uWSGI's log says that clients] [sends? send their request bodies]"
    "[not sends? read their responses] too slowly: uWSGI ends their requests after `socket-timeout`.",
    evidence="uWSGI's log reports this for {number} of {requests:request} ({part:fine_percent})."
    "[not agrees?  " + UNPROVEN + "]",
    meaning="Until then, each holds a thread. uWSGI also counts an exception for each that the application lets pass.",
    act="[warning, sends? Let a buffering proxy (nginx) take uploads whole, or raise `socket-timeout`.]"
    "[warning, not sends? Let a buffering proxy (nginx) take the responses whole, or raise `socket-timeout`.]",
    then="[warning? It is 4 s by default. nginx buffers unless `uwsgi_request_buffering` or `uwsgi_buffering` is off.]",
)

WORKS_ON = Kind(
    code="works_after_response",
    severity="warning or info",
    title="Requests go on after their response: clients do not wait for their end.",
    evidence="Of {serving:request} in service, {answered} {answered:has|have} sent a response, or a part of it, and "
    "the client has closed its connection[time? ; a request takes {time:duration} in uWSGI][wait? ; {wait}].",
    meaning="uWSGI times a request until its thread is free. So response times here include work that clients do not "
    "wait for, such as mail that the response's `close()` sends.",
    act="Move the work that follows the response to a spooler, a mule or a job queue.",
    then="That work holds a thread: if threads are scarce, other requests wait for one.",
    clause="[warning? requests hold their threads after their response]",
    fills_threads=True,
)

RAISE = Kind(
    code="exceptions",
    role="harm",
    severity="warning",
    title="Requests raise exceptions that the application does not catch.",
    evidence="{number} of {requests:request} ({part:fine_percent}) raised an exception.",
    meaning="uWSGI counts each exception that the application does not catch.[uncounted?  It also counts one "
    "for each client that disconnects before it has the whole response.]",
    act="[place? Find the cause of {place}, the most frequent one.][not place? Check uWSGI's log for the tracebacks.]",
    then=LOG,
    runbook="UwsgiExceptionsHigh",
    explained_by="descriptors_used_up",
    log=("postgres_full", "sqlite_locked", "traceback", "client_left", "write_error"),
)
RAISE_FEW = replace(RAISE, severity="info", act="", then="", log=())
MOST_RAISE = replace(
    RAISE,
    severity="critical",
    title="Most requests raise exceptions that the application does not catch.",
    act="If this began with a deploy, roll the deploy back.",
    then="Otherwise, [place? find the cause of {place}, the most frequent one. ]"
    "[not place? check uWSGI's log for the tracebacks. ]" + LOG,
)
ASGI = replace(
    MOST_RAISE,
    title="The application is an ASGI application, which uWSGI cannot call.",
    act="Let uWSGI load the WSGI application of the project, as `wsgi:application` of Django.",
    then="Without one (FastAPI, Starlette), run it under an ASGI server such as uvicorn.",
)
FEW_PARAMETERS = replace(
    MOST_RAISE,
    title="Requests fail, because the web server passes almost no variables on.",
    act="Add `include uwsgi_params;` to the location with `uwsgi_pass` ({place}).",
    then="A block with a `uwsgi_param` of its own inherits none from outside.",
)
NO_SPACE = replace(
    MOST_RAISE,
    severity="critical or warning",
    title="Requests fail, because a disk is full.",
    act="Free up disk space where {place} writes.",
    then="`df -h` and `df -i` show which file systems are full. Or a quota may be used up.",
    log=("traceback",),
)

FAIL = Kind(
    code="server_errors",
    role="harm",
    severity="critical, warning or info",
    title="uWSGI's log says that [critical? many][warning? some][info? some] responses are server errors (status 5xx).",
    evidence="[counted? {number} of {requests:request} ({part:fine_percent}) got such a response; uWSGI counted "
    "{raised:exception}.][not counted? {number:request} got such a response.][not proven?  " + UNPROVEN + "]",
    meaning="Flask and Django catch all exceptions of a request and respond with status 500: no counter of uWSGI shows "
    "these errors.",
    act="[place? Find the cause of {place}, the most frequent exception in uWSGI's log.]"
    "[not place, critical? If this began with a deploy, roll the deploy back.]"
    "[not place, warning? Check the application's own log for these errors.]",
    then="[place, critical? If this began with a deploy, roll the deploy back. ]"
    "[not place, critical? Otherwise, check the application's own log for these errors. ]"
    "[grep? `{grep}` shows the URLs of the requests. ][not info? If the lines of uWSGI's log say `app: -1`, look for a "
    "rule of uWSGI's routing (`route`) that ends requests.]",
)

NOT_FOUND = Kind(
    code="client_errors",
    role="harm",
    severity="warning or info",
    title="uWSGI's log says that [all? nearly all][not all? half of the] responses are errors (status 4xx).",
    evidence="{number} of {requests:request} ({part:fine_percent}) got status 400, 401, 403, 404, 405 or 429, the "
    "last one {status}.[routed?  uWSGI's own routing ended them.][not routed?  " + UNPROVEN + "]",
    meaning="uWSGI counts such a response like any other. Usually, paths or host names are not those that the "
    "application expects.",
    act="[routed? Find the rule of `route` that ends these requests.]"
    "[not routed, bad? Find out what the application refuses: a host name, or a request body without a length.]"
    "[not routed, many? Check which address its rate limiter takes for the client: behind a proxy, all may share one.]"
    "[not routed, unauthorized? Check that credentials reach the application: proxies drop some headers.]"
    "[not routed, paths? Compare the paths in uWSGI's log with the application's, and with `mount`, `static-map`.]",
    then="[not routed, bad? With Django, `ALLOWED_HOSTS` has the host names.]",
)

REDIRECT = replace(
    NOT_FOUND,
    code="redirects",
    severity="info",
    title="uWSGI's log says that nearly all responses are redirects.",
    evidence="{number} of {requests:request} ({part:fine_percent}) got one, the last {status}. " + UNPROVEN,
    meaning="An application behind a proxy that ends TLS redirects each page to itself if it does not know of TLS.",
    act="If browsers report a redirect loop, check that the web server passes on `X-Forwarded-Proto`.",
    then="The application has to trust this header: `SECURE_PROXY_SSL_HEADER` of Django, `ProxyFix` of Werkzeug.",
)

ROUTED = Kind(
    code="routing_ends_requests",
    severity="info",
    title="A rule of uWSGI's own routing ends nearly all requests, so that the application does not get them.",
    evidence="It ended {routed} of {requests:request}.",
    meaning="That is right for redirects, a cache or a proxy. A rule with `break:403` refuses all that it matches.",
)

STATIC_FILES = Kind(
    code="static_files",
    severity="warning or info",
    title="Most requests are for static files, which uWSGI's workers serve themselves.",
    evidence="{files:percent} of {requests:request} are for static files"
    "[held? , and occupy {held:mean} of {threads:threads} threads on average][wait? ; {wait}].",
    meaning="uWSGI does not measure the time of static files: the response times shown are those of other requests.",
    act="[takes_much? Let the web server in front of uWSGI serve the static files.]",
    then="[takes_much? Alternatively, set `offload-threads` to 2: these then send the files, also to slow clients.]",
    clause="[warning? static files hold the threads]",
    replaces=("slow_clients",),
    runbook="UwsgiConcurrencyNearCapacity",
)


def count_left(figures: Figures) -> int:
    """The requests whose client had left, or was too slow, at least."""
    timeout, held = figures.server.setup.options.socket_timeout, (figures.flow.observed or 0.0) * figures.window.seconds
    slow = min(_count_proven(figures, "body_timeout"), int(held / (timeout or SOCKET_TIMEOUT)))
    return max(*_count_errors(figures), slow)


def _count_errors(figures: Figures) -> tuple[int, int]:
    """Requests that uWSGI could not read, and responses that it could not write."""
    workers = figures.window.workers
    unread, unwritten = ([getattr(worker, f"{what}_errors") for worker in workers] for what in ("read", "write"))
    return sum_if_all_known(unread) or 0, sum_if_all_known(unwritten) or 0


def _count_proven(figures: Figures, code: str) -> int:
    """The lines about requests that uWSGI ended itself, and counts as if their clients had left."""
    return figures.server.messages.get(code, LogMessage(0, 0)).agreed


def _count(number: int, requests: int) -> Facts:
    return {"number": number, "requests": requests, "part": number / max(number, requests)}


def find_left(figures: Figures) -> Iterator[Finding]:
    (unread, unwritten), flow = _count_errors(figures), figures.flow
    ages, left = [age or 0.0 for worker in figures.server.workers for age in worker.ages.values()], figures.server.left
    patience = next(iter(left[len(left) // 2 :]), 0.0)
    takes = max(flow.response_time or 0.0, 2 * sum(ages) / max(1, len(ages)))  # half is over, on average
    if ages and len(left) >= max(LEFT[0], len(ages)) and takes > patience:
        late: Facts = {"takes": takes, "patience": patience, "calls": see_calls(figures.server)}
        yield ALL_LEFT.found(figures, late, left=len(left), serving=len(ages), ends=flow.completed > 0)
        return
    if not wait_too_long(figures):  # the log may cover a part of the window
        unread *= 2 * _count_proven(figures, "body_not_buffered") < unread
        unwritten *= 2 * _count_proven(figures, "write_timeout") < unwritten
        unwritten *= all(each.cause != "not_buffered" for each in figures.server.ways_in.errors)
    seen, gone = figures.server.clients
    if gone >= max(LEFT[0], LEFT[1] * seen):
        yield SEEN_TO_LEAVE.found(figures, number=gone, requests=seen, part=gone / seen)
    if not (number := max(unread, unwritten)):
        return
    facts = _count(number, flow.completed)
    facts |= {"unread": Private(f"{unread:,}" * (unread > 0)), "time": flow.response_time}
    are_many = number >= max(LEFT[0], LEFT[1] * flow.completed)
    if wait_too_long(figures):
        size, served = _shorten_queue(figures), flow.throughput or 1.0
        settings = (("listen", size),) * bool(size)
        yield MOST_LEFT.found(figures, facts, size=size or None, short=size / served, settings=settings)
    elif are_many and 2 * unread > number:
        yield UPLOADS_LEFT.found(figures, facts)
    else:
        streams = 2 * len(figures.server.sample.streams) > (flow.observed or 0.0)
        yield LEFT_EARLY.found(figures, facts, worse=are_many and not streams)


def find_working_on(figures: Figures) -> Iterator[Finding]:
    """Requests whose clients have closed their connection after some response. That of a client of a UNIX socket, or of
    one that waits for uWSGI to close it, is not seen."""
    serving, answered = sum(len(worker.ages) for worker in figures.server.workers), figures.server.answered
    if answered >= max(LEFT[0], MOSTLY * serving):
        facts: Facts = {"serving": max(serving, answered), "answered": answered, "time": figures.flow.response_time}
        are_scarce = (figures.flow.observed or 0.0) >= THREADS_BUSY * (figures.ceiling or inf)
        yield WORKS_ON.found(figures, facts, worse=are_scarce or shows_a_limit(figures.flow))


def find_given_up(figures: Figures) -> Iterator[Finding]:
    """Requests that take longer than uWSGI's router waits, which goes on while parts of a response come."""
    server, times, requests = figures.server, figures.response_times, figures.flow.completed
    options = server.setup.options
    stay = server.sample.streams or server.sample.websockets
    if not options.http or not options.complete or name_slots(server) == ASYNC or stay:
        return
    patience = options.http_timeout or DEFAULT_HTTP_TIMEOUT
    parts = [1 - each.share for each in getattr(times, "percentiles", ()) if each.low > patience]
    number = ceil(max(parts, default=0.0) * requests) + sum(age > patience for age, _ in list_ages(server))
    if number:
        worse = number >= LEFT[0] or not figures.window.is_counted
        yield GIVEN_UP.found(figures, _count(number, requests), patience=patience, worse=worse)


def find_timed_out(figures: Figures) -> Iterator[Finding]:
    """Requests that uWSGI ended after `socket-timeout`, by its log. It counts no read error for a body."""
    for code in ("body_timeout", "write_timeout"):
        if message := figures.server.messages.get(code):
            number, requests = message.count, figures.flow.completed
            worse, sends = number >= max(LEFT[0], LEFT[1] * requests), code == "body_timeout"
            agrees = message.agreed >= PROVEN * number
            yield TIMED_OUT.found(figures, _count(number, requests), worse=worse, agrees=agrees, sends=sends)


def wait_too_long(figures: Figures) -> bool:
    """Whether requests wait in the queue for longer than they are in service, and surely most clients have gone once
    theirs is served. If they ask again, the queue is full of requests that nobody waits for (measured: 60 clients with
    a timeout of 1.5 s got 0.9 answers a second from a server of 16, and 15 with a queue of 16)."""
    left, flow = count_left(figures), figures.flow
    if not shows_a_limit(flow) or (flow.queue_wait or 0.0) < (flow.response_time or inf):
        return False
    return left - SURELY * sqrt(left) >= MOSTLY * flow.completed


def _shorten_queue(figures: Figures) -> int:
    """The size of a queue in which no request waits for longer than its client does; 0 if it is no shorter."""
    served, own = figures.flow.throughput or 0.0, figures.flow.response_time or 0.0
    limit, name = max([(each.limit or 0, name) for name, each in figures.server.queues.items()], default=(0, ""))
    median = find_percentile((not is_tcp(name) and figures.queue_waits) or None, 0.5)
    patience = (median and median.seconds) or PATIENCE
    size = round(served * (TIMELY * patience - own))
    return size * (0 < size < limit)


def find_exceptions(figures: Figures) -> Iterator[Finding]:
    raised = count_raised(figures)
    if raised <= 0:
        return
    is_warning, are_most = judge_number(figures, raised)
    uncounted = any(worker.write_errors is None for worker in figures.window.workers)
    facts = _count(raised, figures.flow.completed) | {"uncounted": uncounted}
    said = figures.server.messages.get("traceback", LogMessage(0, 0))  # may be about a full disk, or a quota
    if are_most and (known := _explain_all(figures, facts, raised)):
        yield known
    elif is_warning and said.agreed > 0 and said.place.startswith(("OSError ENOSPC", "OSError EDQUOT")):
        yield NO_SPACE.found(figures, facts, worse=are_most)
    elif is_warning:
        yield (RAISE, MOST_RAISE)[are_most].found(figures, facts)
    else:
        yield RAISE_FEW.found(figures, facts)


def _explain_all(figures: Figures, facts: Facts, raised: int) -> Finding | None:
    """Why nearly all requests raise an exception, where the application is not at fault."""
    if 2 * figures.server.messages.get("asgi_application", LogMessage(0, 0)).agreed >= raised:
        return ASGI.found(figures, facts)
    place = figures.server.messages.get("traceback", LogMessage(0, 0)).place
    for line in figures.server.ways_in.lines * (not place or place.startswith("KeyError")):
        if line.directive == "uwsgi_param":
            where = Private(f"{line.path}:{line.line}", "in nginx's configuration")
            return FEW_PARAMETERS.found(figures, facts, place=where)
    return None


def count_raised(figures: Figures) -> int:
    """The application's exceptions, at most."""
    return figures.window.exceptions - count_left(figures)


def judge_number(figures: Figures, number: int) -> tuple[bool, bool]:
    """Whether so many exceptions of all requests are a warning, and whether they are most."""
    surely, requests = number - SURELY * sqrt(max(0, number)), figures.flow.completed
    return number >= EXCEPTIONS[0] and surely >= EXCEPTIONS[1] * requests, surely >= MOSTLY * requests


MANY_ERRORS = 0.2
"""From this part of the responses on, errors are critical."""


def find_server_errors(figures: Figures) -> Iterator[Finding]:
    """Responses of an application that catches its exceptions; uWSGI writes such a line for others, too."""
    messages = figures.server.messages
    message = messages.get("status_5xx")
    raised = max(0, count_raised(figures))
    uncalled = sum(each.agreed for code, each in messages.items() if BY_CODE[code].proof == "uncalled")
    said = max(0, figures.window.exceptions) + uncalled  # with those of clients that left
    if message is None or 2 * said >= message.count:
        return
    number = message.count - said
    is_warning, _ = judge_number(figures, number)
    are_many = number - SURELY * sqrt(max(0, number)) >= MANY_ERRORS * figures.flow.completed
    is_proven, path = message.agreed >= PROVEN * message.count, figures.server.setup.log_path
    traced = messages.get("traceback", LogMessage(0, 0))
    place = Private(traced.place * (is_warning and 2 * traced.count >= number))  # a server's own log may have others
    facts = _count(number, max(number, figures.flow.completed)) | {"raised": raised, "proven": is_proven}
    grep = f"grep -aE '{STATUS_5XX}' {quote(path)} | tail" * (is_warning and path.startswith("/"))
    yield FAIL.found(figures, facts, grep=grep, place=place, worse=is_warning + (is_warning and are_many and is_proven))


_STATUSES = {"bad": 400, "unauthorized": 401, "many": 429}


def find_client_errors(figures: Figures) -> Iterator[Finding]:
    """So many errors or redirects that no page is among them: a mistake in the set-up."""
    message, requests = figures.server.messages.get("status_4xx"), figures.flow.completed
    routed, least = figures.window.routed or 0, max(ENOUGH, NEARLY_ALL * requests)
    if (moved := figures.server.messages.get("status_3xx")) and moved.count >= max(FEW, NEARLY_ALL * requests):
        yield REDIRECT.found(figures, _count(moved.count, max(moved.count, requests)), status=moved.limit)
    if message and message.count >= max(FEW, MOSTLY * requests - SURELY * sqrt(message.count)):  # by chance
        facts = _count(message.count, max(message.count, requests)) | {"status": message.limit}
        facts |= {name: message.limit == status for name, status in _STATUSES.items()}
        facts |= {"paths": message.limit not in _STATUSES.values(), "all": message.count >= NEARLY_ALL * requests}
        yield NOT_FOUND.found(figures, facts, worse=message.count >= least, routed=routed >= least)
    elif routed >= least and "status_5xx" not in figures.server.messages:
        yield ROUTED.found(figures, routed=routed)


def find_static_files(figures: Figures) -> Iterator[Finding]:
    """Static files that uWSGI's workers serve, whose time is not counted: running time does not explain it."""
    requests, busy, timed = figures.flow.completed, figures.flow.observed, figures.flow.littles_law
    files, held = min(requests, sum(worker.static_requests for worker in figures.window.workers)), None
    if busy is not None and timed is not None and name_slots(figures.server) != ASYNC:
        held = max(0.0, busy - timed)
    share = ratio(held, figures.threads or 0.0) or 0.0
    if not files or files < MOSTLY_FILES * requests or (requests < ENOUGH and share < HOLD_MUCH):
        return
    yield STATIC_FILES.found(
        figures,
        worse=share >= HOLD_MOST and shows_a_limit(figures.flow),
        files=files / requests,
        held=held,
        threads=figures.threads,
        takes_much=share >= HOLD_MUCH,
        settings=(("offload-threads", 2),) * (share >= HOLD_MUCH),
    )
