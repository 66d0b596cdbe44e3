"""Runs the exporter's HTTP server on a real loopback port, for servers given by address."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.limited_server import limited_server
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
