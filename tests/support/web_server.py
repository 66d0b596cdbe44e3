"""Runs the exporter's HTTP server on a free loopback port, in a thread: for any application, or for servers given by
address."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp

from uwsgi_headroom.config.defaults import HISTORY_MAX_SIZE
from uwsgi_headroom.config.servers import ServerConfig, parse_server_argument
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web.app import create_application
from uwsgi_headroom.web.connection_slots import ConnectionLimits
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
    server = LimitedServer(HttpServer(app, ConnectionLimits(connections, 8), make_tls), listener)
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


@contextlib.contextmanager
def serving(*servers: str | ServerConfig, sampling: bool = False, history: Path | None = None) -> Iterator[int]:
    """Serves these servers (`NAME=ADDRESS`, or a configuration) until the block ends; yields the port.

    The servers are read once, or with `sampling` on a timer, so that no reading becomes stale. history: a history file.
    """
    configured = [parse_server_argument(given, "test") if isinstance(given, str) else given for given in servers]
    writer = HistoryWriter(history, HISTORY_MAX_SIZE) if history else None
    fleet = Fleet(configured, writer=writer)

    tasks: list[asyncio.Task[Any]] = []

    async def read() -> None:
        if sampling:
            tasks.append(asyncio.create_task(fleet.run()))
            return
        tasks.extend(asyncio.create_task(watch.reader.read()) for watch in fleet.watches())
        if tasks:
            await asyncio.wait(tasks, timeout=1)

    try:
        with limited_server(create_application(fleet), 64, before=read) as server:
            yield server.port
    finally:
        if writer:
            writer.close(10)


def get(
    port: int, path: str = "/metrics", headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Makes a request; returns status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.msg, response.read()
    finally:
        connection.close()
