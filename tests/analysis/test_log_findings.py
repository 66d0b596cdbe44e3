"""Findings that rest on uWSGI's log, and what other findings quote of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.analysis.test_findings import AT, idle, with_worker
from tests.support.simulated_server import Server
from tests.support.windows import window
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.findings.log import LOG_SETTING, UNPROVEN
from uwsgi_headroom.analysis.verdict import worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import LogMessage, LogRecord
from uwsgi_headroom.uwsgi_log.messages import MESSAGES


def judged(window_: Window, log: LogRecord | None) -> dict[str, Finding]:
    """The findings about a window with this log, by code."""
    server = describe_server(Server().read(AT))
    assert server
    figures = compute_figures(window_, msgspec.structs.replace(server, log=log))
    return {finding.code: finding for finding in collect_findings(figures)}


def says(**messages: LogMessage) -> LogRecord:
    return LogRecord(messages=messages)


def test_a_log_that_says_nothing_changes_nothing() -> None:
    """A log without messages has no finding."""
    assert judged(idle(), says()) == {}
    assert judged(idle(), LogRecord(off="it is not configured", turn_on="--log shop=/x")) == {}


@pytest.mark.parametrize(
    ("lines", "agreed", "severity"),
    [
        (600, 600, "critical"),
        (21, 21, "critical"),  # of 2021 requests
        (2, 2, "warning"),
        (600, 0, "warning"),
        (600, 100, "warning"),  # a few agree by chance
        (2, 0, "info"),
    ],
)
def test_requests_that_are_refused(lines: int, agreed: int, severity: str) -> None:
    """They are critical if they are many and something agrees; a warning at most if only the log says so."""
    by_code = judged(idle(), says(head_too_large=LogMessage(lines, agreed, limit=4096)))
    finding = by_code["requests_rejected"]
    assert finding.severity == severity
    assert finding.change.startswith("Raise `buffer-size` (4096)")
    assert "4096" not in finding.public.act
    assert (UNPROVEN in finding.evidence) == (agreed != lines)


@pytest.mark.parametrize(("code", "part"), [("head_too_large", "23 %"), ("body_too_large", "30 %")])
def test_the_part_of_all_requests(code: str, part: str) -> None:
    """Some of the refused requests are among the 2,000 that uWSGI counted, others are not."""
    finding = judged(idle(), says(**{code: LogMessage(600, 600)}))["requests_rejected"]
    assert f"({part} of all requests)" in finding.evidence
    assert ("does not count them" in finding.meaning) == (code == "head_too_large")


@pytest.mark.parametrize("message", [each for each in MESSAGES if each.role != "event"], ids=lambda each: each.code)
def test_a_line_alone_is_never_critical(message: object) -> None:
    """No number of lines with which nothing agrees is more than a warning."""
    code = message.code  # type: ignore[attr-defined]
    log = says(**{code: LogMessage(10_000, 0, (1,), (11,), 7, "KeyError at shop/views.py:12")})
    by_code = judged(idle(), log)
    assert worst_status(list(by_code.values())) != "critical"
    for finding in by_code.values():
        assert "{" not in finding.title + finding.evidence + finding.meaning + finding.change
        assert "shop/views.py" not in finding.title + finding.evidence + finding.meaning + finding.change


def test_the_most_frequent_message_heads_and_others_follow() -> None:
    """Messages of one kind are one finding; proven ones come first."""
    log = says(
        cache_full=LogMessage(5, 5),
        disk_full=LogMessage(500, 0),
        mule_queue_full=LogMessage(7, 0),
    )
    finding = judged(idle(), log)["log_failure"]
    assert "a cache of uWSGI is full" in finding.title
    assert "The log also says: a disk is full (500 lines); the queue of messages for mules is full (7 lines)." in (
        finding.evidence
    )


def test_settings_are_an_information() -> None:
    """An option that has no effect harms nobody at this moment."""
    finding = judged(idle(), says(threads_off=LogMessage(1, 0)))["log_setting"]
    assert finding.kind is LOG_SETTING


def lost() -> Window:
    return with_worker(1, lost=5, respawns=5)


def test_the_signal_of_a_crash_is_in_the_title() -> None:
    """If their processes agree; the change says what such a signal mostly is."""
    message = LogMessage(5, 5, (1,), (11,))
    finding = judged(lost(), says(killed_by_signal=message))["requests_lost"]
    assert "by signal 11 (SIGSEGV)" in finding.title
    assert "worker 1 was killed by signal 11 (SIGSEGV), 5 times. Native code crashed" in finding.change
    caught = judged(lost(), says(segmentation_fault=LogMessage(5, 5), worker_died=LogMessage(5, 5, (1,))))
    assert caught["requests_lost"].title == finding.title
    unproven = judged(lost(), says(killed_by_signal=msgspec.structs.replace(message, agreed=0)))["requests_lost"]
    assert "signal" not in unproven.title
    assert "(SIGSEGV), 5 times. Nothing else confirms this." in unproven.change
    several = judged(lost(), says(killed_by_signal=LogMessage(5, 5, (1, 2), (9, 11))))["requests_lost"]
    assert "signal" not in several.title


def test_a_message_with_advice_says_what_to_do_first() -> None:
    """What is known needs no look into the log."""
    killed = judged(lost(), says(mercy_kill=LogMessage(2, 2, (1,))))["requests_lost"]
    assert killed.change.startswith("Raise `worker-reload-mercy`")
    assert "worker 1 did not end within `worker-reload-mercy` and was killed, 2 times" in killed.change
    assert "crashed" not in killed.meaning
    assert "log_failure" not in judged(lost(), says(mercy_kill=LogMessage(2, 2, (1,))))
    assert "log_failure" in judged(idle(), says(mercy_kill=LogMessage(2, 2, (1,))))


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (LogRecord(off="nobody may read it"), "cannot read uWSGI's log: nobody may read it."),
        (
            LogRecord(off="it is not configured", turn_on="--log shop=/var/log/shop.log"),
            "`--log shop=/var/log/shop.log`",
        ),
        (LogRecord(), "recognized no message"),
    ],
)
def test_advice_that_would_name_the_log(log: LogRecord, said: str) -> None:
    """It says what is there, or how to read one whose file is known."""
    assert said in judged(lost(), log)["requests_lost"].change
    assert said not in judged(lost(), None)["requests_lost"].change


def test_the_exception_of_requests_is_named() -> None:
    """The type and the place of the most frequent exception, if uWSGI's counter agrees."""
    raising = replace(idle(), exceptions=500)
    log = says(traceback=LogMessage(500, 500, place="KeyError at shop/views.py:12"))
    finding = judged(raising, log)["exceptions"]
    assert "the application raised an exception (KeyError at shop/views.py:12), 500 times" in finding.change
    assert "views.py" not in finding.public.act


def test_an_empty_window_divides_by_nothing() -> None:
    """Refused requests are judged where no other was served."""
    assert judged(window(10.0), says(head_too_large=LogMessage(5, 5)))["requests_rejected"].severity == "critical"


def test_what_only_the_log_says_beats_nothing_that_is_measured() -> None:
    """A proven message comes first; one without a proof comes after all measured findings of its severity."""
    measured = replace(idle(), exceptions=60)
    for log, first in (
        (says(head_too_large=LogMessage(600, 0)), "exceptions"),
        (says(disk_full=LogMessage(600, 0)), "exceptions"),
        (says(body_too_large=LogMessage(10, 10)), "requests_rejected"),
    ):
        by_code = judged(measured, log)
        assert len({finding.severity for finding in by_code.values()}) == 1
        assert len(by_code) == 2
        assert next(iter(by_code)) == first
