"""Lines of code of a real uWSGI, as the exporter shows them: through reloads, restarts and the end."""

import contextlib
import json
import os
import signal
import socket

import pytest

from tests.check.test_check import clients
from tests.support.exporter import exporter
from tests.support.real_uwsgi import uwsgi, wait_until
from uwsgi_headroom.kernel.waits.system_calls import CALLS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not CALLS, reason="the system calls of this architecture are not known"),
]

APPLICATION = """\
import threading, time
LOCK = threading.Lock()
def query():
    time.sleep(0.05)
def audit():
    with LOCK:
        query()
def export():
    time.sleep(600)
def application(environ, start_response):
    export() if environ["PATH_INFO"] == "/export" else audit()
    start_response("200 OK", [])
    return [b""]
"""


@pytest.fixture
def application(tmp_path):
    path = tmp_path / "shop" / "orders.py"
    path.parent.mkdir()
    path.write_text(APPLICATION)
    return path


def server(running):
    return json.loads(running.get("/api/v2/servers/shop")[1])


def lines(running):
    """The states of each line that the exporter shows, by function and line."""
    code = server(running)["code"] or {"lines": ()}
    return {(line["function"], line["line"]): {each["state"] for each in line["states"]} for line in code["lines"]}


def evidence(running, code):
    findings = server(running)["findings"]
    return next((finding["evidence"] for finding in findings if finding["code"] == code), "")


def pids(uwsgi_):
    """Of the workers; of the master, while it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return {worker["pid"] for worker in json.loads(uwsgi_.document())["workers"]}
    return {uwsgi_.pid}


EXPECTED = {("audit", 6): {"lock"}, ("query", 4): {"sleep"}}


def test_lines_of_a_running_server(application):
    touched = application.parent / "reload"
    touched.touch()
    options = ("--processes", "2", "--threads", "4", "--touch-reload", str(touched), "--worker-reload-mercy", "2")
    with (
        uwsgi(*options, app=application) as uwsgi_,
        clients(*[uwsgi_.http] * 6, path="/"),
        exporter("--stats", f"shop={uwsgi_.stats}", "--code", "--stuck", "6s") as running,
    ):

        def is_seen():
            seen = lines(running)
            return all(states <= seen.get(line, set()) for line, states in EXPECTED.items())

        wait_until(is_seen, what="the lines")
        holder = "that thread holds the lock, and is in query (shop/orders.py:4) sleeping"
        wait_until(lambda: holder in evidence(running, "application_lock"), what="the holder of the lock")
        assert "100 % in audit (shop/orders.py:6)" in evidence(running, "application_lock")

        file = f'file="{application}"'
        name = f'uwsgi_code_busy_thread_seconds_total{{{file},function="query",server="shop",state="sleep"}}'
        wait_until(lambda: running.scrape().get(name, 0) > 1, what="the counter")
        before = running.scrape()
        assert len([series for series in before if series.startswith("uwsgi_code_")]) <= 34

        with socket.create_connection(("127.0.0.1", uwsgi_.http), 10) as client:
            client.sendall(b"GET /export HTTP/1.0\r\n\r\n")
            stuck = "1 stuck request is in the function export (shop/orders.py:9), sleeping"
            wait_until(lambda: stuck in evidence(running, "request_stuck"), what="the stuck request")

        before_reload = pids(uwsgi_) | {uwsgi_.pid}
        os.utime(touched)
        wait_until(lambda: pids(uwsgi_).isdisjoint(before_reload), what="the reload")
        at_reload = running.scrape().get(name, 0)
        wait_until(lambda: running.scrape().get(name, 0) > at_reload + 1, what="the looks after the reload")
        assert server(running)["code"]["why"] is None
        assert not running.lines("internal error")


def test_a_server_that_is_gone_and_back(application, tmp_path):
    """It is looked at again; a reload of the exporter's configuration turns it off; the end waits for nothing."""
    stats = tmp_path / "shop.stats"
    configuration = tmp_path / "headroom.yml"
    configuration.write_text(f"servers: [{{name: shop, stats: {stats}, code: true}}]\n")
    with exporter("--config", str(configuration)) as running:
        for _ in range(2):
            with (
                uwsgi("--threads", "4", "--stats", str(stats), app=application, stats=False) as uwsgi_,
                clients(*[uwsgi_.http] * 3, path="/"),
            ):
                wait_until(lambda: server(running)["state"] == "up", what="the server")
                wait_until(lambda: ("query", 4) in lines(running), what="the lines")
            wait_until(lambda: server(running)["state"] == "down", what="the end of the server")
        configuration.write_text(f"servers: [{{name: shop, stats: {stats}}}]\n")
        os.kill(running.pid, signal.SIGHUP)
        wait_until(lambda: server(running)["code"] is None, what="the reload")
        assert not running.lines("internal error")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == -signal.SIGTERM
        assert not running.lines("Traceback")
