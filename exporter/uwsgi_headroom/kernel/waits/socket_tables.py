"""Reads the sockets of another network namespace from `/proc/PID/net`, where the exporter may not ask over netlink.

Everybody who sees a process may read these tables. They are slower to read than netlink's answers, and that of UNIX
sockets does not say what a socket is connected to: only listening and accepted ones are known from it.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

_CHUNK = 64 << 10

Address = tuple[bytes, bytes]
"""A port, two bytes, and an IP address of 16 bytes, of which IPv4 uses the first four; in network order."""


class InetSocket(NamedTuple):
    """One TCP or UDP socket that is not listening."""

    inode: int
    near: Address
    far: Address


class InetSockets(NamedTuple):
    """TCP or UDP sockets. listening: the addresses of those that listen, by inode."""

    listening: dict[int, Address]
    others: list[InetSocket]


class UnixSocket(NamedTuple):
    """One UNIX socket, without its other end. name: a path, or @name if it is abstract; empty if it has none."""

    is_listening: bool
    kind: int
    name: str


def read_inet(pid: int, family: int, protocol: int, inodes: Collection[int], end: float) -> InetSockets | None:
    """All listening sockets of a family (socket.AF_INET, AF_INET6) and protocol (socket.IPPROTO_TCP, IPPROTO_UDP), and
    the others with these inodes; None if the monotonic time `end` came before all listening ones were read. Raises
    OSError, or ValueError if the table is odd."""
    name = ("tcp" if protocol == socket.IPPROTO_TCP else "udp") + ("6" if family == socket.AF_INET6 else "")
    found = InetSockets({}, [])
    has_all_listening = False  # the kernel lists them first
    for line in _read_lines(f"/proc/{pid}/net/{name}", end):
        if line is None:
            return found if has_all_listening else None
        fields = line.split(None, 10)
        if len(fields) < 10 or not fields[9].isdigit():
            continue  # the head
        inode = int(fields[9])
        if fields[3] == _TCP_LISTEN:
            found.listening[inode] = _address(fields[1])
            continue
        has_all_listening = True
        if inode in inodes:
            found.others.append(InetSocket(inode, _address(fields[1]), _address(fields[2])))
    return found


_TCP_LISTEN = b"0A"  # include/net/tcp_states.h


def _address(text: bytes) -> Address:
    """Decodes an address such as `0100007F:1F90`: words of four bytes in this machine's order, and the port."""
    words, _, port = text.partition(b":")
    numbers = (int(words[place : place + 8], 16) for place in range(0, len(words), 8))
    packed = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
    return int(port, 16).to_bytes(2, "big"), packed.ljust(16, b"\0")


_UNIX_ROW = re.compile(
    rb"\w+: \w{8} \w{8} (?P<flags>[0-9A-F]{8}) (?P<type>[0-9A-F]{4}) \w\w +(?P<inode>\d+)(?: (?P<name>.*))?"
)

_ACCEPTS = 1 << 16  # __SO_ACCEPTCON of linux/net.h


def read_unix(pid: int, inodes: Collection[int], end: float) -> dict[int, UnixSocket]:
    """The UNIX sockets with these inodes; none if the monotonic time `end` comes before the end of the table. Raises
    OSError.

    A name may hold line breaks, so that it looks like the row of another socket. The real row is in the table too: an
    inode that is in it twice is left out.
    """
    found: dict[int, UnixSocket] = {}
    twice: set[int] = set()
    for line in _read_lines(f"/proc/{pid}/net/unix", end):
        if line is None:
            return {}
        row = _UNIX_ROW.match(line)
        if not row or (inode := int(row["inode"])) not in inodes:
            continue
        if inode in found:
            twice.add(inode)
        is_listening = bool(int(row["flags"], 16) & _ACCEPTS)
        found[inode] = UnixSocket(is_listening, int(row["type"], 16), os.fsdecode(row["name"] or b""))
    return {inode: each for inode, each in found.items() if inode not in twice}


def _read_lines(path: str, end: float) -> Iterator[bytes | None]:
    """The lines of a file; None, as the last one, if the monotonic time `end` comes first. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        rest = b""
        while chunk := os.read(descriptor, _CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if time.monotonic() > end:
                yield None
                return
            if len(rest) > _CHUNK:
                raise OSError("a line is too long")
    finally:
        os.close(descriptor)
