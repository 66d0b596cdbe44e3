"""Reading a stats server that speaks HTTP (`stats-http`). The grammar is h11's, the same that our own server uses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from functools import cache

import h11

from uwsgi_headroom import __version__
from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source.address import Http
from uwsgi_headroom.source.answer import Answer
from uwsgi_headroom.source.receive import exchange_over_tls, receive
from uwsgi_headroom.source.resolve import AddressInfo
from uwsgi_headroom.source.tcp import connect_tcp

_HEAD_BYTES = 8 * 1024
"""The most that may stand before the document: a status line and headers. nginx takes no more of what it proxies, and
h11 needs 5 µs for each header, on the event loop: 64 kB of short ones took it 100 ms."""

_MOST_INFORMATIONAL = 3
"""Answers of status 1xx before the real one. A proxy may send one; uWSGI sends none."""


async def read_http(address: Http, addresses: Sequence[AddressInfo], size_cap: int) -> Answer:
    """GET the document. Raises OSError, or SourceError for whatever is not a plain 200."""
    connection = h11.Connection(h11.CLIENT)
    wire = _request(connection, address)
    context = _tls_context() if address.tls else None
    sock = await connect_tcp(addresses)
    try:
        peer = sock.getpeername()[:2]
        if context:
            received = await exchange_over_tls(sock, context, address.host, wire, size_cap + _HEAD_BYTES)
        else:
            await asyncio.get_running_loop().sock_sendall(sock, wire)
            received = await receive(sock, size_cap + _HEAD_BYTES)
    finally:
        sock.close()
    return Answer(_body(connection, received.body), received.transfer_seconds, peer=peer)


@cache
def _tls_context() -> ssl.SSLContext:
    """Made once: it reads every certificate that this host trusts, which takes 30 ms."""
    return ssl.create_default_context()


def _request(connection: h11.Connection, address: Http) -> bytes:
    """The request, in one small write: uWSGI answers after a single read of at most 4 kB and resets what sends more.

    Its version is 1.0, so that a proxy in between sends the document as it is: in chunks, which HTTP/1.1 allows it,
    each byte of a document may cost a turn of a parser.
    """
    request = h11.Request(
        method="GET",
        target=address.target,
        headers=[
            ("Host", address.netloc),
            ("Accept", "application/json"),
            ("User-Agent", f"uwsgi-headroom/{__version__}"),
            ("Connection", "close"),
        ],
    )
    wire = (connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b"")
    return wire.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)


def _body(connection: h11.Connection, received: bytes) -> bytes:
    """The document in an answer. h11 reads the head alone; the document is the rest, as long as the head says."""
    if not received:
        raise SourceError("empty", "the server closed the connection without a word")
    top = received[:_HEAD_BYTES]
    if top.lstrip()[:1] == b"{":
        raise SourceError("http", "this answers without HTTP: a raw stats server is read with tcp://host:port")
    connection.receive_data(top)
    if len(top) == len(received):
        connection.receive_data(b"")
    headers = dict(_read_head(connection).headers)
    if b"transfer-encoding" in headers:
        raise SourceError("http", "the HTTP answer has a Transfer-Encoding, which uWSGI never uses: read it directly")
    unread, _ended = connection.trailing_data
    body = received[len(top) - len(unread) :]
    length = int(headers.get(b"content-length", len(body)))
    if len(body) < length:
        raise SourceError("truncated", "the HTTP answer ends in the middle")
    return body[:length]


def _read_head(connection: h11.Connection) -> h11.Response:
    try:
        for _ in range(_MOST_INFORMATIONAL + 1):
            event = connection.next_event()
            if isinstance(event, h11.Response):
                if event.status_code != 200:
                    raise SourceError(
                        "http",
                        f"the server answered HTTP status {event.status_code}, not 200: an application's port "
                        "(`http-socket`) is no stats server",
                    )
                return event
            if not isinstance(event, h11.InformationalResponse):
                break
    except (h11.RemoteProtocolError, ValueError):  # h11 0.14 makes an int of a length of any number of digits
        pass  # its words may quote what came, which is nobody's business: it may be a document
    raise SourceError("http", "this is not an HTTP answer: http:// is for a uWSGI with stats-http")
