"""One reading of a server: the stats document, the kernel's figures at the same instant, and the time of both."""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.kernel.backlogs import Backlog
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.routes.served import ServedRoutes
from uwsgi_headroom.stats import AnySnapshot, Snapshot
from uwsgi_headroom.stats.server import Worker


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a server.

    at: the monotonic time, in seconds, at which the document was complete; rates use differences of this.
    time: the same instant in epoch seconds, for the age of timestamps that uWSGI writes.
    read_seconds: from connecting to the last byte; transfer_seconds: from the first byte to the last, while uWSGI's
    master was blocked; document_bytes: size of the document. routes: of the requests in service; None if they are off.
    """

    at: float
    time: float
    read_seconds: float
    transfer_seconds: float
    document_bytes: int
    snapshot: AnySnapshot
    host: HostFacts
    routes: ServedRoutes | None = None

    def listen_queues(self) -> dict[str, Backlog]:
        """Return each socket's queue: from the kernel, else uWSGI's figure (TCP only), else None and the reason."""
        if not isinstance(self.snapshot, Snapshot):
            return {}
        queues: dict[str, Backlog] = {}
        for socket in self.snapshot.sockets:
            backlog = self.host.backlogs.get(socket.name) or Backlog(None, None, "the kernel was not asked")
            if backlog.queue is None and socket.queue is not None:
                backlog = Backlog(socket.queue, socket.limit, None)
            queues[socket.name] = backlog
        return queues

    def process_is_missing(self, worker: Worker) -> bool:
        """Whether a worker's process is gone before uWSGI's master has noticed. Its requests in service are lost."""
        return worker.pid is not None and self.host.off is None and worker.pid not in self.host.processes

    def busy_threads(self, worker: Worker) -> int | None:
        """Count a worker's busy threads; 0 if its process is gone, because busy flags stay set until a respawn."""
        return 0 if worker.busy_threads and self.process_is_missing(worker) else worker.busy_threads

    def has_same_master(self, before: Reading) -> bool | None:
        """Whether the master is the process of an earlier reading. None if that is unknown: a uWSGI that is process 1
        of its container is process 1 after a restart, too."""
        ours, theirs = self.host, before.host
        if self.snapshot.pid != before.snapshot.pid:
            return False
        if ours.master_pid is None or theirs.master_pid is None:
            return None if self.snapshot.pid == 1 else True
        if ours.master_pid != theirs.master_pid:
            return False
        now, then = (facts.identity.started if facts.identity else None for facts in (ours, theirs))
        return now is None or then is None or abs(now - then) < _SAME_START


_SAME_START = 1.0
"""Seconds between two figures of one start: each is derived from the time since boot, by a clock that is adjusted."""
