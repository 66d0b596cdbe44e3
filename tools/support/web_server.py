"""Runs the exporter's HTTP server on a real loopback port, for servers given by address."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from tools.support.real_uwsgi import wait_until
from uwsgi_headroom.config.defaults import HISTORY_MAX_SIZE
from uwsgi_headroom.config.servers import ServerConfig, parse_server_argument
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web.app import create_application


@contextlib.contextmanager
def serving(*servers: str | ServerConfig, sampling: bool = False, history: Path | None = None) -> Iterator[int]:
    """Serves these servers (`NAME=ADDRESS`, or a configuration) until the block ends; yields the port.

    The servers are read once, or with `sampling` on a timer, so that no reading becomes stale. history: a history file.
    """
    configured = [parse_server_argument(given, "test") if isinstance(given, str) else given for given in servers]
    writer = HistoryWriter(history, HISTORY_MAX_SIZE) if history else None
    fleet = Fleet(configured, writer=writer)
    settings = uvicorn.Config(
        create_application(fleet), host="127.0.0.1", port=0, lifespan="off", log_config=None, ws="none"
    )
    server = uvicorn.Server(settings)

    async def serve() -> None:
        timer = asyncio.create_task(fleet.run()) if sampling else None
        reads = [asyncio.create_task(watch.reader.read()) for watch in fleet.watches() if not sampling]
        if reads:
            await asyncio.wait(reads, timeout=1)
        await server.serve()
        if timer:
            timer.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        wait_until(lambda: server.started, what="the exporter")
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        if writer:
            writer.close(10)
        assert not thread.is_alive(), "the exporter did not end"


def get(
    port: int, path: str = "/metrics", headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Makes a request; returns status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.msg, response.read()
    finally:
        connection.close()
