"""Reads the TCP, UDP and UNIX sockets of a network namespace, from two sources.

`ask_unix` and `ask_inet` ask the kernel over netlink, in this thread's network namespace; any failure raises OSError or
struct.error. `read_inet` and `read_unix` read the tables in `/proc/PID/net`, for another namespace that the exporter
may not enter: everybody who sees a process may read them. Tables are slower to read than netlink's answers, and that of
UNIX sockets does not say what a socket is connected to: only listening and accepted ones are known from it.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
import sys
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

from uwsgi_headroom.kernel import sock_diag

Address = tuple[bytes, bytes]
"""A port, two bytes, and an IP address of 16 bytes, of which IPv4 uses the first four; in network order."""


class InetSocket(NamedTuple):
    """One TCP or UDP socket that is not listening. connecting: whether its connection is not made yet."""

    inode: int
    near: Address
    far: Address
    connecting: bool = False


class InetSockets(NamedTuple):
    """TCP or UDP sockets. listening: the addresses of those that listen, by inode."""

    listening: dict[int, Address]
    others: list[InetSocket]


class UnixSocket(NamedTuple):
    """One UNIX socket, without its other end. name: a path, or @name if it is abstract; empty if it has none."""

    is_listening: bool
    kind: int
    name: str


# include/net/tcp_states.h
_ESTABLISHED, _SYN_SENT, _CLOSE, _CLOSE_WAIT, _LISTEN = 1, 2, 7, 8, 10
_FIN_WAIT_1, _FIN_WAIT_2, _LAST_ACK, _CLOSING = 4, 5, 9, 11
_OPEN = sum(1 << state for state in (_ESTABLISHED, _SYN_SENT, _CLOSE_WAIT, _FIN_WAIT_1, _FIN_WAIT_2, _CLOSING))

_INODE = slice(sock_diag.inet_diag_msg.size - 4, sock_diag.inet_diag_msg.size)

UDIAG_SHOW_PEER, UNIX_DIAG_PEER = 0x04, 2  # linux/unix_diag.h


def ask_unix(inode: int) -> tuple[UnixSocket, int] | None:
    """A UNIX socket, and the inode of its other end, 0 for none; None if no UNIX socket has this inode."""
    if not 0 < inode < 1 << 32:
        return None
    show = sock_diag.UDIAG_SHOW_NAME | UDIAG_SHOW_PEER
    request = sock_diag.unix_diag_req.pack(socket.AF_UNIX, 0, 0, (1 << 32) - 1, inode, show, sock_diag.NO_COOKIE)
    try:
        payloads, _ = sock_diag.ask(request, dump=False)
    except OSError as error:
        if error.errno == errno.ENOENT:  # no UNIX socket has this inode
            return None
        raise
    _, kind, state, _, _, _ = sock_diag.unix_diag_msg.unpack_from(payloads[0])
    attributes = sock_diag.unix_attributes(payloads[0])
    name = sock_diag.unix_name(attributes.get(sock_diag.UNIX_DIAG_NAME, b""))
    other_end = int.from_bytes(attributes.get(UNIX_DIAG_PEER, b""), "little")
    return UnixSocket(state == _LISTEN, kind, name), other_end


def ask_inet(family: int, protocol: int, inodes: Collection[int], end: float) -> InetSockets | None:
    """All listening sockets of a family and protocol, and the others with these inodes, as in `read_inet`."""
    found = InetSockets({}, [])
    states = _OPEN
    if protocol == socket.IPPROTO_TCP:
        payloads, is_cut = _dump(family, protocol, 1 << _LISTEN, end)
        if is_cut:
            return None
        for row in map(sock_diag.inet_diag_msg.unpack_from, payloads):
            found.listening[row[-1]] = row[4], row[6]
    else:
        states |= 1 << _CLOSE  # not connected
    payloads, _ = _dump(family, protocol, states, end)
    for payload in payloads:
        inode = int.from_bytes(payload[_INODE], "little")
        if inode in inodes:
            _, state, _, _, source_port, port, source, address, *_ = sock_diag.inet_diag_msg.unpack_from(payload)
            found.others.append(InetSocket(inode, (source_port, source), (port, address), state == _SYN_SENT))
    return found


# struct inet_diag_req_v2 of one connection: family, protocol, extensions, states; ports, addresses, interface, cookie
_inet_diag_connection = struct.Struct("=BBBxI2s2s16s16s4xQ")
_ASK_INFO = 1 << 1  # INET_DIAG_INFO - 1
_INET_DIAG_INFO = 2
_tcp_info_ages = struct.Struct("=44xI4xI")  # struct tcp_info: last_data_sent, last_data_recv, in milliseconds


def make_question(family: int, each: InetSocket) -> bytes:
    """What asks the kernel for the ages of the data on one TCP connection."""
    return _inet_diag_connection.pack(
        family,
        socket.IPPROTO_TCP,
        _ASK_INFO,
        _OPEN,
        each.near[0],
        each.far[0],
        each.near[1],
        each.far[1],
        sock_diag.NO_COOKIE,
    )


def ask_ages(questions: Collection[bytes]) -> list[tuple[int, int] | None]:
    """How many milliseconds ago data was last sent, and last received, on each connection of `make_question`; None for
    one that is closed. Raises OSError or struct.error."""
    ages: list[tuple[int, int] | None] = []
    for question in questions:
        try:
            payloads, _ = sock_diag.ask(question, dump=False)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            ages.append(None)
            continue
        info = sock_diag.attributes(payloads[0], sock_diag.inet_diag_msg.size).get(_INET_DIAG_INFO, b"")
        ages.append(_tcp_info_ages.unpack_from(info) if len(info) >= _tcp_info_ages.size else None)
    return ages


def _dump(family: int, protocol: int, states: int, end: float) -> tuple[list[bytes], bool]:
    """The sockets in these states, and whether the list is cut off at the monotonic time `end`."""
    request = sock_diag.inet_diag_req_v2.pack(family, protocol, 0, 0, states)
    return sock_diag.ask(request, seconds=end - time.monotonic())


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
        if fields[3] == _TABLE_LISTEN:
            found.listening[inode] = _address(fields[1])
            continue
        has_all_listening = True
        if inode in inodes:
            connecting = fields[3] == _TABLE_SYN_SENT
            found.others.append(InetSocket(inode, _address(fields[1]), _address(fields[2]), connecting))
    return found


_TABLE_LISTEN, _TABLE_SYN_SENT = b"%02X" % _LISTEN, b"%02X" % _SYN_SENT


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


_CHUNK = 64 << 10


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
