"""Receives from a connected stream socket until the end of the stream, with or without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
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


async def receive(sock: socket.socket, size_cap: int, deadline: float | None = None) -> Received:
    """Receive to the end of the stream.

    Raises OSError, asyncio.TimeoutError after `deadline` (the loop's time), or SourceError past `size_cap` bytes.
    """
    loop = asyncio.get_running_loop()
    receiving = _Receiving(sock, size_cap, loop.create_future())
    timer = None if deadline is None else loop.call_at(deadline, receiving.time_out)
    descriptor = sock.fileno()
    loop.add_reader(descriptor, receiving.receive)
    try:
        return await receiving.result
    finally:
        loop.remove_reader(descriptor)
        if timer:
            timer.cancel()


_CHUNKS_AT_ONCE = 4
"""Then other tasks have their turn."""


class _Receiving:
    """Receives from a socket whenever it has data. One callback for the whole stream, rather than one for each chunk,
    takes a third less time."""

    def __init__(self, sock: socket.socket, size_cap: int, result: asyncio.Future[Received]) -> None:
        self._sock = sock
        self._parts = _Parts(size_cap)
        self.result = result

    def time_out(self) -> None:
        """End with a TimeoutError, unless it has ended."""
        if not self.result.done():
            self.result.set_exception(asyncio.TimeoutError())

    def receive(self) -> None:
        if self.result.done():  # cancelled in this turn of the loop
            return
        try:
            for _ in range(_CHUNKS_AT_ONCE):
                if not self._parts.add(self._sock.recv(_CHUNK)):
                    self.result.set_result(self._parts.join())
                    return
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionResetError as error:
            if self._parts.chunks:
                self.result.set_result(self._parts.join())
            else:
                self.result.set_exception(error)
        except (OSError, SourceError) as error:
            self.result.set_exception(error)


async def exchange_over_tls(
    sock: socket.socket, context: ssl.SSLContext, host: str, request: bytes, size_cap: int
) -> Received:
    """Send a request to the server that has a certificate for `host`, and receive to the end of the stream.

    Raises OSError, or SourceError past `size_cap` bytes.
    """
    reader, writer = await asyncio.open_connection(sock=sock, ssl=context, server_hostname=host)
    try:
        writer.write(request)
        parts = _Parts(size_cap)
        try:
            while parts.add(await reader.read(_CHUNK)):
                pass
        except ConnectionResetError:
            if not parts.chunks:
                raise
        return parts.join()
    finally:
        writer.transport.abort()  # close() would wait for a peer that may never answer


class _Parts:
    """The parts of one answer, as they arrive.

    uWSGI resets the connection after a complete document if the client sent bytes that uWSGI did not read. So a reset
    after some part is an end: the decoder checks whether the document is complete.
    """

    def __init__(self, size_cap: int) -> None:
        self.chunks: list[bytes] = []
        self._began: float | None = None
        self._room = size_cap

    def add(self, chunk: bytes) -> bool:
        """Add a part; False at the end of the stream. Raises SourceError if the answer is too large."""
        if not chunk:
            return False
        self._began = self._began or time.monotonic()
        self.chunks.append(chunk)
        self._room -= len(chunk)
        if self._room < 0:
            raise SourceError(
                "too_large",
                "the answer is larger than the cap: raise `size_cap`, or run uWSGI with stats-no-cores",
            )
        return True

    def join(self) -> Received:
        """The whole answer, and the time from its first part until now."""
        return Received(b"".join(self.chunks), time.monotonic() - self._began if self._began else 0.0)
