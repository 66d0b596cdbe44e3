"""Requests that end at once without an answer are counted; requests that have a reason to bring none are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.analysis.test_findings import findings_by_code, idle
from tests.analysis.test_log_findings import judged
from tests.history.test_window import Watched
from tests.support.simulated_server import Server, Slot
from uwsgi_headroom.history.totals import INSTANT
from uwsgi_headroom.record import LogMessage, LogRecord

INSTANTLY = INSTANT / 10


def count(serve: Callable[[Server], None], *, cores: bool = True, samples: int = 11) -> int | None:
    """The number after as many samples as seconds, with `serve` between each two."""
    server = Server(processes=2, threads=2, cores=cores)
    watched = Watched(server)
    for second in range(samples):
        watched.sample(float(second))
        serve(server)
    window = watched.history.window(60)
    assert window
    return window.unanswered


def fail(server: Server, requests: int = 10, each: float = INSTANTLY) -> None:
    server.serve(1, requests, each)
    server[1].silent_requests += requests


def test_requests_that_bring_nothing_count() -> None:
    """All but those of the last two samples: their answers may still come."""
    assert count(fail) == 90


def test_requests_that_are_answered_do_not() -> None:
    """Neither the fastest, nor failing ones beside others that are answered."""
    assert count(lambda server: server.serve(1, 10, 0.000_01)) == 0

    def beside(server: Server) -> None:
        fail(server)
        server.serve(2, 1, 0.1)

    assert count(beside) == 0


def test_bytes_that_are_counted_a_sample_later() -> None:
    """uWSGI counts the bytes of a request after the request, and may be interrupted in between."""

    def late(server: Server) -> None:
        slot = server[1]
        if slot.silent_requests:
            slot.silent_requests = 0
        else:
            fail(server, 1)

    assert count(late) == 0


@pytest.mark.parametrize("name", ["exceptions", "write_errors", "read_errors", "static_requests", "routed_requests"])
def test_requests_with_a_reason_do_not(name: str) -> None:
    """An exception, a client that left, a static file, a rule that closes connections."""

    def serve(server: Server) -> None:
        fail(server)
        slot: Slot = server[1]
        setattr(slot, name, getattr(slot, name) + 10)

    assert count(serve) == 0


def test_requests_that_reach_an_application_do_not() -> None:
    """It may send nothing on purpose. A respawn that sets its calls to 0 makes no requests."""

    def serve(server: Server) -> None:
        fail(server)
        server[1].calls = 0 if server[1].requests == 50 else (server[1].calls or 0) + 10

    assert count(serve) == 10
    assert count(lambda server: (fail(server), setattr(server[1], "calls", 7))) == 90 - 7


def test_requests_that_take_time_do_not() -> None:
    """An application that writes to the connection itself sends nothing that uWSGI counts."""
    assert count(lambda server: fail(server, each=2 * INSTANT)) == 0


def test_a_reload_begins_anew() -> None:
    """Counters that fall are no requests. What came in the step of the reload, and just before it, is left out."""

    def serve(server: Server) -> None:
        if server[1].requests == 50:
            server.reload(6.5)
        fail(server)

    assert count(serve) == 70


def test_it_is_unknown_without_threads() -> None:
    """With stats-no-cores, nothing is said about errors and routes."""
    assert count(fail, cores=False) is None


@pytest.mark.parametrize(("unanswered", "is_found"), [(2, False), (19, False), (20, True), (2000, True)])
def test_many_are_critical(unanswered: int, is_found: bool) -> None:
    """From three, and one in a hundred on."""
    finding = findings_by_code(replace(idle(), unanswered=unanswered)).get("requests_unanswered")
    assert bool(finding) == is_found
    if finding:
        assert finding.severity == "critical"
        assert "modifier" in finding.change


def test_a_log_that_proves_the_cause_says_it_instead() -> None:
    """One finding for one problem: that of the log names the modifier. A line with which nothing agrees does not."""
    for agreed, code in ((2000, "requests_rejected"), (0, "requests_unanswered")):
        log = LogRecord(messages={"modifier_unavailable": LogMessage(2000, agreed, limit=5)})
        by_code = judged(replace(idle(), unanswered=2000), log)
        assert next(iter(by_code)) == code
        assert ("requests_unanswered" in by_code) == (agreed == 0)
