"""Reads the listen queues of uWSGI's sockets, and lists the connections in them: matches the names in the stats
document to the kernel's listeners.

uWSGI's own figures are 0 for UNIX sockets on every ordinary Linux, and up to a second old for TCP. The names in its
stats document (seen on 2.0.31) are as configured (`app.sock` relative to the directory in which uWSGI started, `@name`
or `\0name` if abstract, `:8080`, `[::1]:3031`, `localhost:3031`), except that the real port replaces a port 0. For an
inherited descriptor (`fd://`, systemd, the emperor, zerg) the name is that of getsockname(2), and an abstract name
lacks its `@`. A socket that is configured twice is listed twice. The public ports of `http` and of the other routers
are not listed.

A queue is never guessed. A match among the descriptors of the proven master is certain. If the descriptors are hidden,
a match is also certain if the list is that of the master's network namespace and only one socket has the name: the
master says that it listens on that name, and the list has every listener. Otherwise `reason` says why the queue is
unknown.

The connections in a queue (`AcceptQueues`), of which only the kernel's numbers (inodes and socket cookies) are kept,
and no address of a client:

* TCP: a connection that no process has accepted is an established socket (or, if the client has closed its end, one in
  CLOSE_WAIT) with the inode 0. `tcp_info` has the time since its last data came. uWSGI has the kernel defer connections
  without data (TCP_DEFER_ACCEPT), so that is how long it has waited, unless more data came meanwhile; of a connection
  without data, it is the time since the handshake. Only the port and the address link such a socket to its listener.
* UNIX: the kernel lists the inodes of the clients' sockets in the order of the queue, and no times. A client that has
  closed its socket has none: nobody waits any more. (One of TCP may have closed its sending end only.)

Other facts about sockets: which workers hold each (`find_socket_holders`), and how many connections found
a TCP queue full, which the kernel counts per network namespace (`read_listen_overflows`).
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.kernel import procfs, sock_diag
from uwsgi_headroom.kernel.aside import DIRECT, Asks
from uwsgi_headroom.kernel.namespaces import NOT_VISIBLE, ask_in_network_of, shares_network_namespace
from uwsgi_headroom.kernel.procfs import WHO_MAY_KNOW, read_socket_inodes
from uwsgi_headroom.kernel.sock_diag import Family, Listener
from uwsgi_headroom.record import Backlog, Options, SocketHolders, Waiting, is_tcp
from uwsgi_headroom.terminal_text import escape_text

MOST_LISTED = 1000
"""How many connections of a queue are listed. Of a longer one the number is known, and the age of some."""

MOST_LISTING_SECONDS = 0.02
"""How long a list of TCP sockets may take. The kernel passes over all on the host: of few, in 0.8 ms."""

MOST_LISTING_TIME = 0.01
"""The share of a CPU that these lists may take; in between, the lengths of the queues are known."""

_address_and_cookie = struct.Struct("=8x16s20xQ")  # of inet_diag_msg: the source, and the cookie
_inodes = struct.Struct("=I")


class AcceptQueues:
    """Lists the connections in the queues of one server, at a bounded cost."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._tcp_not_before = -math.inf

    def may_list_tcp(self) -> bool:
        """Whether lists of TCP sockets have not taken more than their share of the CPU until now."""
        return self._clock() >= self._tcp_not_before

    def list_unix(self, listeners: Sequence[Listener]) -> Waiting | None:
        """The connections in the queues of UNIX listeners, in their order; None if the kernel does not list them."""
        found: list[tuple[int, float | None]] = []
        try:
            for listener in listeners:
                request = sock_diag.unix_request(sock_diag.UDIAG_SHOW_ICONS, listener.inode)
                payload = sock_diag.ask_about(request)
                if payload is None:
                    return None
                clients = sock_diag.attributes(payload, sock_diag.unix_diag_msg).get(sock_diag.UNIX_DIAG_ICONS, b"")
                found += [(inode, None) for (inode,) in _inodes.iter_unpack(clients) if inode]
        except (OSError, struct.error):  # a queue of thousands does not fit into the kernel's answer
            return None
        return Waiting(tuple(found)) if len(found) <= MOST_LISTED else None

    def list_tcp(self, listeners: Sequence[Listener]) -> Waiting | None:
        """The connections in the queues of TCP listeners of one name; None if the kernel does not list them."""
        began = self._cpu_clock()
        found: dict[int, float] = {}
        is_complete = True
        try:
            for family, port, address in sorted({_place(listener) for listener in listeners}):
                request = sock_diag.connections_request(family, port)
                payloads, is_cut = sock_diag.ask(request, seconds=MOST_LISTING_SECONDS)
                is_complete &= not is_cut
                for payload in payloads:
                    found.update(_read_waiting(payload, address))
        except (OSError, struct.error):
            return None
        finally:
            spent = self._cpu_clock() - began
            self._tcp_not_before = max(self._clock(), self._tcp_not_before) + spent / MOST_LISTING_TIME
        oldest = sorted(found.items(), key=lambda connection: -connection[1])
        return Waiting(tuple(oldest[:MOST_LISTED]), is_complete and len(oldest) <= MOST_LISTED)


