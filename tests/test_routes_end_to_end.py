"""Routes with a real uWSGI: what is shown of its requests, and that nothing else is, on and off."""

import contextlib
import http.client
import json
import socket
from pathlib import Path

import pytest

from tests.support.exporter import exporter
from tests.support.real_uwsgi import uwsgi, wait_until

pytestmark = pytest.mark.integration

APP = Path(__file__).parent / "support" / "waiting_app.py"

SECRETS = """
querysecret cookiesecret bearersecret headersecret agentsecret 203.0.113.77 bob@example jsessionid SESSIONSECRET
eyJhbGciOiJIUzI1NiJ9 5550199 PROPSECRET HTTP_ REQUEST_METHOD PATH_INFO QUERY_STRING REMOTE_
"""

HEADERS = (
    "Cookie: session=cookiesecret\r\n"
    "Authorization: Bearer bearersecret\r\n"
    "User-Agent: agentsecret\r\n"
    "X-Forwarded-For: 203.0.113.77\r\n"
    'X-Trick: ","PATH_INFO=/headersecret","REQUEST_METHOD=GET\r\n'
    "X-Bytes: headersecret\xff\x01\xfe\r\n"
)

REQUESTS = (
    "POST /export?token=querysecret",
    "POST /export?token=querysecret2",
    "GET /orders/5550199/items?q=querysecret",
    "GET /reset/eyJhbGciOiJIUzI1NiJ9.e30.abc?querysecret",
    "GET /u/bob@example.com",
    "GET /u/bob%40example.com",
    "GET /app;jsessionid=SESSIONSECRET",
    "PROPSECRET /export",
)

OTHERS = len(REQUESTS) - 4

PAGES = """
/metrics / /servers/app /api/v2/servers /api/v2/servers/app /api/v2/servers/app/findings /api/v2/servers/app/history
/api/v2/servers/app/journal /runbooks/UwsgiRequestStuck?server=app /runbooks/UwsgiWorkersUneven?server=app
"""


@contextlib.contextmanager
def in_service(server, *requests):
    """Requests that stay in service until the block ends."""
    with contextlib.ExitStack() as stack:
        for request in requests:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.http), 20))
            client.sendall(f"{request} HTTP/1.0\r\n{HEADERS}\r\n".encode("latin-1"))
        yield


@pytest.fixture(scope="module")
def server():
    with uwsgi("--processes", "3", "--threads", "3", "--buffer-size", "8192", app=APP) as running:
        with in_service(running, *REQUESTS):
            wait_until(lambda: running.document().count(b'"in_request":1') == len(REQUESTS))
            yield running
        (running.directory / "stop").touch()


@pytest.fixture(scope="module")
def broken(server, tmp_path_factory):
    path = tmp_path_factory.mktemp("broken") / "document"
    path.write_bytes(server.document()[:-40])
    return path


def everything(running):
    """All that the exporter shows and logs, and one event of its stream."""
    texts = [running.get(path)[1] for path in PAGES.split()]
    texts.append(running.metrics(accept="application/openmetrics-text"))
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/api/v2/servers/app/events")
        response = connection.getresponse()
        texts.append(next(line for line in response if line.startswith(b"data: ")).decode())
    return "\n".join([*texts, running.log.read_text()])


def arguments(server, broken):
    return ["--stats", f"app={server.stats}", "--stats", f"broken=file://{broken}", "--log.level", "debug"]


def test_on_only_routes_are_shown(server, broken):
    """Routes are named in metrics, API and history; no other word of a request is in any output or in the log."""
    template = ("--route-template", "/orders/{order}/items")
    with exporter(*arguments(server, broken), "--routes", *template) as running:

        def routes():
            listed = json.loads(running.get("/api/v2/servers/app")[1])["routes"] or []
            return {row["route"]: row["in_service"] for row in listed}

        expected = {"POST /export": 2, "GET /orders/{order}/items": 1, "GET /reset/{token}": 1, "other": OTHERS}
        wait_until(lambda: routes() == expected, what="the routes")
        history = json.loads(running.get("/api/v2/servers/app/history")[1])
        assert set(history["routes"]["routes"]) == set(expected)
        series = running.scrape()
        for route in expected:
            assert series[f'uwsgi_route_busy_thread_seconds_total{{route="{route}",server="app"}}'] > 0
        shown = everything(running)
        assert running.lines("cannot read", "broken", "reason=truncated")
    assert "POST /export" in shown
    assert [secret for secret in SECRETS.split() if secret in shown] == []


def test_off_nothing_is_shown(server, broken):
    with exporter(*arguments(server, broken)) as running:
        wait_until(lambda: json.loads(running.get("/api/v2/servers/app")[1])["window"])
        document = json.loads(running.get("/api/v2/servers/app")[1])
        assert (document["routes"], document["threads"]["busy"]) == (None, len(REQUESTS))
        shown = everything(running)
    assert "/export" not in shown
    assert "uwsgi_route_" not in shown
    assert [secret for secret in SECRETS.split() if secret in shown] == []
