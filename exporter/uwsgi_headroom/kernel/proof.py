"""Proves which process here is the master whose PID is in a stats document, and which are its workers.

A PID has a meaning only within one PID namespace, and the document has those of uWSGI's own. Without a proof, a host
fact might be about another process, so there is none; the reason says why and what to do.

There are two proofs. For a UNIX socket, the kernel gives the PID of the peer (SO_PEERCRED, in the reader's own
namespace), and `NSpid` its PID in its own namespace. For TCP on an address of this machine, the process must hold the
listening socket. Either way, a uWSGI in a PID namespace below ours has another PID here than in its document.

Each of its workers then has one as well, and `NSpid` in proc_pid_status(5) lists both. Only children of the proven
master are searched, and only those that are as deep as the master: a child in a namespace of its own may have any
number there.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.kernel import procfs, sock_diag
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.processes import WorkerProcess, list_children
from uwsgi_headroom.kernel.procfs import WHO_MAY_KNOW, read_socket_inodes
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats.server import Snapshot, Worker

T = TypeVar("T")

SPAWN_SECONDS = 5.0
"""How far the start of a process may be from `last_spawn`: whole seconds, of a clock that uWSGI reads once a second."""


class WorkersHere:
    """The PIDs here of one server's workers. depth: as of `Proof`."""

    def __init__(self, master_pid: int = 0, depth: int = 1) -> None:
        self.master_pid = master_pid
        self.depth = depth
        self._numbers: dict[int, int | None] = {}  # by PID here, the PID in the master's namespace
        self._here: dict[int, int] = {}
        self._renamed: dict[int, tuple[WorkerProcess, WorkerProcess]] = {}
        self._snapshots: tuple[Snapshot, Snapshot] | None = None  # the last one, theirs and ours
        self._facts: tuple[HostFacts, HostFacts] | None = None  # the last ones, ours and theirs

    def translate(self, snapshot: Snapshot, *, again: bool) -> Snapshot:
        """The snapshot with the PIDs of its workers here; None for a worker that is no child of the master. again:
        whether to read also those that are known: a PID may be reused."""
        if self.depth == 1:
            return snapshot
        self._find([worker.pid for worker in snapshot.workers if worker.pid], again)
        if self._snapshots is None or self._snapshots[0] is not snapshot:
            workers = [replace(worker, pid=self._here.get(worker.pid or 0)) for worker in snapshot.workers]
            here = replace(snapshot, pid=self.master_pid, workers=tuple(workers))
            self._snapshots = snapshot, here
        return self._snapshots[1]

    def translate_back(self, facts: HostFacts) -> HostFacts:
        """The facts by the PIDs of the stats document; the same object for the same facts."""
        if self.depth == 1:
            return facts
        if self._facts and self._facts[0] is facts:
            return self._facts[1]
        theirs = {here: number for number, here in self._here.items()}
        memory = facts.memory
        if memory and memory.worker:
            memory = replace(memory, worker=replace(memory.worker, unique=_rename(memory.worker.unique, theirs)))
        processes = {
            theirs[pid]: self._rename_process(process, theirs[pid])
            for pid, process in facts.processes.items()
            if pid in theirs
        }
        self._renamed = {pid: self._renamed[pid] for pid in processes}
        translated = replace(
            facts, processes=processes, threads=_rename(facts.threads, theirs), memory=memory, local_pids={**self._here}
        )
        self._facts = facts, translated
        return translated

    def _rename_process(self, process: WorkerProcess, pid: int) -> WorkerProcess:
        """The same object for the same process at rest, which lets others skip it."""
        known = self._renamed.get(pid)
        if known is None or known[0] is not process:
            known = self._renamed[pid] = process, replace(process, pid=pid)
        return known[1]

    def are_serving(self, snapshot: Snapshot) -> bool | None:
        """Whether at least half of the workers in the document are children of the master that began when the document
        says; None if the document has no living worker.

        Most containers count from 1, so equal PIDs alone prove little: the program that listens on a socket may be a
        relay, process 1 of its own container.
        """
        living = [worker for worker in snapshot.workers if worker.pid and worker.last_spawn]
        if not living:
            return None
        if self.depth > 1:
            self._find([worker.pid for worker in living if worker.pid], again=True)
        began = [self._began(worker) for worker in living]
        return 2 * sum(began) >= len(living)

    def _began(self, worker: Worker) -> bool:
        pid = worker.pid if self.depth == 1 else self._here.get(worker.pid or 0)
        stat, start = procfs.read_process_stat(pid or 0), procfs.read_start(pid or 0)
        if stat is None or start is None or stat.parent != self.master_pid:
            return False
        return abs(start - (worker.last_spawn or 0)) <= SPAWN_SECONDS

    def _find(self, pids: Collection[int], again: bool) -> None:
        if again:
            self._numbers = {}
        elif all(pid in self._here for pid in pids):
            return
        children = list_children(self.master_pid)
        self._numbers = {child: self._numbers.get(child) or self._read_number(child) for child in children}
        self._snapshots = self._facts = None
        # Two children have one number only if uWSGI puts them into different namespaces of one depth.
        times = Counter(self._numbers.values())
        self._here = {
            number: child for child, number in self._numbers.items() if number and number in pids and times[number] == 1
        }

    def _read_number(self, pid: int) -> int | None:
        numbers = read_pid_numbers(pid)
        return numbers[-1] if len(numbers) == self.depth else None


