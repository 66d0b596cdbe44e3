"""One connection as the server has it, and what a behaviour is."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

REQUEST_BYTES = 4096
"""uWSGI takes a request with a single read of so many bytes."""


class Peer:
    """A client, the `number`th of its address, from 0. Raises OSError where the client has left."""

    def __init__(self, connection: socket.socket, number: int) -> None:
        self.connection = connection
        self.number = number

    async def send(self, data: bytes) -> None:
        """Send all of it, as fast as the client takes it."""
        await asyncio.get_running_loop().sock_sendall(self.connection, data)

    async def receive_request(self) -> None:
        """Wait for the client's request. The exporter sends it in one piece."""
        await asyncio.get_running_loop().sock_recv(self.connection, REQUEST_BYTES)

    async def hold(self) -> None:
        """Keep the connection and do nothing, until all servers end."""
        await asyncio.Event().wait()

    def reset(self) -> None:
        """Make the end of the connection a reset. What the client has not received yet is lost."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close_sending_side(self) -> None:
        """Send the end of the stream, and keep the connection."""
        self.connection.shutdown(socket.SHUT_WR)


Behaviour = Callable[[Peer], Awaitable[None]]
"""What a server does with a connection, which is closed when it returns."""

Body = Callable[[int], bytes]
"""The document of the so-manyth connection."""