def find_rivals(listeners: Sequence[Listener], every: Sequence[Listener]) -> bool:
    """Whether another TCP listener has the port of one of these, and might have connections that look like theirs.
    every: all TCP listeners of the network namespace."""
    own = {listener.inode for listener in listeners}
    others = [_place(listener) for listener in every if listener.inode not in own]
    for family, port, address in map(_place, listeners):
        is_any = not any(address)
        if any((family, port) == other[:2] and (is_any or address == other[2]) for other in others):
            return True
    return False


def _place(listener: Listener) -> tuple[int, bytes, bytes]:
    """The family of a TCP listener, its port and its address, as the kernel writes them."""
    family = socket.AF_INET6 if listener.family == "inet6" else socket.AF_INET
    host, _, port = listener.name.rpartition(":")
    return family, int(port).to_bytes(2, "big"), socket.inet_pton(family, host.strip("[]")).ljust(16, b"\0")


def _read_waiting(payload: bytes, address: bytes) -> dict[int, float]:
    """The cookie and the age in seconds of a connection to this address (all zeros: to any), if nobody accepted it."""
    inode = sock_diag.inet_diag_msg.unpack_from(payload)[-1]
    reached, cookie = _address_and_cookie.unpack_from(payload)
    ages = sock_diag.read_ages(payload)
    if inode or ages is None or (any(address) and reached != address):
        return {}
    return {cookie: ages[0]}


TCP_FAMILIES: tuple[Family, ...] = ("inet", "inet6")

_UNPROVEN = "the PID of uWSGI's master is not proven, so its sockets are unknown"

_IMPOSSIBLE = "no socket can have the name in uWSGI's stats: the name has a NUL byte, or a port above 65535"


_MOST_ENDED, _ENDED_SECONDS = 8, 0.05


