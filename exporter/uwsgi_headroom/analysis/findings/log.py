"""Findings that only uWSGI's log can show, such as requests that uWSGI refuses before it counts them.

A message is evidence if it is proven (`uwsgi_log.log`). Without a proof, the finding says that only the log says so,
is a warning at most, and comes after what is measured: the application prints what its users type into the same log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.log_words import LOG
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import find_without_application
from uwsgi_headroom.history.totals import INSTANT
from uwsgi_headroom.record import LogMessage
from uwsgi_headroom.uwsgi_log.messages import BY_CODE, Role, advise, describe
from uwsgi_headroom.words.formats import counted
from uwsgi_headroom.words.template import Facts, Private

MANY_REFUSED = (3, 0.01)
"""At or above this number of refused requests, and this fraction of all, users feel it: as for lost requests
(`findings.workers`)."""

PROVEN = 0.4
"""The part of the lines that must be proven: a window's last cannot be yet, and a few are proven
by chance."""

UNPROVEN = "The only evidence is uWSGI's log, and the application can also write such lines into it."
"""Ends the evidence of a finding that nothing but the log supports."""

_MOST_OTHERS = 3

Messages = Sequence[tuple[str, LogMessage]]
"""Messages by code."""

REJECTED = Kind(
    code="requests_rejected",
    role="harm",
    severity="critical, warning or info",
    title="uWSGI's log says that {says}.",
    evidence="The log reports this for {number:request} in the last {seconds:duration}[counted?  ({part:fine_percent} "
    "of all requests)]. [agrees? uWSGI's counters agree.][not agrees? "
    + UNPROVEN
    + "][others?  The log also says: {others}.]",
    meaning="{harm}",
    act="{change}",
    page_after=60,
    runbook="UwsgiRequestsRejected",
)

LOG_FAILURE = Kind(
    code="log_failure",
    role="harm",
    severity="warning",
    title="uWSGI's log says that {says}.",
    evidence="The log has {number:line} about this from the last {seconds:duration}. [agrees? uWSGI's counters, or the "
    "state of its processes, agree.][not agrees? " + UNPROVEN + "][others?  The log also says: {others}.]",
    meaning="{harm}",
    act="{change}",
)
LOG_SETTING = replace(LOG_FAILURE, code="log_setting", role="setting", severity="info")

UNANSWERED = Kind(
    code="requests_unanswered",
    role="harm",
    severity="critical",
    title="uWSGI closes requests at once, without a response: no application gets them.",
    evidence="uWSGI sent no response to at least {unanswered} of {requests:request} in the last {seconds:duration}, "
    "counted no exception, and spent less than {instant:duration} on a request on average.",
    meaning="Clients get a closed connection, or status 502 from the web server. With each request, the web server "
    "sends a modifier, which selects a plugin of uWSGI. If it is not loaded, or a body is larger than `limit-post`, "
    "uWSGI closes the connection at once.",
    act="Compare the modifier that the web server sends with the `plugins` that uWSGI loads.",
    then="The modifier (`uwsgi_modifier1`) is 0 for Python, 5 for Perl, 14 for PHP, and 22 if clients speak TLS. "
    "[look? See uWSGI's log. ][fix? {fix} ]" + LOG,
    page_after=60,
    runbook="UwsgiNoApplication",
    log=(
        *("tls_on_uwsgi_socket", "modifier_unavailable", "empty_request"),
        *("body_too_large", "bad_packet", "too_many_variables"),
    ),
)

UNANSWERED_CALLS = replace(
    UNANSWERED,
    severity="warning",
    title="The application sends no response: uWSGI closes its connections without sending a byte.",
    evidence="uWSGI called the application for at least {unanswered} of {requests:request} in the last "
    "{seconds:duration}, sent no byte, and counted no exception.",
    meaning="Clients get a closed connection, or status 502 from the web server.",
    act="Find out why the application returns without calling `start_response`.",
    then=LOG,
    log=("traceback", "bad_response"),
    runbook="",
)

PROTOCOL_DIFFERS = Kind(
    code="connections_without_request",
    role="harm",
    severity="warning",
    title="uWSGI closes each connection without a request: clients may speak another protocol than its socket.",
    evidence="Since uWSGI last counted a request, it has closed {closed:TCP connection} by itself.",
    meaning="A `socket` speaks only the uwsgi protocol, an `http-socket` only HTTP. Other clients get no response.",
    act="Compare the protocols: `uwsgi_pass` of nginx needs `socket`, `proxy_pass` needs `http-socket`.",
    then=LOG,
    log=("http_on_uwsgi_socket", "tls_on_uwsgi_socket", "bad_http", "head_too_large"),
)
ROUTER_CLOSES = replace(
    PROTOCOL_DIFFERS,
    title="uWSGI's http router closes connections, and the workers get no request from them.",
    meaning="Clients get no response. With `http-subscription-server`, the router knows only the host names that "
    "`subscribe-to` names. It also closes what is not HTTP, such as TLS.",
    act="Compare the clients' host name with the key in `subscribe-to`. Check `http-to` too.",
    then="If other requests come, lower `subscribe-freq` below the router's `subscription-tolerance` (17 s).",
)
ROUTER_CLOSED = 50
"""In a minute. Browsers open connections in advance, which a router closes in the end, as it does idle ones."""


def find(figures: Figures) -> Iterator[Finding]:
    if rejected := _choose(figures, "rejected"):
        (code, message), (least, least_part) = rejected[0], MANY_REFUSED
        number, is_proven = message.count, message.agreed >= message.count * PROVEN
        part = number / max(number, figures.flow.completed + number * (BY_CODE[code].proof != "uncalled"))
        is_rare = code == "no_python_application" and part < MOSTLY  # as of scanners that look for other paths
        worse = (number >= least and part >= least_part) + (is_proven and not is_rare)
        yield REJECTED.found(figures, _describe(rejected, is_proven=is_proven), part=part, worse=worse)
    if failed := _choose(figures, "failed"):
        yield LOG_FAILURE.found(figures, _describe(failed, is_proven=failed[0][1].agreed > 0))
    if settings := _choose(figures, "setting"):
        yield LOG_SETTING.found(figures, _describe(settings, is_proven=settings[0][1].agreed > 0))


def _choose(figures: Figures, role: Role) -> Messages:
    messages = figures.server.messages
    lost = any(worker.lost for worker in figures.window.workers)
    is_free = (figures.flow.observed or 0.0) < MOSTLY * (figures.available or 0)
    unloaded = (find_without_application(figures.server) or ([], []))[1]
    chosen = [
        (code, message)
        for code, message in messages.items()
        if BY_CODE[code].role == role
        and not (lost and code == "mercy_kill")  # `requests_lost` says it
        and not (unloaded and code == "no_python_application")  # `no_application` says it
        and not (code == "async_queue_full" and is_free)  # a burst
        and not (code == "disk_full" and figures.server.setup.full_disks)  # that finding says it
    ]
    return sorted(chosen, key=lambda each: (-bool(each[1].agreed), -each[1].count))


def _describe(messages: Messages, *, is_proven: bool) -> Facts:
    code, message = messages[0]
    others = [f"{_say(*each)} ({counted(each[1].count, 'line')})" for each in messages[1 : 1 + _MOST_OTHERS]]
    return {
        "says": _say(code, message),
        "agrees": is_proven,
        "number": message.count,
        "others": Private("; ".join(others)),
        "harm": BY_CODE[code].harm,
        "change": Private(advise(code, message.limit), advise(code)),
    }


def _say(code: str, message: LogMessage) -> str:
    return describe(code, message.workers[0] if len(message.workers) == 1 else None, None, message.limit)


def find_unanswered(figures: Figures) -> Iterator[Finding]:
    """The finding about requests that end at once without an answer, unless the log proves why."""
    unanswered, requests = figures.window.unanswered or 0, figures.flow.completed
    calls, closed = figures.window.unanswered_calls or 0, figures.server.unrequested
    least = max(MANY_REFUSED[0], MANY_REFUSED[1] * requests)
    if calls >= least:
        yield UNANSWERED_CALLS.found(figures, unanswered=calls)
    if closed >= least and not requests and not _choose(figures, "rejected"):
        options = figures.server.setup.options
        if not options.http:
            yield PROTOCOL_DIFFERS.found(figures, closed=closed)
        elif closed >= ROUTER_CLOSED and options.complete and options.http_keepalive is None:
            yield ROUTER_CLOSES.found(figures, closed=closed)
    said = figures.server.messages.items()
    if unanswered >= least and not any(each.agreed for code, each in said if BY_CODE[code].proof == "uncalled"):
        yield UNANSWERED.found(figures, unanswered=unanswered, instant=INSTANT)
