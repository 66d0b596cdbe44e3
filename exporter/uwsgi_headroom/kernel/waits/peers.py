"""Finds what is at the other end of a worker's socket: the client of a request, a backend, or a name server.

A socket whose local address is a listening one was accepted: its peer is a client. Any other connected socket was
opened by the application: its peer is a backend.

The kernel lists TCP sockets only all at once, in a millisecond on an idle machine. So lists are made only for sockets
that a thread waits for and that are not known yet, and rarely enough to take 0.2 % of a CPU at most; lists end after
20 ms. UNIX sockets can be asked for one by one.

Where the kernel does not answer, because uWSGI runs in another network namespace that the exporter may not enter, its
tables in /proc are read instead.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Literal

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.namespaces import ask_in_network_of
from uwsgi_headroom.kernel.waits.sockets import (
    Address,
    InetSockets,
    UnixSocket,
    ask_ages,
    ask_inet,
    ask_unix,
    make_question,
    read_inet,
    read_unix,
)

MOST_OF_THE_TIME = 0.002
MOST_SECONDS = 0.02
_FIRST_LISTS = 3
"""So many lists are made without a pause: at the start no socket is known, nor what young ones are used for."""

_HURRIED_LISTS = 10
"""So many more have none until one has decided what a young socket is used for. Beside five busy programs on two CPUs,
one list in three did, for connections of 14 ms."""

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
    statsd. Unconnected sockets have no other end, or none yet. connecting: whether the other end has not answered yet
    (SYN_SENT).
    """

    kind: Literal["client", "backend", "datagram", "dns", "log", "listening", "pair", "unconnected"]
    address: str = ""
    connecting: bool = False
    question: bytes = field(default=b"", compare=False, repr=False)
    """What asks the kernel about a TCP connection to a backend (`sockets.ask_ages`); empty for other sockets."""


class Peers:
    """The known peers of sockets, by inode, in the network namespace of one server. lists: how often the kernel's list
    of sockets was read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[int, Peer] = {}
        self._not_unix: set[int] = set()
        self._not_before = float("-inf")
        self._refusal: str | None = None
        self._hurried = 0
        self.lists = 0

    def may_list_soon(self) -> bool:
        """Whether a list may be made now, if nothing is known yet of young sockets: a few have no pause before them."""
        if self._hurried < _HURRIED_LISTS:
            self._hurried += 1
            self._not_before = float("-inf")
        return self._clock() >= self._not_before

    def get(self, inode: int) -> Peer | None:
        """The peer of a socket; None if it is not known yet."""
        return self._known.get(inode)

    def learn(
        self, inodes: Collection[int], others: Callable[[], Iterable[int]] = tuple, *, elsewhere: int | None = None
    ) -> str | None:
        """Find the peers of these sockets, as far as the time allows. If a list is made for them, it is searched for
        `others` as well. elsewhere: a process in whose network namespace the sockets are, None for this one. Returns
        the reason to show if some stay unknown because the kernel refuses to answer."""
        start = self._clock()
        may_list = start >= self._not_before
        if may_list:  # such a socket may be connected by now
            self._known = {
                inode: peer for inode, peer in self._known.items() if peer.kind != "unconnected" and not peer.connecting
            }
        wanted = {inode for inode in inodes if inode not in self._known}
        if not wanted:
            return None
        if len(self._known) + len(self._not_unix) > _MOST_KNOWN:
            self._known.clear()
            self._not_unix.clear()
        if may_list or not self._refusal:
            question = partial(self._ask, wanted, others, start, may_list)
            try:
                ask_in_network_of(elsewhere, question) if elsewhere else question()
                self._refusal = None
            except OSError as error:
                self._refusal = str(error)
                if may_list:
                    self._list(partial(_read_all, elsewhere or os.getpid()), wanted.union(others()), start)
        return self._refusal if any(inode not in self._known for inode in wanted) else None

    def list_unanswered(
        self, inodes: Collection[int], *, elsewhere: int | None = None
    ) -> tuple[list[Peer], list[Peer]]:
        """The backends of those among these TCP connections on which data was sent and none received since, or that are
        not made yet; and of those for which the kernel's clock, which has steps of some milliseconds, does not say,
        youngest first. Connections beyond 64, and UNIX sockets, are left out. elsewhere: as for `learn`."""
        asked = [peer for inode in inodes if (peer := self._known.get(inode)) and peer.question][:_MOST_ASKED]
        questions = [peer.question for peer in asked]
        try:
            ask = partial(ask_ages, questions)
            ages = ask_in_network_of(elsewhere, ask) if elsewhere else ask()
        except (OSError, struct.error):
            return [], []
        known = [(peer, each) for peer, each in zip(asked, ages, strict=True) if each]
        unanswered = [peer for peer, (sent, received) in known if peer.connecting or sent < received]
        doubtful = sorted((sent, number) for number, (_, (sent, received)) in enumerate(known) if sent == received)
        return unanswered, [known[number][0] for _, number in doubtful]

    def _ask(self, wanted: set[int], others: Callable[[], Iterable[int]], start: float, may_list: bool) -> None:
        """Ask the kernel in this thread's network namespace. Raises OSError with the reason to show."""
        try:
            for inode in list(islice(wanted - self._not_unix, _MOST_ASKED)):
                if peer := _ask_unix(inode):
                    self._known[inode] = peer
                else:
                    self._not_unix.add(inode)
            if may_list and not wanted.isdisjoint(self._not_unix):
                self._list(_list_inet, (wanted & self._not_unix).union(others()), start)
        except (OSError, struct.error) as error:
            raise OSError(sock_diag.explain(error)) from error

    def _list(
        self, read: Callable[[Collection[int]], Mapping[int, Peer]], inodes: Collection[int], start: float
    ) -> None:
        """Find these sockets in a list, and do not make the next one before some time."""
        began = time.thread_time()
        self._known.update(read(inodes))
        self.lists += 1
        if self.lists >= _FIRST_LISTS:
            self._not_before = start + (time.thread_time() - began) / MOST_OF_THE_TIME