class Backlogs:
    """Reads the queues of one server repeatedly, and caches the list of the master's descriptors, whether the master is
    in another network namespace, and the listeners of each name."""

    def __init__(self, dumps: ListenerDumps | None = None, asks: Asks = DIRECT) -> None:
        self._dumps, self._asks = dumps or ListenerDumps(), asks
        self._master_pid: int | None = None
        self._sockets = _Sockets(None, True)
        self._listeners: dict[str, list[Listener]] = {}
        self._found_for: tuple[int | None, Sequence[str]] = (None, ())
        self._accept_queues = AcceptQueues()
        self._has_rivals: dict[str, bool] = {}  # of TCP names whose queue was not empty since they were found

    def read(self, master_pid: int | None, names: Sequence[str], *, quick: bool = False) -> dict[str, Backlog]:
        """The queue of each of uWSGI's socket names. `master_pid` is the proven PID, or None. Listeners that were found
        keep their names until one is closed; with `quick`, what is known of others at their ports also holds."""
        if master_pid is None:
            return dict.fromkeys(names, Backlog(None, None, _UNPROVEN))
        if self._found_for == (master_pid, names):
            backlogs = self._ask_again()
            if not quick:
                self._has_rivals = {}
            if backlogs is not None:
                return backlogs
        self._found_for = None, ()
        known = self._sockets if master_pid == self._master_pid and self._sockets.held is not None else None
        found = _match_all(names, master_pid, known, self._dumps) if known is not None else {}
        if known is None or any(isinstance(match, str) for match in found.values()):
            # A reload gives new inodes to some sockets: those with a host name, and those whose name begins with \0.
            self._sockets, self._master_pid = self._read_sockets(master_pid), master_pid
            if self._sockets != known:
                self._dumps.forget()
                found = _match_all(names, master_pid, self._sockets, self._dumps)
        self._listeners = {name: match for name, match in found.items() if not isinstance(match, str)}
        self._has_rivals = {}
        if len(self._listeners) == len(found) and self._sockets.near is not False:
            self._found_for = master_pid, names
        return {name: _measure(match) for name, match in found.items()}

    def _read_sockets(self, master_pid: int) -> _Sockets:
        """The sockets that a master holds; those that are known, while the answer is not there."""
        try:
            held = self._asks.ask(read_socket_inodes, master_pid)
        except OSError:
            held = self._sockets.held if master_pid == self._master_pid else None
        return _Sockets(held, shares_network_namespace(master_pid))

    def _ask_again(self) -> dict[str, Backlog] | None:
        """The queues of the listeners that were found last; None if one of them does not answer."""
        answers = self._dumps.queues.ask([each for listeners in self._listeners.values() for each in listeners])
        if answers is None:
            return None
        found = iter(answers)
        return {name: _sum_up([next(found) for _ in listeners]) for name, listeners in self._listeners.items()}

    def list_waiting(self, master_pid: int, backlogs: Mapping[str, Backlog]) -> dict[str, Waiting]:
        """The connections in the queues that are not empty, as they were read last, by socket name; without those that
        cannot be listed. Never raises."""
        busy = {name: each for name, each in self._listeners.items() if (backlogs[name].queue or 0) > 0}
        if not busy:
            return {}
        with suppress(OSError):
            elsewhere = master_pid if self._sockets.near is False else None
            return ask_in_network_of(elsewhere, partial(self._list_waiting, busy))
        return {}

    def _list_waiting(self, busy: Mapping[str, list[Listener]]) -> dict[str, Waiting]:
        queues, listed = self._accept_queues, dict[str, Waiting | None]()
        may_list_tcp = queues.may_list_tcp()
        for name, listeners in busy.items():
            if listeners[0].family == "unix":
                listed[name] = queues.list_unix(listeners)
            elif may_list_tcp:
                if name not in self._has_rivals:
                    every = [each for family in TCP_FAMILIES for each in _list_in_time(family, None)]
                    self._has_rivals[name] = find_rivals(listeners, every)
                listed[name] = None if self._has_rivals[name] else queues.list_tcp(listeners)
        return {name: waiting for name, waiting in listed.items() if waiting is not None}

    def count_alone(self, master_pid: int) -> int:
        """How many TCP listeners its network namespace has, if it is known that the master holds every one of them;
        else 0."""
        sockets, every = self._read_sockets(master_pid), set[int]()
        with suppress(OSError):
            for dump in _dump_all(TCP_FAMILIES, None, master_pid, sockets, self._dumps).values():
                if isinstance(dump, str):
                    return 0
                every.update(each.inode for each in dump)
        return len(every) * (sockets.near is not None and every <= (sockets.held or frozenset()))


class _Sockets(Struct, frozen=True):
    """The inodes of the sockets that a master holds, None if they are hidden; and whether the master is in this network
    namespace, None if that is hidden."""

    held: frozenset[int] | None
    near: bool | None


class Connections(NamedTuple):
    """TCP connections to the sockets of a server. closed: how long ago, in seconds, it closed those that it closed
    first, within the last minute (TIME_WAIT); left: of those that it still holds, and its clients have closed
    (CLOSE_WAIT), for how long each client waited, the shortest first; answered: how many of these have an answer."""

    closed: Sequence[float] = ()
    left: tuple[float, ...] = ()
    answered: int = 0


def list_connections(pid: int, names: Sequence[str]) -> Connections:
    """The connections of a server. pid: a process in its network. A question for `aside`. Raises OSError."""
    return ask_in_network_of(pid, partial(_list_connections, names[:_MOST_ENDED]))


def _list_connections(names: Sequence[str]) -> Connections:
    states = 1 << sock_diag.TCP_TIME_WAIT | 1 << sock_diag.TCP_CLOSE_WAIT
    ports = [(int(name.rpartition(":")[2]) & _LARGEST_PORT).to_bytes(2, "big") for name in names]
    families = [(socket.AF_INET, socket.AF_INET6)[name.startswith("[")] for name in names]
    sources = zip(families, ports, strict=True)
    requests = [sock_diag.connections_request(family, port, states) for family, port in sources]
    payloads = [each for request in requests for each in sock_diag.ask(request, seconds=_ENDED_SECONDS)[0]]
    found = [sock_diag.inet_diag_msg.unpack_from(payload) for payload in payloads]
    left = filter(None, map(sock_diag.seconds_to_end, payloads))
    expire = [each[-5] / 1000 for each in found if each[1] == sock_diag.TCP_TIME_WAIT]
    closed = [sock_diag.TIME_WAIT_SECONDS - seconds for seconds in expire]
    return Connections(closed, tuple(sorted(left)[:MOST_LISTED]), sum(map(sock_diag.has_answer, payloads)))


class _Address(Struct, frozen=True):
    """How to find the listener of one of uWSGI's names: by the first of `spellings` that exists, or by its port."""

    family: Family
    spellings: tuple[str, ...]
    port: str | None = None


