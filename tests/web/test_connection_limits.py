"""The HTTP server with clients that do not accept the response they requested."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.limited_server import limited_server
from tools.support.real_uwsgi import wait_until
from uwsgi_headroom.web import bounds

SIZE = 8_000_000  # larger than all buffers on the way


@contextlib.contextmanager
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[uvicorn.Server, socket.socket]]:
    """A server with one large response, a client that has requested it, and a stall limit of half a second."""
    monkeypatch.setattr(bounds, "STALLED_SECONDS", 0.5)

    async def answer(_request: Request) -> Response:
        return Response(bytes(SIZE))

    app = Starlette(routes=[Route("/", answer)])
    with limited_server(app) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.settimeout(10)
        client.connect(server.servers[0].sockets[0].getsockname())
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        wait_until(lambda: server.server_state.connections, what="the connection")
        yield server, client


def test_who_takes_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data that waits for such a client is freed."""
    with asked(monkeypatch) as (server, client):
        wait_until(lambda: not server.server_state.connections, what="the end of the connection")
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
        (protocol,) = server.server_state.connections
        wait_until(lambda: protocol.flow.write_paused, what="a stall")  # type: ignore[union-attr]
        server.should_exit = True
        wait_until(lambda: not server.server_state.connections, 5, what="the end of the connection")
