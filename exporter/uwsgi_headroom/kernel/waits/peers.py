"""Finds the other end of a worker's socket: the client of a request, a backend, or a name server.

A socket whose local address is a listening one was accepted: its peer is a client. Any other connected socket was
opened by the application: its peer is a backend.

The kernel lists TCP sockets only all at once, in a millisecond on an idle machine. So lists are made only for sockets
that a thread waits for and that are not known yet, and rarely enough to take 0.2 % of a CPU at most; lists end after
20 ms. UNIX sockets can be asked for one by one.

There are two sources. `ask_unix` and `ask_inet` ask the kernel over netlink, in this thread's network namespace; any
failure raises OSError or struct.error. Where it does not answer, because uWSGI runs in a network namespace that the
exporter may not enter, `read_inet` and `read_unix` read the tables in `/proc/PID/net`: everybody who sees a process may
read them. Tables are slower to read than netlink's answers, and that of UNIX sockets does not say what a socket is
connected to: only listening and accepted ones are known from it.
"""

from __future__ import annotations

import os
import random
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.namespaces import ask_in_network_of

Address = tuple[bytes, bytes]
"""A port, two bytes, and an IP address of 16 bytes, of which IPv4 uses the first four; in network order."""


class InetSocket(NamedTuple):
    """One TCP or UDP socket. state: of include/net/tcp_states.h."""

    inode: int
    state: int
    near: Address
    far: Address


class UnixSocket(NamedTuple):
    """One UNIX socket. name: a path, or @name if it is abstract; empty if it has none. other_end: its inode; 0 for
    none, or if that is unknown."""

    is_listening: bool
    kind: int
    name: str
    other_end: int = 0


# include/net/tcp_states.h
_ESTABLISHED, _SYN_SENT, _CLOSE, _CLOSE_WAIT, _LISTEN = 1, 2, 7, 8, 10
_FIN_WAIT_1, _FIN_WAIT_2, _LAST_ACK, _CLOSING = 4, 5, 9, 11
_OPEN = sum(1 << state for state in (_ESTABLISHED, _SYN_SENT, _CLOSE_WAIT, _FIN_WAIT_1, _FIN_WAIT_2, _CLOSING))

_INODE = slice(sock_diag.inet_diag_msg.size - 4, sock_diag.inet_diag_msg.size)

UDIAG_SHOW_PEER, UNIX_DIAG_PEER = 0x04, 2  # linux/unix_diag.h


def ask_unix(inode: int) -> UnixSocket | None:
    """A UNIX socket; None if none has this inode."""
    if not 0 < inode < 1 << 32:
        return None
    show = sock_diag.UDIAG_SHOW_NAME | UDIAG_SHOW_PEER
    request = sock_diag.unix_request(show, inode, states=(1 << 32) - 1)
    payload = sock_diag.ask_about(request)
    if payload is None:
        return None
    _, kind, state, _, _, _ = sock_diag.unix_diag_msg.unpack_from(payload)
    attributes = sock_diag.attributes(payload, sock_diag.unix_diag_msg)
    name = sock_diag.unix_name(attributes.get(sock_diag.UNIX_DIAG_NAME, b""))
    other_end = int.from_bytes(attributes.get(UNIX_DIAG_PEER, b""), "little")
    return UnixSocket(state == _LISTEN, kind, name, other_end)


def ask_inet(family: int, protocol: int, inodes: Collection[int], end: float) -> Iterator[InetSocket]:
    """All listening sockets of a family and protocol, and then the others with these inodes, as `read_inet`."""
    states = _OPEN | 1 << _CLOSE  # and those of UDP that are not connected
    if protocol == socket.IPPROTO_TCP:
        states = _OPEN
        request = sock_diag.inet_request(family, 1 << _LISTEN)
        payloads, is_cut = sock_diag.ask(request, seconds=end - time.monotonic())
        yield from map(_unpack, payloads)
        if is_cut:
            return
    request = sock_diag.inet_request(family, states, protocol=protocol)
    payloads, _ = sock_diag.ask(request, seconds=end - time.monotonic())
    for payload in payloads:
        if int.from_bytes(payload[_INODE], "little") in inodes:
            yield _unpack(payload)


