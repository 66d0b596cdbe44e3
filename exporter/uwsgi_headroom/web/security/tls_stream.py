"""The server's side of TLS on one connection, from its first byte; does no I/O.

It uses `ssl.MemoryBIO`, not the TLS of `loop.create_server(ssl=...)`, which keeps one context for the life of a
listener, shows a connection only after its handshake, and takes 256 kB for each. Here a connection counts, and has its
time limit, from the beginning, and takes the context that is in force at its first byte.
"""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
from typing import Any

from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.security.live_config import LiveConfig
from uwsgi_headroom.web.security.web_config_file import TlsConfig

_HANDSHAKE_RECORD = 0x16
"""The first byte of every TLS connection (RFC 8446, 5.1)."""

_PLAIN_SENTENCE = "Client sent an HTTP request to an HTTPS server."
_PLAIN_ANSWER = (
    "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    f"{_PLAIN_SENTENCE}\n"
).encode()


class TlsEndedError(Exception):
    """The connection ends. answer: bytes to send before, as they are."""

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__()
        self.answer = answer


class TlsStream:
    """Turns bytes of the network into bytes of HTTP, and back."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self.is_ready = False
        """Whether the handshake is complete."""

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the bytes of HTTP in the bytes from the network, and bytes to send. Raises TlsEndedError."""
        tls = self._tls or self._begin(data[0])
        self._incoming.write(data)
        plain = []
        try:
            if not self.is_ready:
                tls.do_handshake()
                self.is_ready = True
                if not _is_allowed(tls.getpeercert() or {}, self._config):
                    raise TlsEndedError
            while piece := tls.read(bounds.PIECE_BYTES):
                plain.append(piece)
        except ssl.SSLWantReadError:
            return b"".join(plain), self._outgoing.read()
        except ssl.SSLError:
            raise TlsEndedError(self._outgoing.read()) from None  # the alert that says why
        raise TlsEndedError  # the client has ended TLS

    def encrypt(self, data: bytes) -> bytes:
        """Return bytes of HTTP as bytes of the network. The handshake must be complete."""
        assert self._tls is not None
        self._tls.write(data)
        return self._outgoing.read()

    def end(self) -> bytes:
        """End TLS; return bytes to send, by which the client knows that it has received everything."""
        with contextlib.suppress(ssl.SSLError):  # the client's own end is not waited for
            if self._tls and self.is_ready:
                self._tls.unwrap()
        return self._outgoing.read()

    def _begin(self, first: int) -> ssl.SSLObject:
        if first != _HANDSHAKE_RECORD:
            raise TlsEndedError(_PLAIN_ANSWER if chr(first).isascii() and chr(first).isalpha() else b"")
        active = self._live.active
        assert active.context is not None
        assert active.config.tls is not None
        self._config = active.config.tls
        self._tls = active.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return self._tls


def _is_allowed(certificate: dict[str, Any], config: TlsConfig) -> bool:
    """Whether a client's verified certificate, empty if it has none, has one of the allowed names."""
    names = config.allowed_sans
    if names is None or (not certificate and config.client_auth != "required"):
        return True
    return not names.isdisjoint(_names(certificate))


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