_LARGEST_PORT = 65535


@lru_cache(maxsize=4096)
def _address(name: str) -> _Address | None:
    """Parse a name as uWSGI does: TCP if it ends with a port, else UNIX. None if no socket can have the name."""
    if "\0" in name:
        return None
    if not is_tcp(name):
        bound = f"@{name[2:]}" if name.startswith("\\0") else name
        return _Address("unix", (bound, f"@{bound}"))
    host, _, port = name.rpartition(":")
    if len(port) > len(str(_LARGEST_PORT)) or int(port) > _LARGEST_PORT:
        return None
    if host.startswith("["):
        spelled = sock_diag.inet_name(host.strip("[]"), int(port))
        return _Address("inet6", (spelled,) if spelled else ())
    spelled = sock_diag.inet_name(host, int(port))
    # uWSGI resolved the host name. That could block the event loop here, so only the port is compared.
    return _Address("inet", (spelled,)) if spelled else _Address("inet", (), port)


def _measure(match: list[Listener] | str) -> Backlog:
    if isinstance(match, str):
        return Backlog(None, None, match)
    return _sum_up([(listener.queue, listener.limit) for listener in match])


def _sum_up(queues: Sequence[tuple[int, int]]) -> Backlog:
    """The queue of a name, from the queue and limit of each of its listeners: inherited sockets with SO_REUSEPORT may
    share a name. The kernel spreads clients over them, and the workers accept from all."""
    return Backlog(sum([queue for queue, _ in queues]), sum([limit for _, limit in queues]), None)


def _match_all(
    names: Sequence[str], master_pid: int, sockets: _Sockets, shared: ListenerDumps
) -> dict[str, list[Listener] | str]:
    """The listeners of each name, or the reason why they are unknown. Needs one dump per address family."""
    understood = {name: _address(name) for name in names}
    addresses = {name: address for name, address in understood.items() if address}
    refused: dict[str, list[Listener] | str] = dict.fromkeys(understood.keys() - addresses.keys(), _IMPOSSIBLE)
    if sockets.held is None and sockets.near is None:
        return refused | dict.fromkeys(addresses, NOT_VISIBLE.format(master_pid))
    families = {address.family for address in addresses.values()}
    try:
        dumps = _dump_all(families, sockets.held, master_pid, sockets, shared)
    except OSError as refusal:
        return refused | dict.fromkeys(addresses, str(refusal))
    return refused | {name: _match(name, addresses[name], dumps, sockets.held) for name in addresses}


MOST_SECONDS = 0.05
"""How long a list of another network namespace may take: it may have any number of listeners."""


def _list_in_time(family: Family, held: frozenset[int] | None) -> list[Listener]:
    return sock_diag.list_listeners(family, held, seconds=MOST_SECONDS)


def _dump_all(
    families: Iterable[Family], held: frozenset[int] | None, master_pid: int, sockets: _Sockets, shared: ListenerDumps
) -> dict[Family, list[Listener] | str]:
    """The listeners in the master's network namespace, or the reason why they are unknown. Raises OSError with the
    reason if that namespace may not be entered."""
    if sockets.near is False:
        return ask_in_network_of(master_pid, lambda: _dump_here(families, held, _list_in_time))
    return _dump_here(families, held, shared.list_listeners)


def _dump_here(
    families: Iterable[Family],
    held: frozenset[int] | None,
    list_listeners: Callable[[Family, frozenset[int] | None], list[Listener]],
) -> dict[Family, list[Listener] | str]:
    dumps: dict[Family, list[Listener] | str] = {}
    for family in families:
        try:
            dumps[family] = list_listeners(family, held)
        except OSError as error:
            dumps[family] = str(error)
    return dumps


def _match(
    name: str, address: _Address, dumps: dict[Family, list[Listener] | str], held: frozenset[int] | None
) -> list[Listener] | str:
    dump = dumps[address.family]
    if isinstance(dump, str):
        return dump
    matches: list[Listener] = []
    for spelling in address.spellings:
        matches = matches or [each for each in dump if spelling in (each.name, escape_text(each.name))]
    if address.port:
        matches = [listener for listener in dump if listener.name.endswith(f":{address.port}")]
    if not matches:
        return f"uWSGI's master has no listening socket named {name}"
    if len(matches) > 1 and held is None:
        return f"{len(matches)} sockets listen on {name}, and this user may not see which is uWSGI's: {WHO_MAY_KNOW}"
    if len(matches) > 1 and address.port:
        return f"uWSGI listens on port {address.port} at several addresses: configure {name} with an IP address"
    return matches


