"""The HTTP server: accepts connections at listening sockets, and ends them in order."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.connection_slots import Capacity, ConnectionSlots
from uwsgi_headroom.web.http_connection import HttpConnection

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.tls_stream import TlsStream

_END_SECONDS = 1.0
"""How long connections have to end after their requests, which takes some turns of the event loop."""

_TURN_SECONDS = 0.01

_log = logging.getLogger(__name__)


class HttpServer:
    """Serves an application. make_tls: for each connection, None for plain HTTP. open: the connections; tasks: one for
    each request that is being answered."""

    def __init__(
        self, application: ASGIApp, capacity: Capacity, make_tls: Callable[[], TlsStream] | None = None
    ) -> None:
        self.application = application
        self.slots = ConnectionSlots(capacity.connections, capacity.accepts)
        self.make_tls = make_tls
        self.open: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_ending = False
        self._accepts = capacity.accepts
        self._listeners: list[asyncio.Server] = []

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Serve at these listening sockets, which `stop` closes."""
        loop = asyncio.get_running_loop()
        for listener in sockets:
            # asyncio's `backlog` is also how many connections it accepts in a turn of the event loop.
            server = await loop.create_server(lambda: HttpConnection(self), sock=listener, backlog=self._accepts)
            listener.listen(bounds.LISTEN_QUEUE)
            self._listeners.append(server)

    async def stop(self, seconds: float) -> None:
        """Accept no more connections; requests in progress have this long to be answered."""
        self.is_ending = True
        for listener in self._listeners:
            listener.close()
        for connection in list(self.open):
            connection.end()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=seconds)
        if late := set(self.tasks):
            fields = {"requests": len(late), "seconds": seconds}
            _log.error("requests were cut off, because the exporter ends", extra={"fields": fields})
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=_END_SECONDS)
        for _ in range(round(_END_SECONDS / _TURN_SECONDS)):
            if self.open:
                await asyncio.sleep(_TURN_SECONDS)
        for connection in list(self.open):
            connection.abort()
        await asyncio.sleep(0)