_AUTOBOUND = re.compile(r"@[0-9a-f]{5}")
"""The name that the kernel itself gives to a socket, for example with SO_PASSCRED (unix(7))."""


def _ask_unix(inode: int) -> Peer | None:
    """The peer of a UNIX socket; None if it is none."""
    answer = ask_unix(inode)
    if answer is None:
        return None
    found, other_end = answer
    return _near_end(found) or _ask_far_end(other_end, found.kind)


def _near_end(of: UnixSocket) -> Peer | None:
    """What the near end of a UNIX socket says about its peer; None if nothing."""
    if of.is_listening:
        return Peer("listening", of.name)
    # An accepted socket has the name that the listening one was bound to.
    if of.name and of.kind != socket.SOCK_DGRAM and not _AUTOBOUND.fullmatch(of.name):
        return Peer("client", of.name)
    return None


def _ask_far_end(inode: int, kind: int) -> Peer:
    """The peer of a UNIX socket of a type (SOCK_STREAM or another) whose far end has this inode, 0 for none."""
    answer = ask_unix(inode) if inode else None
    if answer is None:  # never connected, or closed since
        return Peer("unconnected")
    address = answer[0].name
    if not address:
        return Peer("pair")
    if address.startswith(_RESOLVERS):
        return Peer("dns", address)
    if address.startswith(_LOGS):
        return Peer("log", address)
    return Peer("datagram" if kind == socket.SOCK_DGRAM else "backend", address)


def _read_all(pid: int, inodes: Collection[int]) -> dict[int, Peer]:
    """The peers of sockets of all kinds in the network namespace of a process, as far as its tables say."""
    found: dict[int, Peer] = {}
    with suppress(OSError, ValueError):
        unix = read_unix(pid, inodes, time.monotonic() + MOST_SECONDS)
        found.update((inode, peer) for inode, each in unix.items() if (peer := _near_end(each)))
        found.update(_list_inet(inodes, partial(read_inet, pid)))
    return found


def _list_inet(
    inodes: Collection[int], read: Callable[[int, int, Collection[int], float], InetSockets | None] = ask_inet
) -> dict[int, Peer]:
    """The peers of TCP and UDP sockets, as far as 20 ms allow. Raises as `read`."""
    end = time.monotonic() + MOST_SECONDS
    listening = {}
    found: dict[int, Peer] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        tcp = read(family, socket.IPPROTO_TCP, inodes, end)
        if tcp is None:
            return found  # a client could be taken for a backend
        listening.update(tcp.listening)
        found.update((inode, Peer("listening")) for inode in tcp.listening.keys() & inodes)
        found.update(_match(tcp, set(listening.values()), family, "backend"))
        if udp := read(family, socket.IPPROTO_UDP, inodes, end):
            found.update(_match(udp, (), family, "datagram"))
    return found


def _match(
    sockets: InetSockets, listening: Collection[Address], family: int, kind: Literal["backend", "datagram"]
) -> Iterator[tuple[int, Peer]]:
    for each in sockets.others:
        inode, (source_port, source), (port, address), _ = each
        number = int.from_bytes(port, "big")
        if not number:
            yield inode, Peer("unconnected")
        elif (source_port, source) in listening or (source_port, _ANY) in listening:
            yield inode, Peer("client")
        else:
            name = _name(family, address, number)
            question = make_question(family, each) if kind == "backend" else b""
            yield inode, Peer("dns" if number == _DNS_PORT else kind, name, each.connecting, question)


_ANY = bytes(16)


def _name(family: int, address: bytes, port: int) -> str:
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, address[:4])}:{port}"
    if address.startswith(bytes(10) + b"\xff\xff"):  # an IPv4 address on an IPv6 socket
        return f"{socket.inet_ntop(socket.AF_INET, address[12:])}:{port}"
    return f"[{socket.inet_ntop(family, address)}]:{port}"
