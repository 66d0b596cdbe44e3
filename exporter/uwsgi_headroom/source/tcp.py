"""Reads a raw stats server over TCP, and connects to any server over TCP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from uwsgi_headroom.source.answer import Answer
from uwsgi_headroom.source.receive import close_sending_side, receive
from uwsgi_headroom.source.resolve import AddressInfo

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
