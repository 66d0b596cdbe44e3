"""The HTTP server: accepts connections at listening sockets, and ends them in order.

A connection takes requests one after another, and has the application answer each. Written on asyncio's public
`Protocol` and `Transport`. Everything that a connection holds (its timers, its task, data) ends in `connection_lost`,
however the connection ends. No route uses a body, so bodies are counted and discarded. A client that ends its side of
the connection has left, as for nginx: otherwise nothing would show that nobody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Scope

from uwsgi_headroom.web import bounds, request_head
from uwsgi_headroom.web.connection_slots import EXCHANGE, ConnectionLimits, ConnectionSlots
from uwsgi_headroom.web.request_head import Head, RefusedHeadError

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.tls_stream import TlsStream


_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_PHRASES = {int(status): status.phrase.encode() for status in HTTPStatus}

_log = logging.getLogger(__name__)


class HttpConnection(asyncio.Protocol):
    """A connection from accept to its end."""

    _transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._tls = server.make_tls() if server.make_tls else None
        self._received = bytearray()  # of HTTP, not taken yet
        self._measured = 0  # of them
        self._body_left = 0
        self._is_between_requests = False
        self._takes_data = True
        self._exchange: Exchange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.open.add(self)
        self._enter(until=self._loop.time() + bounds.IN_LINE_SECONDS)

    def _enter(self, until: float) -> None:
        """Take a place, or line up for one until this time of the loop, without reading."""
        transport, slots = self._transport, self._server.slots
        if transport.is_closing():
            return
        if self._server.is_ending or not slots.admit(self):
            if self._server.is_ending or self._loop.time() > until or not slots.line_up(self):
                self.abort()
                return
            self._loop.call_soon(transport.pause_reading)  # by then asyncio has begun to read, or has paused
            self._timer = self._loop.call_later(bounds.SLOW_SECONDS, self._enter, until)
            return
        transport.resume_reading()
        # Data of an answer waits here only while the client accepts none: `pause_writing` begins that time.
        transport.set_write_buffer_limits(high=0)
        accepted = transport.get_extra_info("socket")
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, bounds.UNSENT_BYTES)
            # Without it, the second piece of an answer on a kept connection waits 40 ms for an acknowledgement. asyncio
            # sets it only for sockets that know their protocol, which those of `create_server` and systemd do not.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._start_timer(bounds.HANDSHAKE_SECONDS if self._tls else bounds.REQUEST_SECONDS, self._end_late_request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.open.discard(self)
        self._server.slots.remove(self)
        self._cancel_timer()
        self._cancel_stall_timer()
        self._received.clear()
        self._writable.set()
        if self._exchange:
            self._exchange.leave()
            self._exchange = None  # each refers to the other

    def data_received(self, data: bytes) -> None:
        if not self._takes_data:
            return
        if self._tls:
            was_ready = self._tls.is_ready
            data = self._decrypt(data)
            if self._tls.is_ready and not was_ready and self._takes_data:
                self._start_timer(bounds.REQUEST_SECONDS, self._end_late_request)
        self._received += data
        self._take()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._server.slots.mark_waiting(self)
        self._start_stall_timer()

    def resume_writing(self) -> None:
        self._cancel_stall_timer()
        self._server.slots.mark_accepted(self)
        self._writable.set()

    # What the server and the application's answers call

    def abort(self) -> None:
        self._transport.abort()

    def end(self) -> None:
        """Close, after the answer if one is being made and the client accepts it."""
        if not self._writable.is_set():  # closing would wait for the client
            self.abort()
        elif not self._exchange:
            self._close()

    async def write(self, data: bytes) -> None:
        """Send data, and wait until the client has accepted enough of it."""
        for start in range(0, len(data), bounds.PIECE_BYTES):
            piece = data[start : start + bounds.PIECE_BYTES]
            self._transport.write(self._tls.encrypt(piece) if self._tls else piece)
            await self._writable.wait()
            if self._transport.is_closing():
                return

    @property
    def is_ending(self) -> bool:
        return self._server.is_ending

    # Requests

    def _decrypt(self, data: bytes) -> bytes:
        from uwsgi_headroom.web.security.tls_stream import TlsEndedError  # noqa: PLC0415 - only with TLS

        assert self._tls
        try:
            data, output = self._tls.receive(data)
        except TlsEndedError as ended:
            self._close_with(ended.answer)
            return b""
        self._transport.write(output)
        return data

    def _take(self) -> None:
        """Take the rest of a body and the next request from what was received."""
        if self._body_left:
            taken = min(self._body_left, len(self._received))
            del self._received[:taken]
            self._body_left -= taken
            if self._body_left:
                return
            self._cancel_timer()
            if not self._exchange:
                self._wait_for_request()
        if self._exchange:
            if len(self._received) > bounds.AHEAD_BYTES:
                self.abort()
            return
        if not self._received or not self._takes_data:
            return
        if self._is_between_requests:
            self._is_between_requests = False
            self._start_timer(bounds.REQUEST_SECONDS, self._end_late_request)
        try:
            length = request_head.measure(self._received, self._measured)
            self._measured = 0 if length else len(self._received)
            if length:
                head = request_head.parse(bytes(self._received[:length]))
                del self._received[:length]
                self._begin(head)
                self._take()
        except RefusedHeadError as refused:
            self._refuse(refused.status)

    def _begin(self, head: Head) -> None:
        self._body_left = head.body_bytes
        if not self._body_left:
            self._cancel_timer()
        self._server.slots.mark_busy(self)
        self._exchange = Exchange(self, head)
        scope = self._scope(head)
        scope[EXCHANGE] = self._exchange
        task = self._loop.create_task(self._answer(self._exchange, scope), name="request")
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    async def _answer(self, exchange: Exchange, scope: Scope) -> None:
        try:
            await self._server.application(scope, exchange.receive, exchange.send)
        except Exception:  # noqa: BLE001 - an internal error must end only its own connection
            _log.error("internal error", exc_info=True)
        finally:
            if not exchange.has_left:
                exchange.leave()
                self._exchange = None
                self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        if not exchange.is_begun and not self._transport.is_closing():
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR)
        elif not exchange.is_complete:
            self.abort()  # so that the client does not take a part for the whole
        elif not exchange.keeps_alive or self.is_ending:
            self._close()
        else:
            self._server.slots.mark_idle(self)
            if not self._body_left:
                self._wait_for_request()
                self._take()

    def _wait_for_request(self) -> None:
        self._is_between_requests = True
        self._start_timer(bounds.KEEP_ALIVE_SECONDS, self._close)

    def _scope(self, head: Head) -> dict[str, Any]:
        accepted = self._transport.get_extra_info("socket")
        here, peer = self._transport.get_extra_info("sockname"), self._transport.get_extra_info("peername")
        has_ports = accepted.family != socket.AF_UNIX
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": head.http_version,
            "method": head.method,
            "scheme": "https" if self._tls else "http",
            "path": head.path,
            "raw_path": head.raw_path,
            "root_path": "",
            "query_string": head.query,
            "headers": head.headers,
            "server": here[:2] if has_ports else (here, None),
            "client": peer[:2] if has_ports and peer else None,
        }

    # Ends

    def _refuse(self, status: HTTPStatus) -> None:
        answer = (
            f"HTTP/1.1 {status} {status.phrase}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(status.phrase) + 1}\r\n\r\n{status.phrase}\n"
        ).encode()
        self._close_with(self._tls.encrypt(answer) + self._tls.end() if self._tls else answer)

    def _close_with(self, answer: bytes) -> None:
        """Send bytes as they are, take no more data, and close: at once without an answer, else a little later, because
        TCP would discard the answer if more data arrives."""
        self._takes_data = False
        if not answer or self._exchange or self._transport.is_closing():
            self.abort()
            return
        self._transport.write(answer)
        self._linger()

    def _linger(self) -> None:
        self._received.clear()
        self._body_left = 0
        self._server.slots.mark_idle(self)
        with contextlib.suppress(OSError):  # the client has just reset the connection
            self._transport.write_eof()
        self._transport.pause_reading()
        self._start_timer(bounds.LINGER_SECONDS, self.abort)

    def _close(self) -> None:
        """Close, a little later if the client is still sending a body, because it would not read the answer."""
        if self._transport.is_closing():
            return
        if self._tls and self._takes_data:
            self._transport.write(self._tls.end())
        self._takes_data = False
        if self._body_left:
            self._linger()
        else:
            self._transport.close()

    # Timers

    def _end_late_request(self) -> None:
        if self._received and not self._exchange and (not self._tls or self._tls.is_ready):
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:  # the client sent nothing, or half a handshake, or half a body
            self.abort()

    def _start_timer(self, seconds: float, at_end: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_later(seconds, at_end)

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _start_stall_timer(self) -> None:
        self._cancel_stall_timer()
        unsent = self._transport.get_write_buffer_size()
        self._stall_timer = self._loop.call_later(bounds.STALLED_SECONDS, self._end_if_stalled, unsent)

    def _end_if_stalled(self, unsent: int) -> None:
        if unsent - self._transport.get_write_buffer_size() < bounds.LEAST_RATE * bounds.STALLED_SECONDS:
            self.abort()
        else:
            self._start_stall_timer()

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer:
            self._stall_timer.cancel()
            self._stall_timer = None


class Exchange:
    """A request and its answer, as the application sees them."""

    def __init__(self, connection: HttpConnection, head: Head) -> None:
        self._connection: HttpConnection | None = connection
        self._may_be_chunked = head.http_version == "1.1"
        self._is_head = head.method == "HEAD"
        self._is_chunked = self._has_body = False
        self._asked_for_body = False
        self._unsent_head = b""
        self._ended = asyncio.Event()
        self.keeps_alive = head.keeps_alive
        self.is_begun = self.is_complete = False

    @property
    def has_left(self) -> bool:
        """Whether nobody waits for the answer: the client has closed the connection, or has everything."""
        return self._connection is None

    def leave(self) -> None:
        self._connection = None
        self._ended.set()

    async def receive(self) -> Message:
        """ASGI's `receive`: an empty body, then the end of the exchange."""
        if not self._asked_for_body:
            self._asked_for_body = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """ASGI's `send`. The head is sent with the first piece of the body."""
        if not self._connection:
            return
        if message["type"] == "http.response.start":
            self._unsent_head = self._make_head(message, closes=self._connection.is_ending)
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if not self._has_body:
            body = b""
        elif self._is_chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        body, self._unsent_head = self._unsent_head + body, b""
        self.is_begun = True
        await self._connection.write(body)
        if not more:
            self.is_complete = True
            self._ended.set()

    def _make_head(self, message: Message, *, closes: bool) -> bytes:
        status, headers = message["status"], message.get("headers", ())
        names = {name.lower() for name, _ in headers}
        self._has_body = not self._is_head and status not in _NO_BODY
        has_length = b"content-length" in names
        self._is_chunked = self._has_body and not has_length and self._may_be_chunked
        self.keeps_alive &= not closes and (has_length or self._is_chunked or not self._has_body)
        lines = [b"HTTP/1.1 %d %b" % (status, _PHRASES.get(status, b"")), b"date: " + formatdate(usegmt=True).encode()]
        lines += [b"%b: %b" % header for header in headers]
        if self._is_chunked:
            lines.append(b"transfer-encoding: chunked")
        if not self.keeps_alive:
            lines.append(b"connection: close")
        return b"\r\n".join([*lines, b"", b""])


_END_SECONDS = 1.0
"""How long connections have to end after their requests, which takes some turns of the event loop."""

_TURN_SECONDS = 0.01


class HttpServer:
    """Serves an application. make_tls: for each connection, None for plain HTTP. open: the connections; tasks: one for
    each request that is being answered."""

    def __init__(
        self, application: ASGIApp, capacity: ConnectionLimits, make_tls: Callable[[], TlsStream] | None = None
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
