"""Findings that rest on uWSGI's log, and what other findings quote of it."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import change_workers, describe, idle, judge
from tests.support.windows import window
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.findings.log import UNPROVEN
from uwsgi_headroom.analysis.verdict import worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import LogMessage, LogRecord
from uwsgi_headroom.uwsgi_log.messages import MESSAGES


def judged(window_: Window, log: LogRecord | None) -> dict[str, Finding]:
    """The findings about a window with this log, by code."""
    return judge(window_, describe(log=log))


def says(**messages: LogMessage) -> LogRecord:
    return LogRecord(messages=messages)


@pytest.mark.parametrize(
    ("of", "lines", "agreed", "expected"),
    [
        (idle(), 600, 600, "critical"),
        (idle(), 21, 21, "critical"),  # of 2021 requests
        (idle(), 2, 2, "warning"),
        (idle(), 600, 0, "warning"),
        (idle(), 600, 100, "warning"),  # a few agree by chance
        (idle(), 2, 0, "info"),
        (window(10.0), 5, 5, "critical"),  # where no other was served
    ],
)
def test_requests_that_are_refused(of, lines, agreed, expected):
    """They are critical if they are many and something agrees; a warning at most if only the log says so."""
    finding = judged(of, says(head_too_large=LogMessage(lines, agreed, limit=4096)))["requests_rejected"]
    assert finding.severity == expected
    assert finding.change.startswith("Raise `buffer-size` (4096)")
    assert "4096" not in finding.public.act
    assert (UNPROVEN in finding.evidence) == (agreed != lines)


@pytest.mark.parametrize("message", [each for each in MESSAGES if each.role != "event"], ids=lambda each: each.code)
def test_a_line_alone_is_never_critical(message):
    """No number of lines with which nothing agrees is more than a warning."""
    log = says(**{message.code: LogMessage(10_000, 0, (1,), (11,), 7, "KeyError at shop/views.py:12")})
    found = judged(idle(), log).values()
    assert worst_status(list(found)) != "critical"
    said = "".join(each.title + each.evidence + each.meaning + each.change for each in found)
    assert "{" not in said
    assert "shop/views.py" not in said


def test_the_most_frequent_message_heads_and_others_follow():
    """Messages of one kind are one finding; proven ones come first."""
    log = says(cache_full=LogMessage(5, 5), disk_full=LogMessage(500, 0), mule_queue_full=LogMessage(7, 0))
    finding = judged(idle(), log)["log_failure"]
    places = [(finding.title + finding.evidence).index(text) for text in ("a cache", "a disk", "the queue of messages")]
    assert places == sorted(places)


LOST = change_workers(idle(), 1, lost=5, respawns=5)
KILLED = LogMessage(5, 5, (1,), (11,))


@pytest.mark.parametrize(
    ("log", "is_proven"),
    [
        (says(killed_by_signal=KILLED), True),
        (says(segmentation_fault=LogMessage(5, 5), worker_died=LogMessage(5, 5, (1,))), True),
        (says(killed_by_signal=LogMessage(5, 0, (1,), (11,))), False),
        (says(killed_by_signal=LogMessage(5, 5, (1, 2), (9, 11))), False),  # several signals
    ],
)
def test_the_signal_of_a_crash_is_in_the_title(log, is_proven):
    """If their processes agree; the change says what such a signal mostly is, and what only the log says."""
    finding = judged(LOST, log)["requests_lost"]
    assert ("by signal 11 (SIGSEGV)" in finding.title) == ("signal" in finding.title) == is_proven
    said = log.messages.get("killed_by_signal", KILLED)
    assert ("Nothing else confirms this." in finding.change) == (said.agreed == 0)


def test_a_message_with_advice_says_what_to_do_first():
    """What is known needs no look into the log."""
    log = says(mercy_kill=LogMessage(2, 2, (1,)))
    killed = judged(LOST, log)
    assert killed["requests_lost"].change.startswith("Raise `worker-reload-mercy`")
    assert "crashed" not in killed["requests_lost"].meaning
    assert ["log_failure" in found for found in (killed, judged(idle(), log))] == [False, True]


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (LogRecord(off="nobody may read it"), "cannot read uWSGI's log: nobody may read it."),
        (LogRecord(off="it is not configured", turn_on="--log shop=/var/log"), "`--log shop=/var/log`"),
        (LogRecord(), "recognized no message"),
    ],
)
def test_advice_that_would_name_the_log(log, said):
    """It says what is there, or how to read one whose file is known."""
    assert [said in judged(LOST, each)["requests_lost"].change for each in (log, None)] == [True, False]


def test_the_exception_of_requests_is_named():
    """The type and the place of the most frequent exception, if uWSGI's counter agrees."""
    log = says(traceback=LogMessage(500, 500, place="KeyError at shop/views.py:12"))
    finding = judged(replace(idle(), exceptions=500), log)["exceptions"]
    assert "(KeyError at shop/views.py:12), 500 times" in finding.change
    assert "views.py" not in finding.public.act
