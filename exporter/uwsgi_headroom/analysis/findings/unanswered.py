"""The finding about requests that end at once without an answer, because uWSGI has no plugin for them.

Its counters prove that nobody answers (`history.unanswered`), and not why. If uWSGI's log proves the cause, the finding
about the log has it (`log`), and this one is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.log import MANY_REFUSED
from uwsgi_headroom.analysis.log_words import see_log
from uwsgi_headroom.history.totals import INSTANT
from uwsgi_headroom.uwsgi_log.messages import BY_CODE
from uwsgi_headroom.words.formats import counted, duration

CAUSES = ("modifier_unavailable", "empty_request")
"""Messages of uWSGI's log that say why such requests have no answer."""


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about requests without an answer."""
    unanswered, requests = figures.window.unanswered or 0, figures.flow.requests
    least, part = MANY_REFUSED
    if unanswered < least or unanswered < part * requests or _log_proves_the_cause(figures):
        return
    yield Finding(
        code="requests_unanswered",
        severity="critical",
        title="uWSGI closes requests at once, without an answer: no application gets them.",
        evidence=f"uWSGI sent no answer to at least {unanswered} of {counted(requests, 'request')} in the last "
        f"{duration(figures.window.seconds)}, counted no exception, and spent less than {duration(INSTANT)} on a "
        "request on average.",
        meaning="Clients get a closed connection, or status 502 from the web server. With each request, the web server "
        "sends a number, the modifier, which selects a plugin of uWSGI. If this plugin is not loaded, uWSGI closes the "
        "request at once.",
        change="Compare the modifier that the web server sends (`uwsgi_modifier1`: 0 for Python, 5 for Perl, 14 for "
        "PHP) with "
        f"the `plugins` that uWSGI loads. {see_log(figures.server, 'the modifier that is unavailable', CAUSES)}",
    )


def _log_proves_the_cause(figures: Figures) -> bool:
    messages = figures.server.log.messages if figures.server.log else {}
    return any(message.agreed for code, message in messages.items() if BY_CODE[code].agrees == "instant")
