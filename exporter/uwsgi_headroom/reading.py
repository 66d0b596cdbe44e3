"""What one look at a server brought: the document, what the kernel says of the same instant, and when that was."""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.kernel.backlogs import Backlog
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.stats import AnySnapshot, Snapshot
from uwsgi_headroom.stats.server import Worker


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a server.

    at: the monotonic instant, in seconds, at which the document was whole; differences are taken over this.
    time: the same instant in epoch seconds, for ages of what uWSGI dates.
    read_seconds: from connecting to the last byte; transfer_seconds: from the first byte to the last, in which uWSGI's
    master was held; document_bytes: what came.
    """

    at: float
    time: float
    read_seconds: float
    transfer_seconds: float
    document_bytes: int
    snapshot: AnySnapshot
    host: HostFacts

    def listen_queues(self) -> dict[str, Backlog]:
        """Each socket's queue: the kernel's word, else uWSGI's own where it has one (TCP), else None and the reason."""
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
        """Whether a worker's process is gone although uWSGI's master has not noticed: what it had in hand is lost."""
        return worker.pid is not None and self.host.off is None and worker.pid not in self.host.processes

    def busy_threads(self, worker: Worker) -> int | None:
        """Threads of a worker that really serve a request: a dead process's flags stay up until a respawn."""
        return 0 if worker.busy_threads and self.process_is_missing(worker) else worker.busy_threads
