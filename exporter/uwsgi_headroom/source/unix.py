"""Reads a raw stats server on a UNIX socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import Callable

from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source.address import Unix
from uwsgi_headroom.source.answer import Answer
from uwsgi_headroom.source.receive import close_sending_side, receive

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
