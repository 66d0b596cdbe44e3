"""Clients that leave are distinguished from exceptions of the application, of which uWSGI counts one for each."""

import re
import subprocess

from msgspec.structs import replace

from tests.analysis.judging import change_workers, describe, idle, judge
from uwsgi_headroom.analysis.findings import Finding, clients
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import LogMessage, LogRecord


def left(write_errors: int | None, read_errors: int | None = 0, exceptions: int = 0) -> Window:
    """A minute of 2,000 requests, with these errors in the first worker and none in the others."""
    errors = {"write_errors": write_errors, "read_errors": read_errors}
    quiet = change_workers(idle(), **{name: None if number is None else 0 for name, number in errors.items()})
    return replace(change_workers(quiet, 1, **errors), exceptions=exceptions)


def answered(
    lines: int, agreed: int, exceptions: int = 0, path: str = "", **messages: LogMessage
) -> dict[str, Finding]:
    """The findings about a minute of 2,000 requests, of which the log has so many lines with status 500."""
    if lines:
        messages["status_5xx"] = LogMessage(lines, agreed)
    record = describe()
    known = {"log": LogRecord(messages=messages), "setup": replace(record.setup, log_path=path)}
    return judge(left(0, exceptions=exceptions), describe(**known))


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
