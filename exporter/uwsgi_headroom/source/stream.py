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


_CREDENTIALS = struct.Struct("iII")  # PID, uid, gid: struct ucred


async def read_unix(
    address: Unix, size_cap: int, deadline: float, on_connected: Callable[[int], None] = lambda _pid: None
) -> Answer:
    """Read a UNIX stats server to the end, until `deadline` (the loop's time). Calls `on_connected` with the PID of the
    listening process. The path of nearly every sample: it makes no system call and no task that it does not need.

    Raises OSError, asyncio.TimeoutError after the deadline, or SourceError.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        while not _connect_to_first(sock, address):
            if asyncio.get_running_loop().time() > deadline:
                raise asyncio.TimeoutError
            await asyncio.sleep(_BACKLOG_FULL_RETRY_SECONDS)
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        peer_pid: int = _CREDENTIALS.unpack(credentials)[0]
        on_connected(peer_pid)
        close_sending_side(sock)
        body, transfer_seconds = await receive(sock, size_cap, deadline)
        return Answer(body, transfer_seconds, peer_pid)
    finally:
        sock.close()


def _connect_to_first(sock: socket.socket, address: Unix) -> bool:
    """Connect to the first name that does not refuse: an abstract name has two forms, a path has one. False if the
    listener's backlog is full. Raises OSError or SourceError."""
    *others, last = address.sockaddrs
    try:
        for sockaddr in others:
            with contextlib.suppress(ConnectionRefusedError):
                sock.connect(sockaddr)
                return True
        sock.connect(last)
    except BlockingIOError:
        return False
    except ConnectionRefusedError:
        if not address.path.startswith("@") and not stat.S_ISSOCK(os.stat(address.path).st_mode):
            raise SourceError(
                "not_found", f"{address.path} is not a socket: give the path of uWSGI's `stats` option"
            ) from None
        raise
    return True


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
