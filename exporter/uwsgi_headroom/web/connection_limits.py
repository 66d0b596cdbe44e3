"""How many may be connected to the HTTP face, and for how long without a word, or without taking one.

Without a bound, idle connections take every descriptor that the process may have: then no server can be read, and
asyncio logs the failing accept without a pause, gigabytes an hour beside the uWSGI that was to be left in peace.

And whoever asks for a stream and then does not read it would keep what he was sent in memory, for ever.
"""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_CONNECTIONS = 256
"""A quarter of the descriptors that a process has by default."""

BACKLOG = 64
"""Connections that wait to be accepted: asyncio takes as many at once, before any of them can be found too many."""


STALLED_SECONDS = 10.0
"""How long a client may take nothing of what waits for it: long for a network, and for a laptop that went to sleep."""

UNSENT_BYTES = 65536
"""How much the kernel takes of an answer before the client does; it would take megabytes."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, that closes at once what is one connection too many, and later what never says anything, and
    what does not take what it asked for."""

    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        # uvicorn itself sets this timer only behind an answer.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_stall_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_stall_timer(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._cancel_stall_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        super().shutdown()
        if self.flow.write_paused:  # its end would wait behind what is not taken
            self.transport.abort()

    def _start_stall_timer(self, waiting: int) -> None:
        self._cancel_stall_timer()
        self._stall_timer = self.loop.call_later(STALLED_SECONDS, self._abort_if_stalled, waiting)

    def _abort_if_stalled(self, waiting: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left >= waiting:
            self.transport.abort()
        else:
            self._start_stall_timer(left)

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
