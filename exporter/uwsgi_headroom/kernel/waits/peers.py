"""Finds what is at the other end of a worker's socket: the client of a request, a backend, or a name server.

A socket whose local address is a listening one was accepted: its peer is a client. Any other connected socket was
opened by the application: its peer is a backend.

The kernel lists TCP sockets only all at once, in a millisecond on an idle machine. So lists are made only for sockets
that a thread waits for and that are not known yet, and rarely enough to take 0.2 % of a CPU at most; lists end after
20 ms. UNIX sockets can be asked for one by one.
"""

from __future__ import annotations

import errno
import re
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.other_network import ask_in_network_of

MOST_OF_THE_TIME = 0.002
MOST_SECONDS = 0.02
_FIRST_LISTS = 3
"""So many lists are made without a pause: at the start no socket is known, nor what young ones are used for."""

_MOST_KNOWN = 4096
_MOST_ASKED = 64
"""UNIX sockets that are asked for at once, 0.05 ms each."""

_DNS_PORT = 53
_RESOLVERS = ("/run/systemd/resolve/", "/run/nscd/", "/var/run/nscd/")
"""Where local name servers listen."""

_LOGS = ("/run/systemd/journal/", "/dev/log")
"""Where local logs listen: under systemd the standard output of every process is such a socket."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a socket. address: as in `ss`, `10.0.0.5:5432` or a path; empty if it has no name.

    A pair has no names (socketpair(2)): it is used like a pipe. Datagrams are mostly sent without an answer, as to
    statsd. Unconnected sockets have no other end, or none yet.
    """

    kind: Literal["client", "backend", "datagram", "dns", "log", "listening", "pair", "unconnected"]
    address: str = ""


# include/net/tcp_states.h
_ESTABLISHED, _SYN_SENT, _CLOSE, _CLOSE_WAIT, _LISTEN = 1, 2, 7, 8, 10
_FIN_WAIT_1, _FIN_WAIT_2, _LAST_ACK, _CLOSING = 4, 5, 9, 11
_OPEN = sum(1 << state for state in (_ESTABLISHED, _SYN_SENT, _CLOSE_WAIT, _FIN_WAIT_1, _FIN_WAIT_2, _CLOSING))

# linux/inet_diag.h: as in sock_diag, with source port, destination port, source and destination address
_inet_diag_req_v2 = struct.Struct("=BBBBI48x")
_inet_diag_msg = struct.Struct("=BBBB2s2s16s16s12xIIIII")
_INODE = slice(_inet_diag_msg.size - 4, _inet_diag_msg.size)

# linux/unix_diag.h
_unix_diag_req = struct.Struct("=BBHIIIQ")
_unix_diag_msg = struct.Struct("=BBBBIQ")
UDIAG_SHOW_NAME, UDIAG_SHOW_PEER = 0x01, 0x04
UNIX_DIAG_NAME, UNIX_DIAG_PEER = 0, 2
_NO_COOKIE = (1 << 64) - 1


class Peers:
    """The known peers of sockets, by inode, in the network namespace of one server. lists: how often the kernel's list
    of sockets was read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[int, Peer] = {}
        self._not_unix: set[int] = set()
        self._not_before = float("-inf")
        self.lists = 0

    def get(self, inode: int) -> Peer | None:
        """The peer of a socket; None if it is not known yet."""
        return self._known.get(inode)

    def learn(
        self, inodes: Collection[int], others: Callable[[], Iterable[int]] = tuple, *, elsewhere: int | None = None
    ) -> None:
        """Find the peers of these sockets, as far as the time allows. If a list is made for them, it is searched for
        `others` as well. elsewhere: a process in whose network namespace the sockets are, None for this one. Raises
        OSError with the reason to show."""
        start = self._clock()
        may_list = start >= self._not_before
        if may_list:  # an unconnected socket may be connected by now
            self._known = {inode: peer for inode, peer in self._known.items() if peer.kind != "unconnected"}
        wanted = {inode for inode in inodes if inode not in self._known}
        if not wanted:
            return
        if len(self._known) + len(self._not_unix) > _MOST_KNOWN:
            self._known.clear()
            self._not_unix.clear()
        if elsewhere is None:
            self._ask(wanted, others, start, may_list)
        else:
            ask_in_network_of(elsewhere, lambda: self._ask(wanted, others, start, may_list))

    def _ask(self, wanted: set[int], others: Callable[[], Iterable[int]], start: float, may_list: bool) -> None:
        """Ask the kernel in this thread's network namespace."""
        try:
            for inode in list(islice(wanted - self._not_unix, _MOST_ASKED)):
                if peer := _ask_unix(inode):
                    self._known[inode] = peer
                else:
                    self._not_unix.add(inode)
            wanted &= self._not_unix
            if wanted and may_list:
                began = time.thread_time()
                self._known.update(_list_inet(wanted.union(others())))
                self.lists += 1
                if self.lists >= _FIRST_LISTS:
                    self._not_before = start + (time.thread_time() - began) / MOST_OF_THE_TIME
        except (OSError, struct.error) as error:
            raise OSError(sock_diag.explain(error)) from error