def _unpack(payload: bytes) -> InetSocket:
    _, state, _, _, near_port, far_port, near, far, *_, inode = sock_diag.inet_diag_msg.unpack_from(payload)
    return InetSocket(inode, state, (near_port, near), (far_port, far))


_tcp_info_ages = struct.Struct("=44xI4xI")  # struct tcp_info: last_data_sent, last_data_recv, in milliseconds


def make_question(family: int, each: InetSocket) -> bytes:
    """What asks the kernel for the ages of the data on one TCP connection."""
    ports, hosts = zip(each.near, each.far, strict=True)
    extensions = 1 << (sock_diag.INET_DIAG_INFO - 1)
    return sock_diag.inet_request(family, _OPEN, ports, hosts, extensions=extensions, cookie=sock_diag.NO_COOKIE)


def ask_ages(questions: Collection[bytes]) -> list[tuple[int, int] | None]:
    """How many milliseconds ago data was last sent and received on each connection of `make_question`; None for a
    closed one. Raises OSError or struct.error."""
    infos = [sock_diag.inet_info(sock_diag.ask_about(question) or b"") for question in questions]
    return [_tcp_info_ages.unpack_from(info) if len(info) >= _tcp_info_ages.size else None for info in infos]


_RETRANSMITS, _LOST = 1, 3
"""The timer of a connection that sends data again (net/ipv4/inet_diag.c); and how often, each time after twice as long,
until its other end counts as lost: 1.4 s at least."""


def ask_lost(questions: Collection[bytes]) -> list[bool]:
    """Whether the other end of each connection of `make_question` no longer acknowledges data. Raises OSError or
    struct.error."""
    answers = [sock_diag.ask_about(question) or bytes(sock_diag.inet_diag_msg.size) for question in questions]
    return [each[2] == _RETRANSMITS and each[3] >= _LOST for each in answers]


def read_inet(pid: int, family: int, protocol: int, inodes: Collection[int], end: float) -> Iterator[InetSocket]:
    """All listening sockets of a family (socket.AF_INET, AF_INET6) and protocol (socket.IPPROTO_TCP, IPPROTO_UDP), and
    then, as the kernel lists them, the others with these inodes; as many as are read until the monotonic time `end`.
    Raises OSError, or ValueError if the table is odd."""
    name = _PROTOCOLS[protocol] + _FAMILIES[family]
    for line in _read_lines(f"/proc/{pid}/net/{name}", end):
        fields = line.split(None, 10) if line else []
        if len(fields) < 10 or not fields[9].isdigit():
            continue  # the head
        inode, state = int(fields[9]), int(fields[3], 16)
        if state == _LISTEN or inode in inodes:
            yield InetSocket(inode, state, _address(fields[1]), _address(fields[2]))


_PROTOCOLS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp"}
_FAMILIES: Mapping[int, str] = {socket.AF_INET: "", socket.AF_INET6: "6"}


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

