"""Proves which process here is the master whose PID is in a stats document.

A PID has a meaning only within one PID namespace, and the document has those of uWSGI's own. Without a proof, a host
fact might be about another process, so there are no host facts; the reason says why and what to do. The page and the
log show the reason to the operator.

There are two proofs. For a UNIX socket, the kernel gives the PID of the peer (SO_PEERCRED, in the reader's own
namespace), and `NSpid` its PID in its own namespace. For TCP on an address of this machine, the process must hold the
listening socket. Either way, a uWSGI in a PID namespace below ours has another PID here than in its document.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from collections.abc import Callable, Collection

from msgspec import Struct

from uwsgi_headroom.kernel import procfs, sock_diag
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.procfs import WHO_MAY_KNOW, read_socket_inodes
from uwsgi_headroom.kernel.workers_here import WorkersHere
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats.server import Snapshot

Search = Callable[[int, Collection[int]], "int | None"]
"""Finds the process that holds one of these socket inodes and has this PID in its own PID namespace."""


class Proof(Struct, frozen=True):
    """The proven PID of the master here; or None, with the `reason` and what to do about it. depth: how many PID
    namespaces the master is in, as seen from here; 1 if its PIDs are ours."""

    pid: int | None
    reason: str | None
    depth: int = 1


def prove_master_pid(
    document_pid: int,
    *,
    peer_pid: int | None,
    listener: tuple[str, int] | None,
    search: Search = lambda _pid, _inodes: None,
) -> Proof:
    """Try to prove which process here has `document_pid`, the PID in uWSGI's stats, in its own PID namespace.

    `peer_pid` is the PID of SO_PEERCRED if the stats came from a UNIX socket; `listener` is the remote address of the
    connection (getpeername(2)) if they came over TCP. `search` looks for a master in another PID namespace, which
    takes long; only for TCP.
    """
    pid: int | None = document_pid
    if read_pid_numbers("self") != (os.getpid(),):
        return Proof(None, _OTHER_PROC)
    if listener is not None:
        pid, reason = _find_listener(document_pid, *listener, search)
    elif peer_pid is not None:
        pid, reason = peer_pid, _doubt_peer(document_pid, peer_pid)
    else:
        reason = "the stats did not come from a socket: read them from uWSGI's own stats server"
    if reason or pid is None:
        return Proof(None, reason)
    numbers = read_pid_numbers(pid)
    reason = _doubt_numbers(document_pid, pid, numbers)
    return Proof(None, reason) if reason else Proof(pid, None, len(numbers))


_OTHER_PROC = "/proc belongs to another PID namespace than the exporter: mount the exporter's own procfs on /proc"


def _doubt_peer(document_pid: int, peer_pid: int) -> str | None:
    if peer_pid == 0:
        return (
            "uWSGI runs in a PID namespace that the exporter cannot see: share the namespace (Docker --pid, "
            "Kubernetes shareProcessNamespace), or run the exporter where uWSGI runs"
        )
    numbers = read_pid_numbers(peer_pid)
    if peer_pid == document_pid or not numbers or numbers[-1] == document_pid:
        return None
    return (
        f"the stats are those of process {document_pid}, but process {peer_pid} listens on their socket: read "
        "uWSGI's own stats socket, not a proxy's"
    )


def _find_listener(document_pid: int, host: str, port: int, search: Search) -> tuple[int | None, str | None]:
    """The process that listens on this address of this machine; or None and the reason."""
    try:
        inodes = _find_inodes(host.partition("%")[0], port)  # without an IPv6 scope
    except OSError as error:
        return None, str(error)
    held = read_socket_inodes(document_pid)
    if held is not None and not inodes.isdisjoint(held) and len(read_pid_numbers(document_pid)) == 1:
        return document_pid, None
    if found := search(document_pid, inodes):
        return found, None
    if held is None and os.path.exists(f"/proc/{document_pid}"):
        return None, (
            f"this user may not see whether process {document_pid} is the stats server: let uWSGI serve "
            f"its stats on a UNIX socket, which needs no privilege, or {WHO_MAY_KNOW}"
        )
    return None, (
        f"the stats are those of process {document_pid}, but here that process does not listen on port {port}: "
        "uWSGI is behind a proxy, or in another PID namespace (read its stats from a UNIX socket)"
    )


def _find_inodes(host: str, port: int) -> set[int]:
    """The listening sockets of an address of this machine. Raises OSError with the reason if there is none here."""
    if not _is_here(host):
        raise OSError(
            f"the stats server is on another host ({host}): run an exporter there, beside uWSGI; if it is a container "
            "of this host, read its stats from a UNIX socket on a shared volume"
        )
    names = {sock_diag.inet_name(host, port), f"0.0.0.0:{port}", f"[::]:{port}"}
    listening = sock_diag.list_listeners("inet") + sock_diag.list_listeners("inet6")
    inodes = {listener.inode for listener in listening if listener.name in names}
    if not inodes:
        raise OSError(
            f"nothing listens on {host} port {port} in this network namespace, so uWSGI runs in another one: "
            "run the exporter there, or read the stats from a UNIX socket"
        )
    return inodes


def _is_here(host: str) -> bool:
    """Whether a numeric address belongs to this machine: only then is it also the source address of a connection to it.

    Sends nothing. Binding to the address would prove nothing: net.ipv4.ip_nonlocal_bind allows any address.
    """
    try:
        address = ipaddress.ip_address(host)
        if address.is_loopback:
            return True
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))
            return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except (OSError, ValueError):
        return False


def _doubt_numbers(document_pid: int, pid: int, numbers: tuple[int, ...]) -> str | None:
    """Why `pid` here may be another process than the one in the document; `numbers` are its PIDs (NSpid)."""
    if not numbers:
        return f"/proc hides process {pid} from this user: add the exporter to the group of the mount option gid="
    if numbers[-1] != document_pid:
        return (
            f"process {pid} runs in another PID namespace, where its PID is {numbers[-1]}, so it is not the uWSGI "
            f"whose stats say {document_pid}: read uWSGI's own stats socket, not a proxy's"
        )
    return None


SEARCH_SECONDS = 0.01
"""How long one search may take; the next one continues where it ended. A process takes 0.03 ms."""

PAUSE_SECONDS = 60.0
"""How long to wait after all processes were searched in vain."""


class Prover:
    """Proves the master of one server repeatedly: searches other PID namespaces, and refuses relays. A process that was
    searched or doubted once is recognized."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: int | None = None
        self._left: list[int] = []
        self._not_before = float("-inf")
        self._believed: tuple[int, int] | None = None  # the PID here and the start of the process

    def prove(self, snapshot: Snapshot, answer: Answer) -> Proof:
        """The proof for the server that gave this answer."""
        proof = prove_master_pid(snapshot.pid, peer_pid=answer.peer_pid, listener=answer.peer, search=self._search)
        if proof.pid is None or (proof.depth == 1 and snapshot.pid != 1):
            self._believed = None
            return proof
        process = proof.pid, read_start_ticks(proof.pid)
        if process != self._believed:
            serving = WorkersHere(proof.pid, proof.depth).are_serving(snapshot)
            self._believed = process if serving else None
            if serving is False:
                return Proof(None, _RELAY.format(proof.pid, snapshot.pid))
        return proof

    def still_holds(self) -> bool:
        """Whether the process of the last proof still lives, if it is in a PID namespace below ours. Other processes
        are recognized by their pid: that of a restarted container is always 1."""
        return self._believed is None or self._believed[1] == read_start_ticks(self._believed[0])

    def _search(self, document_pid: int, inodes: Collection[int]) -> int | None:
        """Look for the process with this PID in a namespace below ours that holds one of these sockets."""
        if self._found is not None and _is_listener(self._found, document_pid, inodes):
            return self._found
        self._found = None
        if not self._left and self._clock() >= self._not_before:
            self._left = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())
        end = time.monotonic() + SEARCH_SECONDS
        while self._left and time.monotonic() < end:
            pid = self._left.pop()  # the youngest first
            if _is_listener(pid, document_pid, inodes):
                self._found, self._left = pid, []
                return pid
            if not self._left:
                self._not_before = self._clock() + PAUSE_SECONDS
        return None


_RELAY = (
    "process {} listens on the stats socket, and is process {} in its PID namespace like the master, but the workers "
    "in the stats are not its children: read uWSGI's own stats socket, not a proxy's"
)


def _is_listener(pid: int, document_pid: int, inodes: Collection[int]) -> bool:
    numbers = read_pid_numbers(pid)
    if len(numbers) < 2 or numbers[-1] != document_pid:
        return False
    held = read_socket_inodes(pid)
    return held is not None and not held.isdisjoint(inodes)


def read_start_ticks(pid: int) -> int:
    """The start of a process, in clock ticks since boot; -1 if it has ended or is hidden."""
    try:
        fields = procfs.read_stat_fields(f"/proc/{pid}/stat")
        return -1 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return -1
