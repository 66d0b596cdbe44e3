"""The listen queues of uWSGI's sockets: the names in its stats document matched to the kernel's listeners.

uWSGI itself reports 0 for UNIX sockets on every ordinary Linux, and a second old for TCP. How its names
look, seen on 2.0.31: what was configured, unchanged (`app.sock` relative to where uWSGI started, `@name` or
`\\0name` if abstract, `:8080`, `[::1]:3031`, `localhost:3031`), save that a port 0 is replaced by the real
one; for an inherited descriptor (`fd://`, systemd, the emperor, zerg) what getsockname(2) says, an abstract
name without its `@`. A socket configured twice stands there twice and is one. The public port of `http` and
of the other routers is not there.

A queue is never guessed. Among the descriptors of the proven master a name is certain. Where they may not
be read it is certain too if this is the master's network namespace and one socket alone has that name: the
master says it listens on it, and every listener is in the dump. Else it cannot be measured, and `reason`
says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.descriptors import WHO_MAY_KNOW, read_socket_inodes
from uwsgi_headroom.kernel.namespaces import shares_network_namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uwsgi_headroom.kernel.sock_diag import Family, Listener


@dataclass(frozen=True, slots=True)
class Backlog:
    """Connections waiting in a listen queue and how many may; or None and None, and why they cannot be
    measured.

    `queue` is one above `limit` when the queue is full.
    """

    queue: int | None
    limit: int | None
    reason: str | None

    @property
    def is_full(self) -> bool:
        """Whether the queue was at its limit, so that the next connection is refused (UNIX) or dropped (TCP)."""
        return self.queue is not None and bool(self.limit) and self.queue >= (self.limit or 0)


_UNPROVEN = "it is not proven that uWSGI runs here as the process it says it is, and so whose sockets to look at"

_IMPOSSIBLE = "no socket can have the name that uWSGI gives: it has a NUL byte in it, or a port above 65535"


class Backlogs:
    """Reads the queues of one server, again and again: the master's descriptors are listed once and kept."""

    def __init__(self) -> None:
        self._master_pid: int | None = None
        self._held: frozenset[int] | None = None

    def read(self, master_pid: int | None, names: Sequence[str]) -> dict[str, Backlog]:
        """The queue behind each of uWSGI's socket names; `master_pid` is the proven one, or None."""
        if master_pid is None:
            return dict.fromkeys(names, Backlog(None, None, _UNPROVEN))
        held = self._held if master_pid == self._master_pid else None
        backlogs = _measure_all(names, master_pid, held) if held is not None else {}
        if held is None or any(backlog.reason for backlog in backlogs.values()):
            # A reload gives some sockets new inodes: those of named hosts, and of names that begin with \0.
            self._master_pid, self._held = master_pid, read_socket_inodes(master_pid)
            if held is None or self._held != held:
                backlogs = _measure_all(names, master_pid, self._held)
        return backlogs


def is_tcp(name: str) -> bool:
    """Whether uWSGI's name of a socket is one of TCP, whose overflows the kernel counts."""
    _, colon, port = name.rpartition(":")
    return bool(colon) and port.isdecimal() and not name.startswith(("/", "@"))


@dataclass(frozen=True, slots=True)
class _Address:
    """Where one of uWSGI's names may be found: the first of `spellings` that exists, or else its port."""

    family: Family
    spellings: tuple[str, ...]
    port: str | None = None


_LARGEST_PORT = 65535


def _address(name: str) -> _Address | None:
    """Understand a name as uWSGI does: TCP if it has a port after its last colon, else UNIX. None if no socket can
    have it."""
    if "\0" in name:
        return None
    if is_tcp(name):
        host, _, port = name.rpartition(":")
        if len(port) > len(str(_LARGEST_PORT)) or int(port) > _LARGEST_PORT:
            return None
        if host.startswith("["):
            spelled = sock_diag.inet_name(host.strip("[]"), int(port))
            return _Address("inet6", (spelled,) if spelled else ())
        spelled = sock_diag.inet_name(host, int(port))
        # uWSGI asked the resolver for the host's name. An event loop must not, so the port has to be enough.
        return _Address("inet", (spelled,)) if spelled else _Address("inet", (), port)
    bound = f"@{name[2:]}" if name.startswith("\\0") else name
    return _Address("unix", (bound, f"@{bound}"))


def find_inodes(master_pid: int, names: Sequence[str]) -> dict[str, frozenset[int]]:
    """The inodes of the listening sockets behind each of uWSGI's names; a name that cannot be matched is left out."""
    matches = _match_all(names, master_pid, read_socket_inodes(master_pid))
    return {
        name: frozenset(listener.inode for listener in listeners)
        for name, listeners in matches.items()
        if not isinstance(listeners, str)
    }


def _measure_all(names: Sequence[str], master_pid: int, held: frozenset[int] | None) -> dict[str, Backlog]:
    """Measure each name's queue."""
    return {name: _measure(match) for name, match in _match_all(names, master_pid, held).items()}


def _measure(match: list[Listener] | str) -> Backlog:
    if isinstance(match, str):
        return Backlog(None, None, match)
    # Two sockets of the master with one name: inherited ones with SO_REUSEPORT. Clients are spread over
    # them and the workers accept from all, so what waits, and what may wait, is their sum.
    return Backlog(sum(listener.queue for listener in match), sum(listener.limit for listener in match), None)


def _match_all(names: Sequence[str], master_pid: int, held: frozenset[int] | None) -> dict[str, list[Listener] | str]:
    """The listeners behind each name, or why they are not known, with one dump for each family that occurs."""
    understood = {name: _address(name) for name in names}
    addresses = {name: address for name, address in understood.items() if address}
    refused: dict[str, list[Listener] | str] = dict.fromkeys(understood.keys() - addresses.keys(), _IMPOSSIBLE)
    if held is None and (refusal := _doubt_network(master_pid)):
        return refused | dict.fromkeys(addresses, refusal)
    dumps: dict[Family, list[Listener] | str] = {}
    for family in {address.family for address in addresses.values()}:
        try:
            dumps[family] = sock_diag.list_listeners(family, held)
        except OSError as error:
            dumps[family] = str(error)
    return refused | {name: _match(name, addresses[name], dumps, master_pid, held) for name in addresses}


def _match(
    name: str,
    address: _Address,
    dumps: dict[Family, list[Listener] | str],
    master_pid: int,
    held: frozenset[int] | None,
) -> list[Listener] | str:
    dump = dumps[address.family]
    if isinstance(dump, str):
        return dump
    matches: list[Listener] = []
    for spelling in address.spellings:
        matches = matches or [listener for listener in dump if listener.name == spelling]
    if address.port:
        matches = [listener for listener in dump if listener.name.endswith(f":{address.port}")]
    if not matches:
        return _doubt_network(master_pid) or f"uWSGI's master has no listening socket of the name {name}"
    if len(matches) > 1 and held is None:
        return f"{len(matches)} sockets listen on {name}, and which is uWSGI's is hidden: {WHO_MAY_KNOW}"
    if len(matches) > 1 and address.port:
        return f"uWSGI listens on port {address.port} at several addresses: name {name} by its number"
    return matches


def _doubt_network(master_pid: int) -> str | None:
    """Why a dump, which is of our own network namespace, lacks the master's sockets; None if it has them."""
    same = shares_network_namespace(master_pid)
    if same is None:
        return f"process {master_pid} cannot be seen: it is gone, or /proc hides it (mount option hidepid)"
    if not same:
        return "uWSGI runs in another network namespace: run the exporter in it (same container or pod)"
    return None