_LOST_SECONDS, _MOST_LOST = 1.0, 8
"""How often some known connections are asked for again, and how many, 0.05 ms each."""

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
    (SYN_SENT); lost: whether it no longer acknowledges data.
    """

    kind: Literal["client", "backend", "datagram", "dns", "log", "listening", "pair", "unconnected"]
    address: str = ""
    connecting: bool = False
    question: bytes = field(default=b"", compare=False, repr=False)
    """What asks the kernel about a TCP connection to a backend (`ask_ages`); empty for other sockets."""
    lost: bool = False


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
        self._lost_at = float("-inf")
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
                ask_in_network_of(elsewhere, question)
                self._refusal = None
            except OSError as error:
                self._refusal = str(error)
                if may_list:
                    self._list(partial(_read_all, elsewhere or os.getpid()), wanted.union(others()), start)
        return self._refusal if any(inode not in self._known for inode in wanted) else None

    def note_lost(self, inodes: Collection[int], elsewhere: int | None) -> None:
        """Note which connections to backends are lost, of some of those that threads wait for."""
        now = self._clock()
        asked = [(inode, peer) for inode in inodes if (peer := self._known.get(inode)) and peer.question]
        if not asked or now - self._lost_at < _LOST_SECONDS:
            return
        self._lost_at, some = now, random.sample(asked, min(len(asked), _MOST_LOST))
        with suppress(OSError, struct.error):
            answers = ask_in_network_of(elsewhere, partial(ask_lost, [peer.question for _, peer in some]))
            for (inode, peer), lost in zip(some, answers, strict=True):
                self._known[inode] = replace(peer, lost=lost)

    def list_unanswered(
        self, inodes: Collection[int], *, elsewhere: int | None = None
    ) -> tuple[list[Peer], list[Peer]]:
        """The backends of those among these TCP connections on which data was sent and none received since, or that are
        not made yet; and of those for which the kernel's clock, which has steps of some milliseconds, does not say,
        youngest first. Connections beyond 64, and UNIX sockets, are left out. elsewhere: as for `learn`."""
        asked = [peer for inode in inodes if (peer := self._known.get(inode)) and peer.question][:_MOST_ASKED]
        try:
            ages = ask_in_network_of(elsewhere, partial(ask_ages, [peer.question for peer in asked]))
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
    near = ask_unix(inode)
    if near is None or (peer := _near_end(near)):
        return near and peer
    far = ask_unix(near.other_end)
    if far is None:  # never connected, or closed since
        return Peer("unconnected")
    if not far.name:
        return Peer("pair")
    if far.name.startswith(_RESOLVERS):
        return Peer("dns", far.name)
    if far.name.startswith(_LOGS):
        return Peer("log", far.name)
    return Peer("datagram" if near.kind == socket.SOCK_DGRAM else "backend", far.name)


def _near_end(of: UnixSocket) -> Peer | None:
    """What the near end of a UNIX socket says about its peer; None if nothing."""
    if of.is_listening:
        return Peer("listening", of.name)
    # An accepted socket has the name that the listening one was bound to.
    if of.name and of.kind != socket.SOCK_DGRAM and not _AUTOBOUND.fullmatch(of.name):
        return Peer("client", of.name)
    return None


def _read_all(pid: int, inodes: Collection[int]) -> dict[int, Peer]:
    """The peers of sockets of all kinds in the network namespace of a process, as far as its tables say."""
    found: dict[int, Peer] = {}
    with suppress(OSError, ValueError):
        unix = read_unix(pid, inodes, time.monotonic() + MOST_SECONDS)
        found.update((inode, peer) for inode, each in unix.items() if (peer := _near_end(each)))
        found.update(_list_inet(inodes, partial(read_inet, pid)))
    return found


def _list_inet(
    inodes: Collection[int], read: Callable[[int, int, Collection[int], float], Iterator[InetSocket]] = ask_inet
) -> dict[int, Peer]:
    """The peers of TCP and UDP sockets, as far as 20 ms allow. Raises as `read`."""
    end = time.monotonic() + MOST_SECONDS
    found: dict[int, Peer] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        listening: set[Address] = set()  # all are known before the first other one: else a client could be a backend
        for each in read(family, socket.IPPROTO_TCP, inodes, end):
            if each.state == _LISTEN:
                listening.add(each.near)
            if each.inode in inodes:
                found[each.inode] = _match(each, listening, family, "backend")
        for each in read(family, socket.IPPROTO_UDP, inodes, end):
            found[each.inode] = _match(each, (), family, "datagram")
    return found


def _match(of: InetSocket, listening: Collection[Address], family: int, kind: Literal["backend", "datagram"]) -> Peer:
    """What is at the other end of a socket. listening: the addresses of the listening ones."""
    port, address = of.far
    number = int.from_bytes(port, "big")
    if of.state == _LISTEN:
        return Peer("listening")
    if not number:
        return Peer("unconnected")
    if of.near in listening or (of.near[0], _ANY) in listening:
        return Peer("client")
    question = make_question(family, of) if kind == "backend" else b""
    name = _name(family, address, number)
    return Peer("dns" if number == _DNS_PORT else kind, name, of.state == _SYN_SENT, question)


_ANY = bytes(16)


def _name(family: int, address: bytes, port: int) -> str:
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, address[:4])}:{port}"
    if address.startswith(bytes(10) + b"\xff\xff"):  # an IPv4 address on an IPv6 socket
        return f"{socket.inet_ntop(socket.AF_INET, address[12:])}:{port}"
    return f"[{socket.inet_ntop(family, address)}]:{port}"
