"""127.0.0.1: ports to listen on, and what is served there."""

from __future__ import annotations

import contextlib
import http.client
import socket


def address(port: int) -> str:
    """As it is written in options and URLs."""
    return f"127.0.0.1:{port}"


def get(port: int, path: str, timeout: float = 5) -> str | None:
    """The answer to a GET if its status is 200. timeout: seconds of silence after which there is none."""
    # Not urllib: that would ask the proxy which the environment may name.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
        return body if response.status == 200 else None
    return None


def free_port(preferred: int = 0) -> int:
    """A TCP port that was free a moment ago: the preferred one, if it was."""
    with contextlib.suppress(OSError):
        return _bound(preferred)
    return _bound(0)


def why_taken(port: int) -> str | None:
    """Why nobody can listen on the port, or nothing if somebody can."""
    try:
        _bound(port)
    except (OSError, OverflowError) as error:
        return str(error)
    return None


def _bound(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, for a port just given up
        probe.bind(("127.0.0.1", port))
        bound: int = probe.getsockname()[1]
        return bound
