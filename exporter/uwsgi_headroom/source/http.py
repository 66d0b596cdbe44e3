"""Reads a stats server that speaks HTTP (`stats-http`). h11, which our own web server also uses, parses the answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from functools import cache

import h11

from uwsgi_headroom import __version__
from uwsgi_headroom.errors import AccessError, SourceError
from uwsgi_headroom.source.address import Http, HttpAccess
from uwsgi_headroom.source.stream import AddressInfo, Answer, Share, connect_tcp, exchange_over_tls, receive

_HEAD_BYTES = 8 * 1024
"""The largest head (status line and headers) of an answer. nginx has the same limit for servers behind it. h11 parses
on the event loop and needs 5 µs for each header: 64 kB of short headers took 100 ms."""

_ACCESS = {
    401: "the server asks for a login, or for another one (HTTP status 401)",
    403: "the server refuses access (HTTP status 403)",
    429: "the server has had too many requests or wrong passwords from here (HTTP status 429): wait a minute",
}

_SPEAKS_TLS = (b"HTTP request to an HTTPS server", b"plain HTTP request was sent to HTTPS port")
"""What Go's servers, this exporter and nginx answer to plain HTTP at a port that has TLS."""

_MOST_INFORMATIONAL = 3
"""The most 1xx answers accepted before the real one. A proxy may send one; uWSGI sends none."""


async def read_http(address: Http, addresses: Sequence[AddressInfo], share: Share) -> Answer:
    """GET the document. Raises OSError, NoRoomError, or SourceError unless the answer is a plain 200."""
    share.cap += _HEAD_BYTES
    connection = h11.Connection(h11.CLIENT)
    wire = _request(connection, address)
    access = address.access or HttpAccess()
    context = access.context or _tls_context() if address.tls else None
    sock = await connect_tcp(addresses)
    try:
        peer = sock.getpeername()[:2]
        if context:
            received = await exchange_over_tls(sock, context, access.server_name or address.host, wire, share)
        else:
            await asyncio.get_running_loop().sock_sendall(sock, wire)
            received = await receive(sock, share)
    finally:
        sock.close()
    return Answer(_body(connection, received.body), received.transfer_seconds, peer=peer)


@cache
def _tls_context() -> ssl.SSLContext:
    """The TLS context, created once: loading the certificates that this host trusts takes 30 ms."""
    return ssl.create_default_context()


def _request(connection: h11.Connection, address: Http) -> bytes:
    """The request, small enough for one write: uWSGI answers after a single read of at most 4 kB and resets the
    connection of a client that sends more.

    The version is HTTP/1.0, so that a proxy in between does not send chunks: in the worst case, a chunked document
    costs one iteration of the parser per byte.
    """
    access = address.access
    authorization = [("Authorization", access.authorization)] if access and access.authorization else []
    request = h11.Request(
        method="GET",
        target=address.target,
        headers=[
            ("Host", address.netloc),
            ("Accept", "application/json"),
            ("User-Agent", f"uwsgi-headroom/{__version__}"),
            ("Connection", "close"),
            *authorization,
        ],
    )
    wire = (connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b"")
    return wire.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)


def _body(connection: h11.Connection, received: bytes) -> bytes:
    """The document in an answer. h11 parses only the head; the document is the rest, of the length in the head."""
    if not received:
        raise SourceError("empty", "the server closed the connection without an answer")
    top = received[:_HEAD_BYTES]
    if top.lstrip()[:1] == b"{":
        raise SourceError("http", "the answer is not HTTP: for a raw stats server write tcp://host:port")
    if any(words in top for words in _SPEAKS_TLS) and not top.startswith(b"HTTP/1.1 200"):
        raise AccessError("http", "the server speaks TLS here: write https://")
    connection.receive_data(top)
    if len(top) == len(received):
        connection.receive_data(b"")
    headers = dict(_read_head(connection).headers)
    if b"transfer-encoding" in headers:
        raise SourceError(
            "http", "the HTTP answer has a Transfer-Encoding, which uWSGI never uses: give uWSGI's own address"
        )
    unread, _ended = connection.trailing_data
    body = received[len(top) - len(unread) :]
    length = int(headers.get(b"content-length", len(body)))
    if len(body) < length:
        raise SourceError("truncated", "the HTTP answer is shorter than its Content-Length")
    return body[:length]


def _read_head(connection: h11.Connection) -> h11.Response:
    try:
        for _ in range(_MOST_INFORMATIONAL + 1):
            event = connection.next_event()
            if isinstance(event, h11.Response):
                if event.status_code in _ACCESS:
                    raise AccessError("permission", _ACCESS[event.status_code])
                if event.status_code != 200:
                    raise SourceError(
                        "http",
                        f"the server answered with HTTP status {event.status_code}, not 200: an application's port "
                        "(`http-socket`) is not a stats server",
                    )
                return event
            if not isinstance(event, h11.InformationalResponse):
                break
    except (h11.RemoteProtocolError, ValueError):  # ValueError: h11 0.14 calls int() on a length of too many digits
        pass  # h11's message may quote the answer, which may hold requests
    raise SourceError("http", "the answer is not HTTP: http:// is for uWSGI with stats-http")