_AUTOBOUND = re.compile(r"@[0-9a-f]{5}")
"""The name that the kernel itself gives to a socket, for example with SO_PASSCRED (unix(7))."""


def _ask_unix(inode: int) -> Peer | None:
    """The peer of a UNIX socket; None if it is none."""
    answer = _ask_unix_attributes(inode)
    if answer is None:
        return None
    kind, state, attributes = answer
    name = sock_diag.unix_name(attributes.get(UNIX_DIAG_NAME, b""))
    if state == _LISTEN:
        return Peer("listening", name)
    # An accepted socket has the name that the listening one was bound to.
    if name and kind != socket.SOCK_DGRAM and not _AUTOBOUND.fullmatch(name):
        return Peer("client", name)
    return _ask_far_end(int.from_bytes(attributes.get(UNIX_DIAG_PEER, b""), "little"), kind)


def _ask_far_end(inode: int, kind: int) -> Peer:
    """The peer of a UNIX socket of a type (SOCK_STREAM or another) whose far end has this inode, 0 for none."""
    if not inode:
        return Peer("unconnected")
    far = _ask_unix_attributes(inode)
    if far is None:
        return Peer("unconnected")  # closed since
    address = sock_diag.unix_name(far[2].get(UNIX_DIAG_NAME, b""))
    if not address:
        return Peer("pair")
    if address.startswith(_RESOLVERS):
        return Peer("dns", address)
    if address.startswith(_LOGS):
        return Peer("log", address)
    return Peer("datagram" if kind == socket.SOCK_DGRAM else "backend", address)


def _ask_unix_attributes(inode: int) -> tuple[int, int, dict[int, bytes]] | None:
    """The type, the state and the attributes of a UNIX socket; None if there is none of this inode."""
    if not 0 < inode < 1 << 32:
        return None
    show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER
    request = _unix_diag_req.pack(socket.AF_UNIX, 0, 0, (1 << 32) - 1, inode, show, _NO_COOKIE)
    try:
        payloads, _ = sock_diag.ask(request, dump=False)
    except OSError as error:
        if error.errno == errno.ENOENT:  # no UNIX socket has this inode
            return None
        raise
    _, kind, state, _, _, _ = _unix_diag_msg.unpack_from(payloads[0])
    return kind, state, sock_diag.unix_attributes(payloads[0])


def _list_inet(inodes: Collection[int]) -> dict[int, Peer]:
    """The peers of TCP and UDP sockets, as far as 20 ms allow."""
    end = time.monotonic() + MOST_SECONDS
    listening: set[tuple[bytes, bytes]] = set()
    found: dict[int, Peer] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        payloads, is_cut = _dump(family, socket.IPPROTO_TCP, 1 << _LISTEN, end)
        if is_cut:
            return found  # a client could be taken for a backend
        for payload in payloads:
            row = _inet_diag_msg.unpack_from(payload)
            listening.add((row[4], row[6]))
            if row[-1] in inodes:
                found[row[-1]] = Peer("listening")
        payloads, _ = _dump(family, socket.IPPROTO_TCP, _OPEN, end)
        found.update(_match(payloads, inodes, listening, "backend"))
        payloads, _ = _dump(family, socket.IPPROTO_UDP, _OPEN | 1 << _CLOSE, end)
        found.update(_match(payloads, inodes, (), "datagram"))
    return found


def _match(
    payloads: list[bytes],
    inodes: Collection[int],
    listening: Collection[tuple[bytes, bytes]],
    kind: Literal["backend", "datagram"],
) -> Iterator[tuple[int, Peer]]:
    for payload in payloads:
        inode = int.from_bytes(payload[_INODE], "little")
        if inode not in inodes:
            continue
        family, _, _, _, source_port, port, source, address, *_ = _inet_diag_msg.unpack_from(payload)
        number = int.from_bytes(port, "big")
        if not number:
            yield inode, Peer("unconnected")
        elif (source_port, source) in listening or (source_port, _ANY) in listening:
            yield inode, Peer("client")
        else:
            yield inode, Peer("dns" if number == _DNS_PORT else kind, _name(family, address, number))


_ANY = bytes(16)


def _name(family: int, address: bytes, port: int) -> str:
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, address[:4])}:{port}"
    if address.startswith(bytes(10) + b"\xff\xff"):  # an IPv4 address on an IPv6 socket
        return f"{socket.inet_ntop(socket.AF_INET, address[12:])}:{port}"
    return f"[{socket.inet_ntop(family, address)}]:{port}"


def _dump(family: int, protocol: int, states: int, end: float) -> tuple[list[bytes], bool]:
    """The sockets in these states, and whether the list is cut off at the monotonic time `end`."""
    request = _inet_diag_req_v2.pack(family, protocol, 0, 0, states)
    return sock_diag.ask(request, seconds=end - time.monotonic())
