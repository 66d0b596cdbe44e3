"""The HTTP server with clients that do not accept the response they requested."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.real_uwsgi import wait_until
from tests.support.web_server import LimitedServer, limited_server
from uwsgi_headroom.web import bounds

SIZE = 8_000_000  # larger than all buffers on the way


@contextlib.contextmanager
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LimitedServer, socket.socket]]:
    """A server with one large response, a client that has requested it, and a stall limit of half a second."""
    monkeypatch.setattr(bounds, "STALLED_SECONDS", 0.5)

    async def answer(_request: Request) -> Response:
        return Response(bytes(SIZE))

    app = Starlette(routes=[Route("/", answer)])
    with limited_server(app) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.settimeout(60)
        client.connect(server.address)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        wait_until(lambda: server.connections, what="the connection")
        yield server, client


def test_who_takes_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data that waits for such a client is freed."""
    with asked(monkeypatch) as (server, client):
        wait_until(lambda: not server.connections, what="the end of the connection")
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(1 << 20):
                received += len(part)
        assert received < SIZE


def test_who_is_slow_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow network does not count as a stall, however long the response takes."""
    with asked(monkeypatch) as (_, client):
        received, began = 0, time.monotonic()
        while part := client.recv(65536):
            received += len(part)
            if time.monotonic() - began < 2:
                time.sleep(0.05)
        assert received > SIZE


def test_an_end_does_not_wait_for_who_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At shutdown the server closes such a connection at once."""
    with asked(monkeypatch) as (server, _):
        monkeypatch.setattr(bounds, "STALLED_SECONDS", 600.0)
        (connection,) = server.connections
        wait_until(lambda: not connection._writable.is_set(), what="a stall")
        server.end()
        wait_until(lambda: not server.connections, what="the end of the connection")


def test_who_takes_too_little_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A little now and then moves no deadline: a client must accept data at the least rate."""
    with asked(monkeypatch) as (server, client):
        monkeypatch.setattr(bounds, "LEAST_RATE", 100_000)
        ends, received = time.monotonic() + 60, 0
        with contextlib.suppress(ConnectionResetError):
            while server.connections and (part := client.recv(2_000)):
                received += len(part)
                time.sleep(0.05)
        assert time.monotonic() < ends
        assert received < SIZE


def test_slow_clients_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """If slow readers have all places, the slowest is closed for a new client, and each is in its turn."""
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 0.2)

    async def answer(request: Request) -> Response:
        return Response(bytes(SIZE if request.url.path == "/large" else 2))

    app = Starlette(routes=[Route("/{path}", answer)])
    with limited_server(app, 4) as server, contextlib.ExitStack() as stack:
        slow = []
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(server.address)
            client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            slow.append(client)
            wait_until(lambda: len(server.http.slots._waiting) == len(slow), what="a slow client")
        time.sleep(0.3)  # bounds.SLOW_SECONDS have passed
        for _ in range(6):  # the first makes room; the others close the idle one before them
            with socket.create_connection(server.address, 10) as client:
                client.sendall(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
                assert client.recv(1000).startswith(b"HTTP/1.1 200 OK")
        slow[0].settimeout(60)
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while part := slow[0].recv(1 << 20):
                received += len(part)
        assert received < SIZE
        assert len(server.http.slots._waiting) == 3
