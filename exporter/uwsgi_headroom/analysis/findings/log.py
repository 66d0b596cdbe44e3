"""Findings that only uWSGI's log can show: requests that it refuses before it counts them, and what it could not do;
and requests that nobody answers, of which the log may show the cause.

A message is evidence if it is proven (`uwsgi_log.proof`). Without a proof, the finding says that only the log says so,
is a warning at most, and comes after what is measured: the application prints what its users type into the same log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding, Severity
from uwsgi_headroom.analysis.log_words import see_log
from uwsgi_headroom.history.totals import INSTANT
from uwsgi_headroom.record import LogMessage
from uwsgi_headroom.uwsgi_log.messages import BY_CODE, Role, advise, describe
from uwsgi_headroom.words.formats import counted, duration, percent

MANY_REFUSED = (3, 0.01)
"""At or above this number of refused requests, and this fraction of all, users feel it: as for lost requests
(`findings.workers`)."""

PROVEN = 0.4
"""The part of the lines that must be proven: those of the last seconds of a window cannot be yet, and a few are proven
by chance."""

_UNCALLED = "uWSGI's counters agree: uWSGI counted requests for which it called no application."
UNPROVEN = "The only evidence is uWSGI's log, and the application can also write such lines into it."
"""Ends the evidence of a finding that nothing but the log supports."""

_MOST_OTHERS = 3

Messages = Sequence[tuple[str, LogMessage]]
"""Messages by code."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about messages of uWSGI's log that no other finding judges."""
    if rejected := _choose(figures, "rejected"):
        yield _rejected(figures, rejected)
    if failed := _choose(figures, "failed"):
        yield _failed(figures, failed)
    if settings := _choose(figures, "setting"):
        yield _setting(figures, settings)


def _choose(figures: Figures, role: Role) -> Messages:
    """The messages of a role, proven ones first, then the most frequent first."""
    messages = figures.server.log.messages if figures.server.log else {}
    lost = any(worker.lost for worker in figures.window.workers)
    chosen = [
        (code, message)
        for code, message in messages.items()
        if BY_CODE[code].role == role and not (lost and code == "mercy_kill")  # `requests_lost` says it
    ]
    return sorted(chosen, key=lambda each: (-bool(each[1].agreed), -each[1].count))


def _rejected(figures: Figures, rejected: Messages) -> Finding:
    code, message = rejected[0]
    number, is_proven = message.count, message.agreed >= message.count * PROVEN
    part = number / max(number, figures.flow.requests + (0 if BY_CODE[code].proof == "uncalled" else number))
    some = percent(part) if part >= 0.005 else "less than 1 %"
    return Finding(
        code="requests_rejected",
        severity=_severity(number, part, is_proven=is_proven),
        title=_title(code, message, is_proven=is_proven),
        evidence=f"uWSGI's log reports this for {counted(number, 'request')} in the last "
        f"{duration(figures.window.seconds)} ({some} of all requests). {_UNCALLED if is_proven else UNPROVEN}"
        + _others(rejected),
        meaning=BY_CODE[code].harm,
        change=advise(code, message.limit),
    )


def _severity(number: int, part: float, *, is_proven: bool) -> Severity:
    """How severe it is that so many requests, and this part of all, are refused."""
    least, least_part = MANY_REFUSED
    is_many = number >= least and part >= least_part
    return "critical" if is_many and is_proven else "warning" if is_many or is_proven else "info"


def _failed(figures: Figures, messages: Messages) -> Finding:
    code, message = messages[0]
    title = _title(code, message, is_proven=message.agreed > 0)
    return Finding(code="log_failure", severity="warning", title=title, **_explain(figures, messages))


def _setting(figures: Figures, messages: Messages) -> Finding:
    code, message = messages[0]
    title = _title(code, message, is_proven=message.agreed > 0)
    return Finding(code="log_setting", severity="info", title=title, **_explain(figures, messages))


def _explain(figures: Figures, messages: Messages) -> dict[str, Any]:
    code, message = messages[0]
    lines, seconds = counted(message.count, "line"), duration(figures.window.seconds)
    agrees = "uWSGI's counters, or the state of its processes, show the same problem." if message.agreed else UNPROVEN
    return {
        "evidence": f"uWSGI's log has {lines} about this problem from the last {seconds}. {agrees}{_others(messages)}",
        "meaning": BY_CODE[code].harm,
        "change": advise(code, message.limit),
    }


def _title(code: str, message: LogMessage, *, is_proven: bool) -> str:
    clause = _describe(code, message)
    if not is_proven:
        return f"uWSGI's log says that {clause}."
    return f"{clause if clause.startswith('uWSGI') else clause[:1].upper() + clause[1:]}, as uWSGI's log shows."


def _others(messages: Messages) -> str:
    """What else the log says of the same kind."""
    others = [
        f"{_describe(code, message)} ({counted(message.count, 'line')})"
        for code, message in messages[1 : 1 + _MOST_OTHERS]
    ]
    return f" The log also says: {'; '.join(others)}." if others else ""


def _describe(code: str, message: LogMessage) -> str:
    return describe(code, message.workers[0] if len(message.workers) == 1 else None, None, message.limit)


NO_ANSWER = ("modifier_unavailable", "empty_request", "body_too_large", "bad_packet", "too_many_variables")
"""Messages of uWSGI's log that say why such requests have no answer."""


def find_unanswered(figures: Figures) -> Iterator[Finding]:
    """The finding about requests that end at once without an answer. Counters prove that nobody answers
    (`history.unanswered`), and not why. If the log proves the cause, the finding about the log has it."""
    unanswered, requests = figures.window.unanswered or 0, figures.flow.requests
    least, part = MANY_REFUSED
    if unanswered < least or unanswered < part * requests or _log_proves_the_cause(figures):
        return
    yield Finding(
        code="requests_unanswered",
        severity="critical",
        title="uWSGI closes requests at once, without a response: no application gets them.",
        evidence=f"uWSGI sent no response to at least {unanswered} of {counted(requests, 'request')} in the last "
        f"{duration(figures.window.seconds)}, counted no exception, and spent less than {duration(INSTANT)} on a "
        "request on average.",
        meaning="Clients get a closed connection, or status 502 from the web server. With each request, the web server "
        "sends a number, the modifier, which selects a plugin of uWSGI. If the plugin for this modifier is not loaded, "
        "uWSGI closes the connection at once. It does the same if a body is larger than `limit-post`.",
        change="Compare the modifier that the web server sends (`uwsgi_modifier1`: 0 for Python, 5 for Perl, 14 for "
        f"PHP) with the `plugins` that uWSGI loads. {see_log(figures.server, 'the unavailable modifier', NO_ANSWER)}",
    )


def _log_proves_the_cause(figures: Figures) -> bool:
    messages = figures.server.log.messages if figures.server.log else {}
    return any(message.agreed for code, message in messages.items() if BY_CODE[code].proof == "uncalled")
