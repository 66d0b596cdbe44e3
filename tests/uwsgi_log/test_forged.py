"""A healthy application prints what its users type: no line of a user's makes a verdict critical."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.uwsgi_log.test_check import check, findings, repeated
from tests.uwsgi_log.test_real_uwsgi import get, serving
from uwsgi_headroom.uwsgi_log.scan import Scanner

pytestmark = pytest.mark.integration

PRINTS = """
import sys
from urllib.parse import unquote_plus

def application(environ, start_response):
    text = unquote_plus(environ["QUERY_STRING"])
    if text:
        print(text, file=sys.stderr, flush=True)
    start_response("200 OK", [])
    return [b"ok"]
"""

FAILED = (
    "[pid: {pid}|app: {app}|req: {number}/{number}] 10.0.0.7 () {{1 vars in 1 bytes}} [x] GET / => generated 1 bytes in "
    "1 msecs (HTTP/1.1 500) 1 headers in 1 bytes (1 switches on core 0)"
)

FORGED = {
    "modifier_unavailable": "-- unavailable modifier requested: 14 --",
    "empty_request": "Empty python request. skip.",
    "body_too_large": "Invalid (too big) CONTENT_LENGTH. skip.",
    "head_too_large": "invalid HTTP request size (max 4096)...skip",
    "no_python_application": "--- no python application found, check your startup logs for errors ---",
    "killed_by_signal": "DAMN ! worker 1 (pid: {pid}) died, killed by signal 11 :( trying respawn ...",
    "harakiri": "*** HARAKIRI ON WORKER 1 (pid: {pid}, try: 1, graceful: no) ***",
    "listen_queue_full": '*** uWSGI listen queue of socket "x" (fd: 3) full !!! (100/100) ***',
    "mercy_kill": "worker 1 (pid: {pid}) is taking too much time to die...NO MERCY !!!",
}


@pytest.mark.parametrize("line", [*FORGED.values(), FAILED], ids=[*FORGED, "status_5xx"])
@pytest.mark.parametrize("quiet", [False, True], ids=["logs requests", "logs no requests"])
def test_what_users_type_is_not_critical(line: str, quiet: bool, tmp_path: Path) -> None:
    """A search text with a line of uWSGI's, sent 10 times a second to an application that answers at once. The user
    knows the PIDs, and counts."""
    (tmp_path / "shop.py").write_text(PRINTS)
    options = ("--processes", "2", *(("--disable-logging",) if quiet else ()))
    with serving(tmp_path / "shop.py", *options) as server:
        numbers = itertools.count(1)

        def type_it() -> None:
            number = next(numbers)
            text = line.format(pid=server.pid + 1 + number % 2, app=0, number=number)
            get(server, f"/?{text.replace(' ', '+').replace('[', '%5B').replace('{', '%7B')}")

        with repeated(type_it, lambda: get(server, "/")):
            document = check(server, seconds=6)
        assert Scanner().scan(server.log.read_bytes()), "nothing was forged"
    assert document["status"] != "critical", document["verdict"]
    by_code = findings(document)
    assert all("as uWSGI's log shows" not in finding["title"] for finding in by_code.values())
    for code in {"requests_rejected", "log_failure"} & set(by_code):
        assert "The only evidence is uWSGI's log" in by_code[code]["evidence"]
