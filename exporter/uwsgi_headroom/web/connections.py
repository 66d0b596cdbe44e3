"""How many may be connected to the HTTP face, and for how long without a word.

Without a bound, idle connections take every descriptor that the process may have: then no server can be read, and
asyncio logs the failing accept without a pause, gigabytes an hour beside the uWSGI that was to be left in peace.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_CONNECTIONS = 256
"""A quarter of the descriptors that a process has by default."""

BACKLOG = 64
"""Connections that wait to be accepted: asyncio takes as many at once, before any of them can be found too many."""


class Bounded(HttpToolsProtocol):
    """uvicorn's protocol, that closes at once what is one connection too many, and later what never says anything."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        # uvicorn itself sets this timer only behind an answer.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
