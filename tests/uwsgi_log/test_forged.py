"""A healthy application prints what its users type: no such line makes a verdict critical."""

import itertools
from urllib.parse import quote_plus

import pytest

from tests.uwsgi_log.capture import get, serving, worker_pids
from tests.uwsgi_log.test_check import check, findings, repeated
from uwsgi_headroom.stats import decode
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

FORGED = {
    "status_5xx": "[pid: {pid}|app: 0|req: {number}/{number}] 10.0.0.7 () {{1 vars in 1 bytes}} [x] GET / => generated "
    "1 bytes in 1 msecs (HTTP/1.1 500) 1 headers in 1 bytes (1 switches on core 0)",
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


@pytest.mark.parametrize("logs_requests", [True, False])
def test_what_users_type_is_not_critical(logs_requests, tmp_path):
    """Lines of uWSGI's as search text, 20 times a second, by one who knows the PIDs and the number of calls."""
    (tmp_path / "shop.py").write_text(PRINTS)
    options = ("--processes", "2", *(() if logs_requests else ("--disable-logging",)))
    with serving(tmp_path / "shop.py", *options) as server:
        pids = itertools.cycle(worker_pids(server))
        for _ in range(60):
            get(server, "/")

        def type_it():
            text = "\n".join(FORGED.values()).format(pid=next(pids), number=calls(server))
            get(server, f"/?{quote_plus(text)}")

        with repeated(type_it):
            document = check(server, seconds=8)
        forged = Scanner().scan(server.log.read_bytes())
        assert {seen.code for seen in forged} >= set(FORGED)
    assert document["status"] != "critical", document["verdict"]
    by_code = findings(document)
    assert by_code.keys() >= {"requests_rejected", "log_failure", "server_errors"}
    for code in ("requests_rejected", "log_failure", "server_errors"):
        assert by_code[code]["title"].startswith("uWSGI's log says that"), by_code[code]
        assert "The only evidence is uWSGI's log" in by_code[code]["evidence"]


def calls(server):
    snapshot = decode(server.document())
    return snapshot.workers[0].apps[0].requests or 0
