"""Connects to stats servers on UNIX sockets and over TCP, and reads raw ones to the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import Callable, Sequence

from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source.address import Unix
from uwsgi_headroom.source.receive import Answer, close_sending_side, receive
from uwsgi_headroom.source.resolve import AddressInfo

# connect() to a UNIX listener whose backlog is full fails immediately instead of queueing (connect(2), EAGAIN).
_BACKLOG_FULL_RETRY_SECONDS = 0.02


async def read_unix(address: Unix, size_cap: int, on_connected: Callable[[int], None] = lambda _pid: None) -> Answer:
    """Read a UNIX stats server to the end. Calls `on_connected` with the pid of the listening process.

    Raises OSError or SourceError.
    """
    if not address.path.startswith("@") and not stat.S_ISSOCK(os.stat(address.path).st_mode):
        raise SourceError("not_found", f"{address.path} is not a socket: give the path of uWSGI's `stats` option")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await _connect_to_first(sock, address.sockaddrs)
        peer_pid, _uid, _gid = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        on_connected(peer_pid)
        close_sending_side(sock)
        return Answer(*await receive(sock, size_cap), peer_pid=peer_pid)
    finally:
        sock.close()


async def _connect_to_first(sock: socket.socket, sockaddrs: tuple[str, ...]) -> None:
    """Connect to the first address that does not refuse: an abstract name has two forms, a path has one."""
    *others, last = sockaddrs
    for sockaddr in others:
        with contextlib.suppress(ConnectionRefusedError):
            await _connect(sock, sockaddr)
            return
    await _connect(sock, last)


async def _connect(sock: socket.socket, sockaddr: str) -> None:
    # asyncio mistakes the EAGAIN of a full backlog for a connection in progress and would read an unconnected socket.
    while True:
        try:
            return sock.connect(sockaddr)
        except BlockingIOError:
            await asyncio.sleep(_BACKLOG_FULL_RETRY_SECONDS)


# If this process is paused, uWSGI's master can still finish its write into this buffer, as far as net.core.rmem_max
# allows: on loopback it could write 12.5 MB, and 4.3 MB with the default buffer.
_RECEIVE_BUFFER = 4 * 1024 * 1024


async def read_tcp(addresses: Sequence[AddressInfo], size_cap: int) -> Answer:
    """Read a raw TCP stats server to the end. Raises OSError or SourceError."""
    sock = await connect_tcp(addresses)
    try:
        peer = sock.getpeername()[:2]
        close_sending_side(sock)
        return Answer(*await receive(sock, size_cap), peer=peer)
    finally:
        sock.close()


async def connect_tcp(addresses: Sequence[AddressInfo]) -> socket.socket:
    """Connect to the first of these addresses that answers. Raises OSError."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for family, kind, protocol, _name, sockaddr in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)  # before connect: it sets the window
            await loop.sock_connect(sock, sockaddr)
            return sock
        except OSError as error:
            failure = error
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise failure or OSError("the name has no address")
