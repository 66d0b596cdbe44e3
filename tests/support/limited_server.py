"""Runs an ASGI application behind the exporter's own HTTP server, on a free loopback port, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp

from uwsgi_headroom.web.connection_slots import Capacity
from uwsgi_headroom.web.http_server import HttpConnection, HttpServer

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.tls_stream import TlsStream


class LimitedServer:
    """A running server, of which tests look at the connections."""

    def __init__(self, http: HttpServer, listener: socket.socket) -> None:
        self.http = http
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._listener = listener
        self._ends = asyncio.Event()
        self._seconds = 0.0

    @property
    def port(self) -> int:
        return self.address[1]

    @property
    def connections(self) -> set[HttpConnection]:
        return self.http.open

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        return self.http.tasks

    def end(self, seconds: float = 1.0) -> None:
        """Begin to stop. seconds: for requests in progress."""
        self._seconds = seconds
        self.loop.call_soon_threadsafe(self._ends.set)

    async def serve(self, started: Callable[[], None]) -> None:
        """Serve until `end` is called."""
        self.loop = asyncio.get_running_loop()
        await self.http.start([self._listener])
        started()
        await self._ends.wait()
        await self.http.stop(self._seconds)


@contextlib.contextmanager
def limited_server(
    app: ASGIApp,
    connections: int = 8,
    make_tls: Callable[[], TlsStream] | None = None,
    before: Callable[[], Coroutine[Any, Any, None]] | None = None,
    listener: socket.socket | None = None,
) -> Iterator[LimitedServer]:
    """Serve at most `connections` connections until the block ends. before: runs in the same event loop."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    server = LimitedServer(HttpServer(app, Capacity(connections, 8), make_tls), listener)
    started = threading.Event()

    async def run() -> None:
        if before:
            await before()
        await server.serve(started.set)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert started.wait(60), "the server did not start"
        yield server
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended
            server.end(0)
        thread.join(60)
        assert not thread.is_alive(), "the server did not end"
