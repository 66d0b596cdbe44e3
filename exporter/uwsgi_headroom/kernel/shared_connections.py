"""Finds connections that several workers share, because they were opened before uWSGI forked them.

The workers of one master inherit its descriptors, each under the same number. So a connection that two of them have is
or was a descriptor of the master; only the master's are looked at, and then the same numbers in the workers. What uWSGI
itself shares is no connection to another server: listening sockets, socket pairs, datagrams, logs.

It takes the right to read the master's and the workers' descriptors (`procfs.read_socket_inodes`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from uwsgi_headroom.kernel.namespaces import find_elsewhere
from uwsgi_headroom.kernel.waits.descriptors import list_sockets, read_socket
from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.surroundings import SharedConnection

LOOK_SECONDS = 10.0
"""Seconds between two looks: a system call for each descriptor of the master, and for each worker and candidate."""

MOST_CANDIDATES = 16
MOST_WORKERS = 64


class SharedConnections:
    """Looks at the descriptors of one server again and again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._peers = Peers(clock)
        self._looked_at = float("-inf")
        self._pids: frozenset[int] = frozenset()
        self._found: dict[int, SharedConnection] = {}

    def read(self, master_pid: int, pids: Collection[int]) -> tuple[SharedConnection, ...]:
        """The shared connections as of the last look; none if they cannot be seen. pids: the workers. Never raises."""
        now, workers = self._clock(), frozenset(pids)
        if now - self._looked_at >= LOOK_SECONDS or (self._found and workers != self._pids):
            self._looked_at, self._pids = now, workers
            self._found = dict(self._look(master_pid, sorted(workers)[:MOST_WORKERS]))
        return tuple(self._found.values())

    @property
    def inodes(self) -> Collection[int]:
        return self._found.keys()

    def _look(self, master_pid: int, workers: list[int]) -> Iterator[tuple[int, SharedConnection]]:
        sockets = list_sockets(master_pid)
        if len(workers) < 2 or not sockets:
            return
        self._peers.learn(list(sockets.values()), elsewhere=find_elsewhere(master_pid))
        candidates = [
            (descriptor, inode, peer.address)
            for descriptor, inode in sockets.items()
            if (peer := self._peers.get(inode)) and peer.kind == "backend"
        ]
        for descriptor, inode, address in candidates[:MOST_CANDIDATES]:
            holders = sum([read_socket(pid, descriptor) == inode for pid in workers])
            if holders > 1:
                yield inode, SharedConnection(address, holders)
