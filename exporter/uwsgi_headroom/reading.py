"""What one look at a server brought: the document, what the kernel says of the same instant, and when that was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uwsgi_headroom.kernel.backlogs import Backlog
from uwsgi_headroom.kernel.cpus import UsableCpus
from uwsgi_headroom.kernel.netstat import ListenOverflows
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.stats import AnySnapshot


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the kernel of this host says of a server.

    off: why it can say nothing of its processes, as a sentence for an operator; None where it can.
    processes: by pid, only processes proven to be this server's workers.
    backlogs: by socket name as it stands in the stats document.
    """

    off: str | None = None
    processes: Mapping[int, WorkerProcess] = field(default_factory=dict)
    backlogs: Mapping[str, Backlog] = field(default_factory=dict)
    cpus: UsableCpus | None = None
    overflows: ListenOverflows | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a server.

    at: the monotonic instant, in seconds, at which the document was whole; differences are taken over this.
    time: the same instant in epoch seconds, for ages of what uWSGI dates.
    read_seconds: from connecting to the last byte; document_bytes: what came.
    """

    at: float
    time: float
    read_seconds: float
    document_bytes: int
    snapshot: AnySnapshot
    host: HostFacts
