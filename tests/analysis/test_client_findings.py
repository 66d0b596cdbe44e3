"""Clients that leave are distinguished from exceptions of the application, of which uWSGI counts one for each."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.analysis.test_findings import findings_by_code, idle, with_setup
from tests.support.windows import window, worker
from tools.support.simulated_server import Server
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.history.window import Window


def left(write_errors: int | None, read_errors: int | None = 0, exceptions: int = 0) -> Window:
    """A minute of 2,000 requests, with these errors in the first worker and none in the others."""
    quiet = idle()
    none = None if write_errors is None else 0
    workers = [
        msgspec.structs.replace(worker, write_errors=none, read_errors=none if read_errors is not None else None)
        for worker in quiet.workers
    ]
    workers[0] = msgspec.structs.replace(workers[0], write_errors=write_errors, read_errors=read_errors)
    return replace(quiet, workers=tuple(workers), exceptions=exceptions)


def test_clients_that_leave_are_no_exceptions() -> None:
    """As many exceptions as write errors are those of the write errors: the application raised none."""
    by_code = findings_by_code(left(400, exceptions=400))
    assert list(by_code) == ["clients_left"]
    finding = by_code["clients_left"]
    assert finding.severity == "warning"
    assert finding.title == ("Clients disconnect before they get their response: a timeout is too short.")
    assert finding.evidence.startswith("In at least 400 of 2,000 requests (20 %), ")
    assert "10 ms" in finding.evidence
    assert "traceback" not in finding.change
    assert "proxy_read_timeout" in finding.change


def test_exceptions_beside_clients_that_leave() -> None:
    """Exceptions beyond the write errors are the application's own, and both are said."""
    by_code = findings_by_code(left(400, exceptions=450))
    assert by_code["exceptions"].severity == "warning"
    assert by_code["exceptions"].evidence == "50 of 2,000 requests (2.5 %) raised an exception."
    assert by_code["clients_left"].evidence.startswith("In at least 400 of")


def test_clients_behind_the_router_of_uwsgi() -> None:
    """Its timeout is compared as well, with its value."""
    server = Server()
    for options, value in (({"http_timeout": 5}, "5 s"), ({}, "60 s")):
        change = findings_by_code(left(400), server, host=with_setup(server, http=("?",), **options))["clients_left"]
        assert f"(`http-timeout`, {value})" in change.change


@pytest.mark.parametrize(("number", "severity"), [(1, "info"), (99, "info"), (100, "warning")])
def test_a_few_people_always_leave(number: int, severity: str) -> None:
    """Below one in twenty it is good to know, with nothing to change."""
    finding = findings_by_code(left(number))["clients_left"]
    assert finding.severity == severity
    assert bool(finding.change) == (severity == "warning")


def late(left: int, queue: float = 100.0) -> dict[str, Finding]:
    """A minute of four busy threads that serve 16 requests a second of 250 ms; so many of 960 clients had left, and a
    mean number of requests waits."""
    rows = [
        msgspec.structs.replace(worker(number, 240, each=0.25, busy=60.0), write_errors=left // 4, read_errors=0)
        for number in range(1, 5)
    ]
    busy = replace(window(60, *rows, **{"app.sock": 60 * queue}), exceptions=left)
    return findings_by_code(busy, Server(processes=4, threads=1))


def test_clients_that_leave_while_their_requests_wait() -> None:
    """If most have gone when they are served, a shorter queue serves those who still wait; where few requests wait, or
    half of the clients get their answer, it would serve nobody more."""
    finding = late(960)["clients_left"]
    assert finding.severity == "critical"
    assert finding.title == ("Most responses come too late: clients have left, and uWSGI still serves their requests.")
    assert finding.settings == (("listen", 22),), "16/s in 0.8 of two seconds, without the time in service"
    assert "Do not raise `listen`" in late(960)["queue_filling"].change
    for other in (late(480), late(960, queue=1.0)):
        assert other["clients_left"].severity == "warning"
        assert not other["clients_left"].settings
    assert "most requests raise" not in str(late(960)).lower()


def test_uploads_that_break_off() -> None:
    """Bodies that cannot be read are named as such; a request that has both errors counts once."""
    finding = findings_by_code(left(200, 200, exceptions=200))["clients_left"]
    assert finding.title == "Clients disconnect, or stop sending, before uWSGI has read their request."
    assert finding.evidence.startswith("In at least 200 of")
    assert "request_buffering" in finding.change


@pytest.mark.parametrize("window", [left(None, None, 100), left(0, 0, 100)])
def test_nobody_left(window: Window) -> None:
    """With none, or unknown (stats-no-cores, older records), all exceptions are the application's."""
    by_code = findings_by_code(window)
    assert list(by_code) == ["exceptions"]
    assert by_code["exceptions"].evidence.startswith("100 of 2,000 requests")


def test_more_write_errors_than_exceptions() -> None:
    """`write-errors-tolerance` lets them happen without an exception; that is no negative number of exceptions."""
    assert "exceptions" not in findings_by_code(left(400, exceptions=3))
