"""Proves the master of one server repeatedly: searches other PID namespaces, and refuses relays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.descriptors import read_socket_inodes
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.proof import Proof, prove_master_pid
from uwsgi_headroom.kernel.workers_here import WorkersHere
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats.server import Snapshot

SEARCH_SECONDS = 0.01
"""How long one search may take; the next one continues where it ended. A process takes 0.03 ms."""

PAUSE_SECONDS = 60.0
"""How long to wait after all processes were searched in vain."""


class Prover:
    """Proves the master of one server; a process that was searched or doubted once is recognized."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: int | None = None
        self._left: list[int] = []
        self._not_before = float("-inf")
        self._believed: tuple[int, int] | None = None  # the pid here and the start of the process

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
        """Look for the process with this pid in a namespace below ours that holds one of these sockets."""
        if self._found is not None and _is_listener(self._found, document_pid, inodes):
            return self._found
        self._found = None
        if not self._left and self._clock() >= self._not_before:
            self._left = _list_processes()
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


def _list_processes() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())


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