MOST_TIME = 0.02
"""The share of a CPU that the lists of one family may take. A list takes 0.1 ms on a small host, so that each server
has its own, and 2 ms on a host with 200 servers."""

MOST_SHARED_SECONDS = 0.15
"""The longest age of a list that is used: less than the time between two samples of one server, unless that is set to
less than its default."""


class ListenerDumps:
    """The listening sockets of this network namespace, asked for once for all servers that are read within a moment.
    queues: of those that were found before."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self.queues = sock_diag.Queues()
        self._clock, self._cpu_clock = clock, cpu_clock
        self._last: dict[Family, tuple[float, dict[int, bytes]]] = {}  # each with the time until which it is used

    def list_listeners(self, family: Family, inodes: Collection[int] | None = None) -> list[Listener]:
        """As `sock_diag.list_listeners`; the queues are up to MOST_SHARED_SECONDS old. Raises `OSError`."""
        until, found = self._last.get(family, (float("-inf"), {}))
        if self._clock() >= until:
            at, began = self._clock(), self._cpu_clock()
            found = sock_diag.dump_listeners(family)
            took = self._cpu_clock() - began
            self._last[family] = at + min(MOST_SHARED_SECONDS, took / MOST_TIME), found
        return sock_diag.decode_listeners(family, found, inodes)

    def forget(self) -> None:
        """Ask again next time: sockets were opened since."""
        self._last.clear()


def find_socket_holders(master_pid: int, names: Sequence[str], workers: Mapping[int, int]) -> SocketHolders | None:
    """The ids of the workers that hold each socket, ascending, by socket name. workers: worker ids by pid. None if the
    descriptors of a worker are hidden or the worker has just ended; a socket that is not found is left out.

    With `map-socket`, uWSGI replaces a worker's other sockets by /dev/null; without it, every worker has all sockets.
    """
    read = {worker_id: read_socket_inodes(pid) for pid, worker_id in workers.items()}
    held = {worker_id: inodes for worker_id, inodes in read.items() if inodes is not None}
    if not held or len(held) < len(read):
        return None
    sockets = _Sockets(read_socket_inodes(master_pid), shares_network_namespace(master_pid))
    matches = _match_all(names, master_pid, sockets, ListenerDumps())
    return {
        name: tuple(sorted(each for each, inodes in held.items() if any(one.inode in inodes for one in listeners)))
        for name, listeners in matches.items()
        if not isinstance(listeners, str)
    }


def are_mapped(options: Options, holders: SocketHolders | None, workers: int) -> bool | None:
    """Whether some worker lacks a socket: from the descriptors, or, if those are unknown, the options."""
    if holders:
        return any(len(having) < workers for having in holders.values())
    if options.map_socket or options.complete:
        return bool(options.map_socket)
    return None


class ListenOverflows(Struct, frozen=True):
    """Counts of all TCP listeners of a network namespace since its creation; UNIX sockets are not counted.

    `overflows`: how often a handshake, at its first or last packet, found the queue full (TcpExt ListenOverflows);
    each retry counts again. `drops`: everything that listeners dropped, overflows included (ListenDrops).
    """

    overflows: int
    drops: int
    alone: bool = False
    """Whether every TCP listener of the namespace is known to be the server's own, so that all of this is."""
    opened: int | None = None
    """The connections that clients have made (Tcp PassiveOpens), if there is one listener and requests are not counted.
    at: when that was read, in monotonic seconds."""
    at: float = 0.0


def read_listen_overflows(pid: int | None = None, *, proc: Path = Path("/proc")) -> ListenOverflows | None:
    """The counts in the network namespace of a process, this process by default; None if they cannot be read."""
    with suppress(OSError, ValueError, KeyError):  # a kernel without these counters
        counts = _read_counts(proc / (str(pid) if pid else "self") / "net/netstat", b"TcpExt:")
        return ListenOverflows(counts[b"ListenOverflows"], counts[b"ListenDrops"])
    return None


def read_opened(pid: int) -> int | None:
    """The TCP connections that clients have made to this network namespace since its creation; None if unknown."""
    with suppress(OSError, ValueError, KeyError):
        return _read_counts(Path(f"/proc/{pid}/net/snmp"), b"Tcp:")[b"PassiveOpens"]
    return None


def _read_counts(path: Path, begin: bytes) -> dict[bytes, int]:
    """The numbers by name, of two lines such as `Tcp: Name ...` and `Tcp: number ...`. Raises OSError or ValueError."""
    names, numbers = [line.split()[1:] for line in procfs.read_file(path).splitlines() if line.startswith(begin)][:2]
    return dict(zip(names, map(int, numbers), strict=False))
