"""Ports of 127.0.0.1, and GET requests to them."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
from pathlib import Path

_LOWEST = 10_240
_TRIES = 100


def address(port: int) -> str:
    """Returns `127.0.0.1:port`, as options and URLs need it."""
    return f"127.0.0.1:{port}"


def get(port: int, path: str, timeout: float = 5) -> str | None:
    """Returns the body of a GET if the status is 200, else None. timeout: seconds to wait for each read."""
    # Not urllib: it would use a proxy that is set in the environment.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
        return body if response.status == 200 else None
    return None


def server_ports() -> range:
    """Returns the TCP ports that the kernel gives neither to clients nor to servers that ask it for any port.

    Nobody takes one of them by chance between the moment in which it is chosen and that in which a server listens.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        return range(_LOWEST, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))
    return range(0)


def free_port(preferred: int = 0) -> int:
    """Returns a TCP port that is free now: the preferred one if possible, else one of the server ports if possible."""
    ports = server_ports()
    for port in (preferred, *random.sample(ports, min(_TRIES, len(ports)))):
        with contextlib.suppress(OSError):
            if port:
                return _bound(port)
    return _bound(0)


def free_ports(count: int) -> tuple[int, ...]:
    """Returns `count` different ports that are free now. Two calls of `free_port` may return the same one."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return tuple(ports)


def why_taken(port: int) -> str | None:
    """Returns the reason why the port cannot be listened on, or None if it can."""
    try:
        _bound(port)
    except (OSError, OverflowError) as error:
        return str(error)
    return None


def _bound(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, for a port that was just closed
        probe.bind(("127.0.0.1", port))
        bound: int = probe.getsockname()[1]
        return bound
