"""Clients that leave are distinguished from exceptions of the application, of which uWSGI counts one for each."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.analysis.test_findings import AT, findings_by_code, idle
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.findings.clients import (
    LEFT_EARLY,
    MOST_LEFT,
    RAISE,
    STATUS_5XX,
    UPLOADS_LEFT,
)
from uwsgi_headroom.analysis.findings.log import UNPROVEN
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import LogMessage, LogRecord


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
    assert (finding.kind, finding.severity) == (LEFT_EARLY, "warning")
    assert finding.evidence.startswith("In at least 400 of 2,000 requests (20 %), ")
    assert "10 ms" in finding.evidence


def test_exceptions_beside_clients_that_leave() -> None:
    """Exceptions beyond the write errors are the application's own, and both are said."""
    by_code = findings_by_code(left(400, exceptions=450))
    assert (by_code["exceptions"].kind, by_code["exceptions"].severity) == (RAISE, "warning")
    assert by_code["exceptions"].evidence.startswith("50 of 2,000 requests (2.5 %)")
    assert by_code["clients_left"].evidence.startswith("In at least 400 of")


@pytest.mark.parametrize(("number", "severity"), [(1, "info"), (99, "info"), (100, "warning")])
def test_a_few_people_always_leave(number: int, severity: str) -> None:
    """Below one in twenty it is good to know, with nothing to change."""
    finding = findings_by_code(left(number))["clients_left"]
    assert (finding.severity, finding.change == "") == (severity, severity == "info")


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
    assert finding.kind is MOST_LEFT
    assert finding.settings == (("listen", 22),), "16/s in 0.8 of two seconds, without the time in service"
    assert "Do not raise `listen`" in late(960)["queue_filling"].change
    for other in (late(480), late(960, queue=1.0)):
        assert other["clients_left"].kind is LEFT_EARLY
        assert not other["clients_left"].settings
    assert "most requests raise" not in str(late(960)).lower()


def test_uploads_that_break_off() -> None:
    """Bodies that cannot be read are named as such; a request that has both errors counts once."""
    finding = findings_by_code(left(200, 200, exceptions=200))["clients_left"]
    assert finding.kind is UPLOADS_LEFT
    assert finding.evidence.startswith("In at least 200 of")


@pytest.mark.parametrize("window", [left(None, None, 100), left(0, 0, 100)])
def test_nobody_left(window: Window) -> None:
    """With none, or unknown (stats-no-cores, older records), all exceptions are the application's."""
    by_code = findings_by_code(window)
    assert list(by_code) == ["exceptions"]
    assert by_code["exceptions"].evidence.startswith("100 of 2,000 requests")


def test_more_write_errors_than_exceptions() -> None:
    """`write-errors-tolerance` lets them happen without an exception; that is no negative number of exceptions."""
    assert "exceptions" not in findings_by_code(left(400, exceptions=3))


def answered(
    lines: int, agreed: int, exceptions: int = 0, path: str = "", **messages: LogMessage
) -> dict[str, Finding]:
    """The findings about a minute of 2,000 requests, of which the log has so many lines with status 500."""
    server = describe_server(Server().read(AT))
    assert server
    if lines:
        messages["status_5xx"] = LogMessage(lines, agreed)
    log = LogRecord(messages=messages)
    setup = replace(server.setup, log_path=path)
    figures = compute_figures(left(0, exceptions=exceptions), msgspec.structs.replace(server, log=log, setup=setup))
    return {finding.code: finding for finding in collect_findings(figures)}


@pytest.mark.parametrize(
    ("lines", "agreed", "severity"),
    [
        (1400, 1400, "critical"),
        (1400, 100, "warning"),
        (900, 900, "warning"),
        (40, 40, "warning"),
        (5, 5, "info"),
    ],
)
def test_responses_that_are_errors(lines: int, agreed: int, severity: str) -> None:
    """No counter shows errors that the application catches. Most are critical if their lines are proven."""
    finding = answered(lines, agreed)["server_errors"]
    assert (finding.severity, finding.change == "") == (severity, severity == "info")
    assert (UNPROVEN in finding.evidence) == (agreed != lines)
    assert finding.evidence.startswith(f"{lines:,} of 2,000 requests")


def test_exceptions_are_not_told_twice() -> None:
    """uWSGI writes status 500 for an exception that is not caught, too; lines may be of some seconds before."""
    assert "server_errors" not in answered(30, 30, exceptions=28)
    both = answered(100, 100, exceptions=28)
    assert both["server_errors"].evidence.startswith(
        "72 of 2,000 requests (3.6 %) got such a response; uWSGI counted 28"
    )
    assert {"exceptions", "server_errors"} <= set(both)
    assert "server_errors" not in answered(0, 0)


def test_refused_requests_are_not_told_twice() -> None:
    """uWSGI writes status 500 for a request that it refuses; a forged line about such requests hides no errors."""
    assert "server_errors" not in answered(1400, 1400, body_too_large=LogMessage(1390, 1390))
    assert answered(1400, 1400, body_too_large=LogMessage(1390, 0))["server_errors"].severity == "critical"


def test_the_command_for_the_lines_of_errors(tmp_path: Path) -> None:
    """It shows these lines, and no others; a name that a shell would split is quoted."""
    log = tmp_path / "shop's log"
    end = "2 headers in 64 bytes (1 switches on core 0)"
    lines = [("app: 0", "/a", 200), ("app: 0", "/b", 502), ("app: -1", "/routed", 500)]
    log.write_text("".join(f"[pid: 1|{app}|] GET {url} (HTTP/1.1 {status}) {end}\n" for app, url, status in lines))
    change = answered(1400, 1400, path=str(log))["server_errors"].change
    command = re.search(r"`(grep [^`]*)`", change)
    assert command
    assert STATUS_5XX in command[1]
    ran = subprocess.run(["sh", "-c", command[1]], capture_output=True, text=True, check=True)
    assert [line.split()[4] for line in ran.stdout.splitlines()] == ["/b", "/routed"]
    for path in ("", "journal:shop.service"):
        assert "grep" not in answered(1400, 1400, path=path)["server_errors"].change
