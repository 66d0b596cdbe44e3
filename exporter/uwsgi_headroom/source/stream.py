"""Reading a stream socket to its end: UNIX and TCP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import stat
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from uwsgi_headroom.errors import Reason, SourceError
from uwsgi_headroom.source.address import Tcp, Unix

# Where the kernel lets us (net.core.rmem_max), a reader that is paused leaves uWSGI's master this much room to
# finish its write in: measured on loopback, 12.5 MB against 4.3 MB with the default.
_TCP_RECEIVE_BUFFER = 4 * 1024 * 1024

# A UNIX listener whose backlog is full refuses at once instead of queueing the connection (connect(2), EAGAIN).
_BACKLOG_FULL_RETRY_SECONDS = 0.02


_CHUNK = 256 * 1024  # a UNIX socket holds 219,264 bytes: one call empties it


@dataclass(frozen=True, slots=True)
class TlsTarget:
    """TLS with whoever has a certificate for `host`."""

    context: ssl.SSLContext
    host: str


_AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Answer:
    """One document. `peer_pid` is the process that listens, as this process sees it (UNIX sockets only);
    `peer` the address it was reached at (TCP only)."""

    body: bytes
    peer_pid: int | None = None
    peer: tuple[str, int] | None = None


async def read_unix(address: Unix, size_cap: int) -> Answer:
    """Read a UNIX stats server to the end. Raises OSError or SourceError."""
    if not address.path.startswith("@") and not stat.S_ISSOCK(os.stat(address.path).st_mode):
        raise SourceError("not_found", f"{address.path} is not a socket: give the path of uWSGI's `stats` option")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        try:
            await _connect_unix(sock, address.sockaddrs[0])
        except ConnectionRefusedError:
            await _connect_unix(sock, address.sockaddrs[-1])
        peer_pid, _uid, _gid = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        _close_sending_side(sock)
        return Answer(await receive(sock, size_cap), peer_pid=peer_pid)
    finally:
        sock.close()


async def _connect_unix(sock: socket.socket, sockaddr: str) -> None:
    # asyncio takes the EAGAIN of a full backlog for a connection under way, and would read from nothing.
    while True:
        try:
            return sock.connect(sockaddr)
        except BlockingIOError:
            await asyncio.sleep(_BACKLOG_FULL_RETRY_SECONDS)


async def read_tcp(address: Tcp, size_cap: int) -> Answer:
    """Read a raw TCP stats server to the end. Raises OSError or SourceError."""
    sock = await connect_tcp(address.host, address.port)
    try:
        peer = sock.getpeername()[:2]
        _close_sending_side(sock)
        return Answer(await receive(sock, size_cap), peer=peer)
    finally:
        sock.close()


def _close_sending_side(sock: socket.socket) -> None:
    """Tell the server at once that no request will come: a raw one does not care, and one with stats-http, which was
    meant to be read with http://, would wait for one with all of its master for four seconds."""
    with contextlib.suppress(OSError):  # it has hung up already
        sock.shutdown(socket.SHUT_WR)


async def connect_tcp(host: str, port: int) -> socket.socket:
    """Connect to the first address of `host` that answers. Raises OSError."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for family, kind, protocol, _name, sockaddr in await _addresses(host, port):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, _TCP_RECEIVE_BUFFER
            )  # before connect: it sets the window
            await loop.sock_connect(sock, sockaddr)
            return sock
        except OSError as error:
            failure = error
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise failure or OSError(f"no address for {host}")


async def _addresses(host: str, port: int) -> Sequence[_AddressInfo]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        # A resolver may hang for half a minute in one of the few threads there are; a number must not wait for one.
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def receive(sock: socket.socket, size_cap: int, *, send: bytes = b"", tls: TlsTarget | None = None) -> bytes:
    """Send `send`, if any, and receive to the end of the stream. Raises OSError, or SourceError past `size_cap`."""
    loop = asyncio.get_running_loop()
    if tls:
        reader, writer = await asyncio.open_connection(sock=sock, ssl=tls.context, server_hostname=tls.host)
        try:
            writer.write(send)
            return await _receive_all(lambda: reader.read(_CHUNK), size_cap)
        finally:
            writer.transport.abort()  # close() would wait for a peer that may never answer
    if send:
        await loop.sock_sendall(sock, send)
    return await _receive_all(lambda: loop.sock_recv(sock, _CHUNK), size_cap)


async def _receive_all(read: Callable[[], Awaitable[bytes]], size_cap: int) -> bytes:
    chunks: list[bytes] = []
    room = size_cap
    try:
        while chunk := await read():
            chunks.append(chunk)
            room -= len(chunk)
            if room < 0:
                raise SourceError(
                    "too_large",
                    "the answer is larger than the cap: raise `size_cap`, or run uWSGI with stats-no-cores",
                )
    except ConnectionResetError:
        # A reset behind a whole document is how uWSGI ends an answer to somebody who sent it bytes it did not read;
        # whether the document is whole, its decoder knows.
        if not chunks:
            raise
    return b"".join(chunks)


def explain_os_error(error: OSError) -> SourceError:
    """The operating system's word as one sentence for an operator: what happened, and what to do."""
    reason: Reason = "unreachable"
    advice = str(error)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        reason, advice = "not_found", "no such file: is uWSGI running, with `stats` set to this path?"
    elif isinstance(error, PermissionError):
        reason = "permission"
        advice = (
            "permission denied: run as uWSGI's user, or set its `chmod-socket` so that this user's group may connect"
        )
    elif isinstance(error, ConnectionRefusedError):
        reason = "refused"
        advice = "connection refused: nothing listens here (uWSGI is stopped, or still loading its application)"
    elif isinstance(error, ConnectionError):
        reason, advice = "truncated", "the server closed the connection before it answered"
    elif isinstance(error, socket.gaierror):
        advice = f"the name does not resolve ({error.strerror})"
    return SourceError(reason, advice)
