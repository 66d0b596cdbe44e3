"""Receives from a connected stream socket until the end of the stream, with or without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from uwsgi_headroom.errors import SourceError


@dataclass(frozen=True, slots=True)
class Answer:
    """One document.

    transfer_seconds: time from the first byte of the document to its last.
    peer_pid: the listening process, in this process's PID namespace (UNIX sockets only).
    peer: IP address and port of the server (TCP only).
    """

    body: bytes
    transfer_seconds: float = 0.0
    peer_pid: int | None = None
    peer: tuple[str, int] | None = None


_CHUNK = 256 * 1024  # a UNIX socket buffers 219,264 bytes: one call empties it


class Received(NamedTuple):
    """The bytes received, and the seconds from the first byte to the last."""

    body: bytes
    transfer_seconds: float


def close_sending_side(sock: socket.socket) -> None:
    """Shut down the sending side, which announces that no request will come.

    A raw server ignores this. Without it, the master of a server with stats-http, addressed as raw by mistake, would
    block for four seconds and wait for a request.
    """
    with contextlib.suppress(OSError):  # the server has already closed the connection
        sock.shutdown(socket.SHUT_WR)


async def receive(sock: socket.socket, size_cap: int) -> Received:
    """Receive to the end of the stream. Raises OSError, or SourceError past `size_cap` bytes."""
    loop = asyncio.get_running_loop()
    return await _receive_all(lambda: loop.sock_recv(sock, _CHUNK), size_cap)


async def exchange_over_tls(
    sock: socket.socket, context: ssl.SSLContext, host: str, request: bytes, size_cap: int
) -> Received:
    """Send a request to the server that has a certificate for `host`, and receive to the end of the stream.

    Raises OSError, or SourceError past `size_cap` bytes.
    """
    reader, writer = await asyncio.open_connection(sock=sock, ssl=context, server_hostname=host)
    try:
        writer.write(request)
        return await _receive_all(lambda: reader.read(_CHUNK), size_cap)
    finally:
        writer.transport.abort()  # close() would wait for a peer that may never answer


async def _receive_all(read: Callable[[], Awaitable[bytes]], size_cap: int) -> Received:
    chunks: list[bytes] = []
    began = None
    room = size_cap
    try:
        while chunk := await read():
            began = began or time.monotonic()
            chunks.append(chunk)
            room -= len(chunk)
            if room < 0:
                raise SourceError(
                    "too_large",
                    "the answer is larger than the cap: raise `size_cap`, or run uWSGI with stats-no-cores",
                )
    except ConnectionResetError:
        # uWSGI resets the connection after a complete document if the client sent bytes that uWSGI did not read. The
        # decoder checks whether the document is complete.
        if not chunks:
            raise
    return Received(b"".join(chunks), time.monotonic() - began if began else 0.0)
