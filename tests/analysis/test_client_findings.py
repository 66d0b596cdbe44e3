"""Clients that leave are distinguished from exceptions of the application, of which uWSGI counts one for each."""

import re
import subprocess

import pytest
from msgspec.structs import replace

from tests.analysis.judging import change_workers, describe, findings_by_code, idle, judge, severity
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, clients
from uwsgi_headroom.analysis.findings.log import UNPROVEN
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import LogMessage, LogRecord


def left(write_errors: int | None, read_errors: int | None = 0, exceptions: int = 0) -> Window:
    """A minute of 2,000 requests, with these errors in the first worker and none in the others."""
    errors = {"write_errors": write_errors, "read_errors": read_errors}
    quiet = change_workers(idle(), **{name: None if number is None else 0 for name, number in errors.items()})
    return replace(change_workers(quiet, 1, **errors), exceptions=exceptions)


def late(left: int, queue: float = 100.0) -> dict[str, Finding]:
    """A minute of four busy threads that serve 16 requests a second of 250 ms; so many of 960 clients had left, and a
    mean number of requests waits."""
    busy = window(60, *(worker(number, 240, each=0.25, busy=60.0) for number in range(1, 5)), app=60 * queue)
    busy = replace(change_workers(busy, write_errors=left // 4, read_errors=0), exceptions=left)
    return findings_by_code(busy, Server(processes=4, threads=1))


def test_clients_that_leave_while_their_requests_wait():
    """If most have gone when they are served, a shorter queue serves those who still wait; where few requests wait, or
    half of the clients get their answer, it would serve nobody more."""
    finding = late(960)["clients_left"]
    assert finding.kind is clients.MOST_LEFT
    assert finding.settings == (("listen", 22),), "16/s in 0.8 of two seconds, without the time in service"
    for other in (late(480), late(960, queue=1.0)):
        assert (other["clients_left"].kind, other["clients_left"].settings) == (clients.LEFT_EARLY, ())


def answered(
    lines: int, agreed: int, exceptions: int = 0, path: str = "", **messages: LogMessage
) -> dict[str, Finding]:
    """The findings about a minute of 2,000 requests, of which the log has so many lines with status 500."""
    if lines:
        messages["status_5xx"] = LogMessage(lines, agreed)
    record = describe()
    known = {"log": LogRecord(messages=messages), "setup": replace(record.setup, log_path=path)}
    return judge(left(0, exceptions=exceptions), describe(**known))


@pytest.mark.parametrize(
    ("lines", "agreed", "expected"),
    [
        (1400, 1400, "critical"),
        (1400, 100, "warning"),
        (900, 900, "warning"),
        (40, 40, "warning"),
        (5, 5, "info"),
        (0, 0, None),
    ],
)
def test_responses_that_are_errors(lines, agreed, expected):
    """No counter shows errors that the application catches. Most are critical if their lines are proven."""
    found = answered(lines, agreed)
    assert severity(found, "server_errors") == expected
    assert not expected or (UNPROVEN in found["server_errors"].evidence) == (agreed != lines)
    assert not expected or (found["server_errors"].change == "") == (expected == "info")


@pytest.mark.parametrize(
    ("lines", "exceptions", "messages", "expected"),
    [
        (30, 28, {}, None),  # lines may be of some seconds before
        (100, 28, {}, "warning"),
        (1400, 0, {"body_too_large": LogMessage(1390, 1390)}, None),
        (1400, 0, {"body_too_large": LogMessage(1390, 0)}, "critical"),  # a forged line hides no errors
    ],
)
def test_responses_of_uwsgi_itself(lines, exceptions, messages, expected):
    """It writes status 500 for an exception that is not caught, and for a request that it refuses, too."""
    found = answered(lines, lines, exceptions, **messages)
    assert severity(found, "server_errors") == expected
    assert ("exceptions" in found) == bool(exceptions)
    assert lines != 100 or found["server_errors"].evidence.startswith("72 of 2,000 requests (3.6 %)")


def test_the_command_for_the_lines_of_errors(tmp_path):
    """It shows these lines, and no others; a name that a shell would split is quoted."""
    log = tmp_path / "shop's log"
    end = "2 headers in 64 bytes (1 switches on core 0)"
    lines = [("app: 0", "/a", 200), ("app: 0", "/b", 502), ("app: -1", "/routed", 500)]
    log.write_text("".join(f"[pid: 1|{app}|] GET {url} (HTTP/1.1 {status}) {end}\n" for app, url, status in lines))
    command = re.search(r"`(grep [^`]*)`", answered(1400, 1400, path=str(log))["server_errors"].change)
    assert clients.STATUS_5XX in command[1]
    ran = subprocess.run(["sh", "-c", command[1]], capture_output=True, text=True, check=True)
    assert [line.split()[4] for line in ran.stdout.splitlines()] == ["/b", "/routed"]
    for path in ("", "journal:shop.service"):
        assert "grep" not in answered(1400, 1400, path=path)["server_errors"].change


@pytest.mark.parametrize(
    ("lines", "routed", "code"),
    [(1800, 0, "client_errors"), (1799, 0, None), (1800, 1800, "client_errors"), (0, 1800, "routing_ends_requests")],
)
def test_errors_that_are_nearly_all_responses(lines, routed, code):
    """Of a minute of 2,000 requests: the log's lines with status 404, and requests that a rule of routing ended."""
    messages = {"status_4xx": LogMessage(lines, lines, limit=404)} if lines else {}
    found = judge(replace(left(0), routed=routed), describe(log=LogRecord(messages=messages)))
    codes = {"client_errors", "routing_ends_requests"}
    assert codes & {each.code for each in found.values()} == ({code} if code else set())
