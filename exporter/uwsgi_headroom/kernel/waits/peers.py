"""Tells what is at the other end of a worker's socket: the client of a request, a backend, or a name server.

A socket whose local address is a listening one was accepted: its peer is a client. Any other connected socket was
opened by the application: its peer is a backend.

The kernel lists TCP sockets only all at once, in a millisecond on an idle machine. So lists are made only for sockets
that a thread waits for and that are not known yet, and rarely enough to take 0.2 % of a CPU at most; a list ends after
20 ms. UNIX sockets can be asked for one by one.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.kernel import sock_diag

MOST_OF_THE_TIME = 0.002
MOST_SECONDS = 0.02
_MOST_KNOWN = 4096

_DNS_PORT = 53
_RESOLVERS = ("/run/systemd/resolve/", "/run/nscd/", "/var/run/nscd/")
"""Where local name servers listen."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a socket. address: as in `ss`, `10.0.0.5:5432` or a path; empty if it has no name. A pair has no
    names (socketpair(2)): it is used like a pipe."""

    kind: Literal["client", "backend", "dns", "listening", "pair"]
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
    """The known peers of sockets, by inode, in this process's network namespace. listed: whether the kernel's list of
    sockets was read yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[int, Peer] = {}
        self._not_before = float("-inf")
        self.listed = False

    def get(self, inode: int) -> Peer | None:
        """The peer of a socket; None if it is not known yet."""
        return self._known.get(inode)

    def learn(self, inodes: Collection[int], others: Callable[[], Iterable[int]] = tuple) -> None:
        """Find the peers of these sockets, as far as the time allows. If a list is made for them, it is searched for
        `others` as well. Raises OSError with the reason to show."""
        wanted = {inode for inode in inodes if inode not in self._known}
        if not wanted:
            return
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        try:
            for inode in list(wanted):
                if peer := _ask_unix(inode):
                    self._known[inode] = peer
                    wanted.discard(inode)
            start = self._clock()
            if wanted and start >= self._not_before:
                began = time.thread_time()
                self._known.update(_list_inet(wanted.union(others())))
                self.listed = True
                self._not_before = start + (time.thread_time() - began) / MOST_OF_THE_TIME
        except (OSError, struct.error) as error:
            raise OSError(sock_diag.explain(error)) from error


def _ask_unix(inode: int) -> Peer | None:
    """The peer of a UNIX socket; None if it is none."""
    answer = _ask_unix_attributes(inode)
    if answer is None:
        return None
    state, attributes = answer
    if name := sock_diag.unix_name(attributes.get(UNIX_DIAG_NAME, b"")):
        return Peer("listening" if state == _LISTEN else "client", name)
    other = attributes.get(UNIX_DIAG_PEER, b"")
    far = _ask_unix_attributes(int.from_bytes(other, "little")) if len(other) == 4 else None
    address = sock_diag.unix_name(far[1].get(UNIX_DIAG_NAME, b"")) if far else ""
    # An accepted socket, the far end here, has the name that the listening one was bound to.
    if not address:
        return Peer("pair")
    return Peer("dns" if address.startswith(_RESOLVERS) else "backend", address)


def _ask_unix_attributes(inode: int) -> tuple[int, dict[int, bytes]] | None:
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
    _, _, state, _, _, _ = _unix_diag_msg.unpack_from(payloads[0])
    return state, sock_diag.unix_attributes(payloads[0])


def _list_inet(inodes: Collection[int]) -> dict[int, Peer]:
    """The peers of TCP and UDP sockets."""
    listening: set[tuple[bytes, bytes]] = set()
    found: dict[int, Peer] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        for payload in _dump(family, socket.IPPROTO_TCP, 1 << _LISTEN):
            row = _inet_diag_msg.unpack_from(payload)
            listening.add((row[4], row[6]))
            if row[-1] in inodes:
                found[row[-1]] = Peer("listening")
        for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
            found.update(_match(_dump(family, protocol, _OPEN), inodes, listening))
    return found


def _match(
    payloads: list[bytes], inodes: Collection[int], listening: Collection[tuple[bytes, bytes]]
) -> Iterator[tuple[int, Peer]]:
    for payload in payloads:
        inode = int.from_bytes(payload[_INODE], "little")
        if inode not in inodes:
            continue
        family, _, _, _, source_port, port, source, address, *_ = _inet_diag_msg.unpack_from(payload)
        number = int.from_bytes(port, "big")
        if (source_port, source) in listening or (source_port, _ANY) in listening:
            yield inode, Peer("client")
        else:
            yield inode, Peer("dns" if number == _DNS_PORT else "backend", _name(family, address, number))


_ANY = bytes(16)


def _name(family: int, address: bytes, port: int) -> str:
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, address[:4])}:{port}"
    if address.startswith(bytes(10) + b"\xff\xff"):  # an IPv4 address on an IPv6 socket
        return f"{socket.inet_ntop(socket.AF_INET, address[12:])}:{port}"
    return f"[{socket.inet_ntop(family, address)}]:{port}"


def _dump(family: int, protocol: int, states: int) -> list[bytes]:
    payloads, _ = sock_diag.ask(_inet_diag_req_v2.pack(family, protocol, 0, 0, states), seconds=MOST_SECONDS)
    return payloads
