"""What the kernel of this host says of one server, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uwsgi_headroom.kernel.available_memory import AvailableMemory
from uwsgi_headroom.kernel.backlogs import Backlog
from uwsgi_headroom.kernel.cpus import UsableCpus
from uwsgi_headroom.kernel.identity import Identity
from uwsgi_headroom.kernel.netstat import ListenOverflows
from uwsgi_headroom.kernel.oom import OomKills
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.kernel.residency import Threads
from uwsgi_headroom.kernel.server_cpu import CpuTimes
from uwsgi_headroom.kernel.setup import Setup
from uwsgi_headroom.kernel.worker_memory import WorkerMemory


@dataclass(frozen=True, slots=True)
class Memory:
    """What the workers of a server take, and what is available for more of them. None: unknown."""

    worker: WorkerMemory | None
    available: AvailableMemory | None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the kernel of this host says of a server.

    off: why it can say nothing of its processes, as a sentence for an operator; None where it can.
    processes: by pid, only processes proven to be this server's workers.
    master_affinity: CPUs that the master may run on, which its workers inherit.
    backlogs: by socket name as it stands in the stats document.
    threads: by pid, where CPU residency is asked for.
    memory: of its workers, and available for more of them.
    setup: how the server is set up, where its master is proven.
    identity: which server it is, where its master is proven.
    oom_kills: how often the kernel has killed for want of memory, as of when the slow facts were read.
    cpu_times: CPU idle and used where the server could use it; the same object until there is a newer reading.
    """

    off: str | None = None
    processes: Mapping[int, WorkerProcess] = field(default_factory=dict)
    master_affinity: tuple[int, ...] | None = None
    backlogs: Mapping[str, Backlog] = field(default_factory=dict)
    cpus: UsableCpus | None = None
    overflows: ListenOverflows | None = None
    threads: Mapping[int, Threads] = field(default_factory=dict)
    memory: Memory | None = None
    setup: Setup | None = None
    cpu_times: CpuTimes | None = None
    identity: Identity | None = None
    oom_kills: OomKills | None = None
