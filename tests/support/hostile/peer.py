"""The server's side of a connection, and the type of behaviours."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

REQUEST_BYTES = 4096
"""uWSGI reads a request with a single read of this size."""


class Peer:
    """A client. number: its index at this address, from 0. Methods raise OSError if the client has left."""

    def __init__(self, connection: socket.socket, number: int) -> None:
        self.connection = connection
        self.number = number

    async def send(self, data: bytes) -> None:
        """Sends all of `data`, as fast as the client reads."""
        await asyncio.get_running_loop().sock_sendall(self.connection, data)

    async def receive_request(self) -> None:
        """Waits for the client's request, which the exporter sends in one piece."""
        await asyncio.get_running_loop().sock_recv(self.connection, REQUEST_BYTES)

    async def hold(self) -> None:
        """Keeps the connection idle until all servers end."""
        await asyncio.Event().wait()

    def reset(self) -> None:
        """Makes the connection end with a reset. Data that the client has not received yet is lost."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close_sending_side(self) -> None:
        """Sends the end of the stream, and keeps the connection."""
        self.connection.shutdown(socket.SHUT_WR)


Behaviour = Callable[[Peer], Awaitable[None]]
"""The behaviour of a server on a connection, which is closed when the function returns."""

Body = Callable[[int], bytes]
"""Returns the document for a connection, by its number."""
