"""Findings that rest on uWSGI's log, and what other findings quote of it."""

import pytest

from tests.analysis.judging import describe, idle, judge
from uwsgi_headroom.analysis.verdict import worst_status
from uwsgi_headroom.record import LogMessage, LogRecord
from uwsgi_headroom.uwsgi_log.messages import MESSAGES


@pytest.mark.parametrize("message", [each for each in MESSAGES if each.role != "event"], ids=lambda each: each.code)
def test_a_line_alone_is_never_critical(message):
    """No number of lines with which nothing agrees is more than a warning."""
    lines = LogMessage(10_000, 0, (1,), (11,), 7, "KeyError at shop/views.py:12")
    found = judge(idle(), describe(log=LogRecord(messages={message.code: lines}))).values()
    assert worst_status(list(found)) != "critical"
    said = "".join(each.title + each.evidence + each.meaning + each.change for each in found)
    assert "{" not in said
    assert "shop/views.py" not in said