def _rename(by_pid: Mapping[int, T], names: Mapping[int, int]) -> dict[int, T]:
    return {names[pid]: value for pid, value in by_pid.items() if pid in names}


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
    try:
        if read_pid_numbers("self") != (os.getpid(),):
            raise OSError(_OTHER_PROC)
        if listener is not None:
            pid = _find_listener(document_pid, *listener, search)
        elif peer_pid is not None:
            pid = _check_peer(document_pid, peer_pid)
        else:
            raise OSError("the stats did not come from a socket: read them from uWSGI's own stats server")
        numbers = read_pid_numbers(pid)
        if not numbers:
            raise OSError(f"/proc hides process {pid} from this user: {_SHOW}")
        if numbers[-1] != document_pid:
            raise OSError(
                f"process {pid} runs in another PID namespace, where its PID is {numbers[-1]}, so it is not the uWSGI "
                f"whose stats say {document_pid}: read uWSGI's own stats socket, not a proxy's"
            )
        return Proof(pid, None, len(numbers))
    except OSError as reason:
        return Proof(None, str(reason))


_SHOW = "add the exporter to the group of the mount option gid="
_OTHER_PROC = "/proc belongs to another PID namespace than the exporter: mount the exporter's own procfs on /proc"


def _check_peer(document_pid: int, peer_pid: int) -> int:
    """The process at the other end of a UNIX socket. Raises OSError with the reason if it is another one."""
    if peer_pid == 0:
        raise OSError(
            "uWSGI runs in a PID namespace that the exporter cannot see: share the namespace (Docker --pid, "
            "Kubernetes shareProcessNamespace), or run the exporter where uWSGI runs"
        )
    numbers = read_pid_numbers(peer_pid)
    if peer_pid == document_pid or not numbers or numbers[-1] == document_pid:
        return peer_pid
    raise OSError(
        f"the stats are those of process {document_pid}, but process {peer_pid} listens on their socket: read "
        "uWSGI's own stats socket, not a proxy's"
    )


def _find_listener(document_pid: int, host: str, port: int, search: Search) -> int:
    """The process that listens on this address of this machine. Raises OSError with the reason if there is none."""
    inodes = _find_inodes(host.partition("%")[0], port)  # without an IPv6 scope
    held = read_socket_inodes(document_pid)
    if held is not None and not inodes.isdisjoint(held) and len(read_pid_numbers(document_pid)) == 1:
        return document_pid
    if found := search(document_pid, inodes):
        return found
    if held is None and os.path.exists(f"/proc/{document_pid}"):
        raise OSError(
            f"this user may not see whether process {document_pid} is the stats server: let uWSGI serve "
            f"its stats on a UNIX socket, which needs no privilege, or {WHO_MAY_KNOW}"
        )
    raise OSError(
        f"the stats are those of process {document_pid}, but here that process does not listen on port {port}: "
        "uWSGI is behind a proxy, or in another PID namespace (read its stats from a UNIX socket)"
    )


def _find_inodes(host: str, port: int) -> set[int]:
    """The listening sockets of an address of this machine. Raises OSError with the reason if there is none here."""
    if not is_here(host):
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


def is_here(host: str) -> bool:
    """Whether a numeric address is this machine's: only then is it also the source of a connection to it.

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


SEARCH_SECONDS = 0.01
"""How long one search may take; the next one continues where it ended. A process takes 0.03 ms."""

PAUSE_SECONDS = 60.0
"""How long to wait after all processes were searched in vain."""


class Prover:
    """Proves the master of one server repeatedly: searches other PID namespaces, and refuses relays. It recognizes a
    process that was searched or doubted once."""

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
            self._left = [*procfs.list_processes()][::-1]
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
    stat = procfs.read_process_stat(pid)
    return -1 if stat is None or stat.has_ended else stat.start
