"""Connections of a TLS listener, from accept to the first request.

uvicorn would give asyncio one TLS context for the whole life of a listener, and would not see a connection before its
handshake is complete. Here the first bytes are read without TLS: so a connection counts among all connections, and has
its time limit, from the beginning; plain HTTP is answered in plain text; and a handshake takes the context that is in
force at that moment. asyncio's own class does the TLS, as in `loop.create_server(ssl=...)`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.connection_limits import LimitedProtocol
from uwsgi_headroom.web.connection_slots import ConnectionSlots
from uwsgi_headroom.web.security.live_config import Active
from uwsgi_headroom.web.security.model import TlsConfig

_HANDSHAKE_RECORD = 0x16
"""The first byte of every TLS connection (RFC 8446, 5.1)."""

_PLAIN_SENTENCE = "Client sent an HTTP request to an HTTPS server."
_PLAIN_ANSWER = (
    "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    f"{_PLAIN_SENTENCE}\n"
).encode()


class Live(Protocol):
    """The source of the configuration in force, which has a TLS context."""

    @property
    def active(self) -> Active:
        """The configuration in force."""


class TlsConnection(asyncio.Protocol):
    """A connection until its handshake is complete. more: for uvicorn's protocol, which then takes over."""

    def __init__(self, *, live: Live, slots: ConnectionSlots, server_state: ServerState, **more: Any) -> None:
        self._live, self._slots, self._server_state, self._more = live, slots, server_state, more
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._slots.admit(self):
            self.abort()
            return
        self._server_state.connections.add(self)  # type: ignore[arg-type] # so that a shutdown ends it
        self._start_timer(bounds.HANDSHAKE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.finish()

    def data_received(self, data: bytes) -> None:
        if data[0] == _HANDSHAKE_RECORD:
            self._begin_tls(data)
        elif data[:1].isalpha():
            self._transport.write(_PLAIN_ANSWER)
            with contextlib.suppress(OSError):  # the client has just reset the connection
                self._transport.write_eof()
            self._transport.pause_reading()
            self._start_timer(bounds.LINGER_SECONDS)
        else:
            self.abort()

    def finish(self) -> None:
        """Stop counting this connection: it is lost, or the protocol of its requests takes over."""
        self._cancel_timer()
        self._slots.remove(self)
        self._server_state.connections.discard(self)

    def is_sending(self) -> bool:
        return False

    def abort(self) -> None:
        self._transport.abort()

    def shutdown(self) -> None:
        """End the connection at a shutdown of the server."""
        self.abort()

    def _begin_tls(self, data: bytes) -> None:
        active = self._live.active
        context, config = active.context, active.config.tls
        assert context is not None
        assert config is not None
        requests = _SecureProtocol(
            **self._more,
            server_state=self._server_state,
            slots=self._slots,
            raw=self._transport,
            tls=config,
            on_ready=self.finish,
        )
        tls = _Tls(self._transport, requests, context, self.finish)
        self._transport.set_protocol(tls)
        tls.connection_made(self._transport)
        _feed(tls, data, self._transport)

    def _start_timer(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _SecureProtocol(LimitedProtocol):
    """Requests over TLS. raw: the transport below TLS, whose buffer a client that receives nothing fills."""

    def __init__(
        self,
        *,
        raw: asyncio.Transport,
        tls: TlsConfig,
        on_ready: Callable[[], None],
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._raw, self._tls, self._on_ready = raw, tls, on_ready
        self._raw_is_paused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._on_ready()
        super().connection_made(transport)
        transport.set_write_buffer_limits(bounds.UNSENT_BYTES)
        if not self._is_allowed(transport.get_extra_info("peercert") or {}):
            self.abort()

    def _is_allowed(self, certificate: dict[str, Any]) -> bool:
        """Whether a client's verified certificate, empty if it has none, has one of the allowed names."""
        names = self._tls.allowed_sans
        if names is None or (not certificate and self._tls.client_auth != "required"):
            return True
        return not names.isdisjoint(_names(certificate))

    def unsent_bytes(self) -> int:
        return super().unsent_bytes() + self._raw.get_write_buffer_size()

    def shutdown(self) -> None:
        super().shutdown()
        if self._raw_is_paused:
            self.abort()

    # The stall timer follows the transport below TLS; above it, only the application waits.
    def pause_writing(self) -> None:
        HttpToolsProtocol.pause_writing(self)

    def resume_writing(self) -> None:
        HttpToolsProtocol.resume_writing(self)

    def pause_raw(self) -> None:
        """Note that the client receives less than is sent to it."""
        self._raw_is_paused = True
        self._start_stall_timer(self.unsent_bytes())

    def resume_raw(self) -> None:
        """Note that the client has received most of what was sent to it."""
        self._raw_is_paused = False
        self._cancel_stall_timer()


class _Tls(SSLProtocol):
    """asyncio's TLS. on_lost: called when the connection ends, with or without a complete handshake."""

    max_size = 16 * 1024
    """Bytes of a buffer for each connection, which asyncio allocates at once; 256 kB by default. As much as a record of
    TLS holds."""

    def __init__(
        self, raw: asyncio.Transport, requests: _SecureProtocol, context: ssl.SSLContext, on_lost: Callable[[], None]
    ) -> None:
        limits: dict[str, Any] = {"ssl_handshake_timeout": bounds.HANDSHAKE_SECONDS}
        if sys.version_info >= (3, 11):
            limits["ssl_shutdown_timeout"] = bounds.LINGER_SECONDS
        loop = asyncio.get_running_loop()
        super().__init__(loop, requests, context, None, server_side=True, **limits)  # type: ignore[arg-type]
        self._raw, self._requests, self._on_lost = raw, requests, on_lost
        self._unsent = sys.maxsize

    def connection_lost(self, exc: BaseException | None) -> None:
        self._on_lost()
        super().connection_lost(exc)
        self._requests.parser = None  # type: ignore[assignment]  # each refers to the other
        del self._requests, self._on_lost  # they refer to this object

    def pause_writing(self) -> None:
        super().pause_writing()
        self._requests.pause_raw()

    def resume_writing(self) -> None:
        self._requests.resume_raw()
        super().resume_writing()

    def _check_shutdown_timeout(self) -> None:
        """Let a slow client receive the rest of a response, which asyncio would discard, as long as it receives."""
        unsent = self._requests.unsent_bytes()
        if 0 < unsent < self._unsent:
            self._unsent = unsent
            loop = asyncio.get_running_loop()
            self._shutdown_timeout_handle = loop.call_later(bounds.STALLED_SECONDS, self._check_shutdown_timeout)
        else:
            super()._check_shutdown_timeout()  # type: ignore[misc]

    def _fatal_error(self, exc: BaseException, message: str = "TLS failed") -> None:
        """Send the alert that says why, which asyncio forgets, before the connection is closed."""
        alert = getattr(getattr(self, "_sslpipe", self), "_outgoing", None)  # of the pipe: Python 3.10
        if isinstance(exc, ssl.SSLError) and alert is not None and not self._raw.is_closing():
            self._raw.write(alert.read())
        super()._fatal_error(exc, message)


def _feed(tls: SSLProtocol, data: bytes, transport: asyncio.Transport) -> None:
    """Hand over bytes that were received before TLS began."""
    if not isinstance(tls, asyncio.BufferedProtocol):  # Python 3.10
        tls.data_received(data)
        return
    view = memoryview(data)
    while view and not transport.is_closing():
        buffer = memoryview(tls.get_buffer(len(view)))
        count = min(len(buffer), len(view))
        buffer[:count] = view[:count]
        tls.buffer_updated(count)
        view = view[count:]


def _names(certificate: dict[str, Any]) -> set[str]:
    """The Subject Alternative Names of a verified certificate, with IP addresses as Go writes them."""
    names = set()
    for kind, value in certificate.get("subjectAltName", ()):
        name = str(value)
        if kind == "IP Address":
            with contextlib.suppress(ValueError):
                name = str(ipaddress.ip_address(name.strip()))
        names.add(name)
    return names
