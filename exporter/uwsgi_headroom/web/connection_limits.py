"""uvicorn's protocol with the limits in `bounds`: on requests, on their duration, and on responses nobody receives.

uvicorn itself has none of these limits: the first byte of a request cancels its only timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import weakref
from collections import deque
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.connection_slots import ConnectionSlots
from uwsgi_headroom.web.request_meter import RequestMeter, body_length
from uwsgi_headroom.web.request_turns import CYCLE


class LimitedProtocol(HttpToolsProtocol):
    """One connection, idle or with a request in progress. slots: all connections."""

    def __init__(self, *arguments: Any, slots: ConnectionSlots, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._slots = slots
        self._meter = RequestMeter()
        self._takes_data = True
        self._unanswered: deque[RequestResponseCycle] = deque()
        self._request_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._slots.admit(self):
            self.abort()
            return
        accepted = transport.get_extra_info("socket")
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, bounds.UNSENT_BYTES)
        self._start_request_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._slots.remove(self)
        self._cancel_request_timer()
        self._cancel_stall_timer()
        # If the client resets, uvicorn leaves this timer, which keeps the connection in memory. Of pipelined requests,
        # it informs only the last that the client has gone.
        self._unset_keepalive_if_required()
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)
        # A request refers to its connection. Without this, both wait in memory for Python's garbage collection, which
        # is rare here: with TLS, 30 kB of each.
        self._unanswered.clear()
        self.pipeline.clear()
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if not self._takes_data:
            self.abort()
        start = 0
        while start < len(data) and self._takes_data and not self.transport.is_closing():
            end = self._meter.end_of_piece(data, start)
            if status := self._meter.count(data, start, end):
                self._refuse(status)
                return
            self._start_request_timer()
            super().data_received(data[start:end])
            start = end
            if len(self.pipeline) > bounds.MOST_PIPELINED:
                self.abort()

    def on_headers_complete(self) -> None:
        length = body_length(self.headers)
        if length < 0 or length > bounds.BODY_BYTES:
            self._refuse(411 if length < 0 else 413)
            return
        if authority := httptools.parse_url(self.url).host:  # overrides the Host header (RFC 9112, 3.2.2)
            self.headers[:] = [*(header for header in self.headers if header[0] != b"host"), (b"host", authority)]
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        self.scope[CYCLE] = weakref.ref(self.cycle)  # type: ignore[literal-required]
        self._slots.mark_busy(self)
        self._meter.start_body(length)
        if self.parser.should_upgrade():  # the parser then takes no further request
            self._takes_data = self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._meter.start_request()
        self._cancel_request_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._unanswered:  # else the connection was lost
            self._unanswered.popleft()
        super().on_response_complete()
        if self.is_sending():
            self._start_stall_timer(self.unsent_bytes())
        if not self.pipeline:
            self._slots.mark_idle(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_stall_timer(self.unsent_bytes())

    def resume_writing(self) -> None:
        if self._unanswered:  # else the rest of the last response still waits
            self._cancel_stall_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        super().shutdown()
        if self.flow.write_paused:  # closing would wait for data that the client does not accept
            self.abort()

    def is_sending(self) -> bool:
        return self.unsent_bytes() > 0

    def unsent_bytes(self) -> int:
        """Bytes of responses that the kernel has not taken yet."""
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        self.transport.abort()

    def _refuse(self, status: int) -> None:
        """Respond with a status, stop reading, and close. If a response is in progress, close at once instead."""
        self._takes_data = False
        self._cancel_request_timer()
        if self._unanswered:
            self.abort()
            return
        phrase = HTTPStatus(status).phrase
        self.transport.write(
            f"HTTP/1.1 {status} {phrase}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(phrase) + 1}\r\n\r\n{phrase}\n".encode()
        )
        if self.transport.can_write_eof():  # TLS cannot
            with contextlib.suppress(OSError):  # the client has just reset the connection
                self.transport.write_eof()
        self.flow.pause_reading()
        self._request_timer = self.loop.call_later(bounds.LINGER_SECONDS, self.abort)

    def _start_request_timer(self) -> None:
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(bounds.REQUEST_SECONDS, self._end_late_request)

    def _end_late_request(self) -> None:
        if self._meter.is_in_head:
            self._refuse(408)
        else:  # the client sent nothing, or the body of a request that may already have its response
            self.abort()

    def _cancel_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _start_stall_timer(self, waiting: int) -> None:
        self._cancel_stall_timer()
        self._stall_timer = self.loop.call_later(bounds.STALLED_SECONDS, self._abort_if_stalled, waiting)

    def _abort_if_stalled(self, waiting: int) -> None:
        left = self.unsent_bytes()
        if left >= waiting:
            self.abort()
        elif left:
            self._start_stall_timer(left)

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
