"""Sockets that listen, opened by a test."""

import socket


def listening(address: str | bytes | tuple[str, int], limit: int = 9, *, shared: bool = False) -> socket.socket:
    """Listens at a path, an abstract name, or a host and port. limit: of its queue; shared: with SO_REUSEPORT."""
    family = socket.AF_UNIX
    if isinstance(address, tuple):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    server = socket.socket(family)
    if shared:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(address)
    server.listen(limit)
    return server
