"""Ports of 127.0.0.1: free ones, the processes that listen on others, and GET requests to them."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
from dataclasses import dataclass
from pathlib import Path

_LOWEST = 10_240
_TRIES = 100


def address(port: int) -> str:
    """Returns `127.0.0.1:port`, as options and URLs need it."""
    return f"127.0.0.1:{port}"


def get(port: int, path: str, timeout: float = 5) -> str | None:
    """The body of a GET if the status is 200, else None. timeout: seconds to wait for each read."""
    # Not urllib: it would use a proxy that is set in the environment.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
        return body if response.status == 200 else None
    return None


def server_ports() -> range:
    """The TCP ports that the kernel gives neither to clients nor to servers that ask it for any port.

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
    """The reason why the port cannot be listened on, or None if it can."""
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


PREFIX = "headroom-demo-"
"""Of the name of a demo's directory, which is TMPDIR for all that it starts; short, because the path of a UNIX socket
holds 107 bytes."""

PROC = Path("/proc")
LISTENING = "0A"  # TCP_LISTEN in /proc/net/tcp


@dataclass(frozen=True)
class Listener:
    """A process that listens. demo: the PID of the demo that started it, if a demo did."""

    pid: int
    name: str
    demo: int | None

    def __str__(self) -> str:
        return f"another demo (process {self.demo})" if self.demo else f"{self.name} (process {self.pid})"


def listener(port: int) -> Listener | None:
    """The process that listens on the port; None if there is none, or it is another user's or just ending."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for folder in PROC.glob("[0-9]*/fd") if sockets else ():
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            if any(str(descriptor.readlink()) in sockets for descriptor in folder.iterdir()):
                return _process(folder.parent)
    return None


def _inodes(port: int) -> set[str]:
    """The inodes of the sockets that listen on the port, on any address."""
    lines = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines += (PROC / "self" / "net" / table).read_text().splitlines()[1:]
    # Fields: 1 address:port in hex, 3 state, 9 inode.
    rows = [line.split() for line in lines]
    return {row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port}


def _process(folder: Path) -> Listener | None:
    variables = (folder / "environ").read_bytes()
    name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
    parent = int(rest.split()[1])
    ours = f"/{PREFIX}".encode() in variables
    return Listener(int(folder.name), name, parent if ours else None) if variables else None
