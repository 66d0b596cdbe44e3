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

_HEAD_ROOM = 64 * 1024  # beside the document: a status line and headers, for which h11 has a smaller cap of its own


async def read_http(address: Http, addresses: Sequence[AddressInfo], size_cap: int) -> Answer:
    """GET the document. Raises OSError, or SourceError for whatever is not a plain 200."""
    connection = h11.Connection(h11.CLIENT)
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
    # One small write: uWSGI answers after a single read of at most 4 kB and resets whoever sends more.
    wire = (connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b"")
    context = _tls_context() if address.tls else None
    sock = await connect_tcp(addresses)
    try:
        peer = sock.getpeername()[:2]
        if context:
            received = await exchange_over_tls(sock, context, address.host, wire, size_cap + _HEAD_ROOM)
        else:
            await asyncio.get_running_loop().sock_sendall(sock, wire)
            received = await receive(sock, size_cap + _HEAD_ROOM)
    finally:
        sock.close()
    return Answer(_body(connection, received.body), received.transfer_seconds, peer=peer)


@cache
def _tls_context() -> ssl.SSLContext:
    """Made once: it reads every certificate that this host trusts, which takes 30 ms."""
    return ssl.create_default_context()


def _body(connection: h11.Connection, received: bytes) -> bytes:
    if not received:
        raise SourceError("empty", "the server closed the connection without a word")
    if received.lstrip()[:1] == b"{":
        raise SourceError("http", "this answers without HTTP: a raw stats server is read with tcp://host:port")
    connection.receive_data(received)
    connection.receive_data(b"")
    chunks: list[bytes] = []
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response) and event.status_code != 200:
                raise SourceError("http", f"the server answered HTTP status {event.status_code}, not 200")
            if isinstance(event, h11.Data):
                chunks.append(bytes(event.data))
            if isinstance(event, h11.EndOfMessage):
                return b"".join(chunks)
            if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                raise SourceError("truncated", "the HTTP answer ends in the middle")
    except h11.RemoteProtocolError as error:
        # Its words may quote what came, which is nobody's business: it may be a document.
        if "without sending complete" in str(error):
            raise SourceError("truncated", "the HTTP answer ends in the middle") from None
        raise SourceError("http", "this is not an HTTP answer: http:// is for a uWSGI with stats-http") from None
