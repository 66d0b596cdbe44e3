"""The kernel's facts about one server, as one value, and its table of tracked connections."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct, field

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.backlogs import ListenOverflows
from uwsgi_headroom.kernel.cpus import CpuTimes, Throttling, UsableCpus
from uwsgi_headroom.kernel.memory import AvailableMemory, OomKills, WorkerMemory
from uwsgi_headroom.kernel.processes import Threads, WorkerProcess
from uwsgi_headroom.kernel.setup import MasterIdentity
from uwsgi_headroom.record import Backlog, Blocker, Setup, Waiting, Waits
from uwsgi_headroom.surroundings import RoleUse, SharedConnection, Tasks, TrackedConnections, WaysIn


@lru_cache(maxsize=1)
def read_table(_period: int) -> TrackedConnections | None:
    """Return the table of this network namespace, None if connections are not tracked or this is not known. It is read
    once for all servers while the caller's count of periods does not change: it has a line for each CPU."""
    with contextlib.suppress(OSError, ValueError):
        most = int(procfs.read_file("/proc/sys/net/netfilter/nf_conntrack_max"))
        head, *lines = procfs.read_file("/proc/net/stat/nf_conntrack").splitlines()
        rows = [dict(zip(head.split(), line.split(), strict=False)) for line in lines]  # one for each CPU
        if rows and most:
            entries = max(int(row.get(b"entries", b"0"), 16) for row in rows)  # each has that of all CPUs
            return TrackedConnections(entries, most, sum(int(row.get(b"drop", b"0"), 16) for row in rows))
    return None


class Memories(Struct, frozen=True):
    """The memory of a server's workers, and the memory available for more workers. None: unknown."""

    worker: WorkerMemory | None
    available: AvailableMemory | None


class HostFacts(Struct, frozen=True):
    """The kernel's facts about a server. If the master's PID is not proven, only `off` and `backlogs` are set.

    Processes have the PIDs of the stats document: those in uWSGI's own PID namespace.
    """

    off: str | None = None
    """Why there are no facts about the server's processes, as a sentence for an operator; None if there are."""
    processes: Mapping[int, WorkerProcess] = field(default_factory=dict)
    """The workers' processes, by PID; each is a child of the proven master."""
    master_affinity: tuple[int, ...] | None = None
    """The CPUs that the master may run on, which its workers inherit."""
    backlogs: Mapping[str, Backlog] = field(default_factory=dict)
    """By socket name as in the stats document."""
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    """The connections in queues that are not empty, by socket name; without those that cannot be listed."""
    cpus: UsableCpus | None = None

    throttling: Throttling | None = None
    """How often the CPU quota has stopped the server's processes, as of the last slow reading; None without a quota."""
    limits_off: str | None = None
    """Why the limits of the server's cgroups are unknown, and so `cpus` and the available memory."""
    overflows: ListenOverflows | None = None

    tracked: TrackedConnections | None = None
    """The table of tracked connections, of a server with TCP sockets in the exporter's own network namespace, as of the
    last slow reading."""
    tasks: Tasks | None = None
    """The limit of processes and threads of the master's cgroups, as of the last slow reading."""
    threads: Mapping[int, Threads] = field(default_factory=dict)
    """The threads of each process, by PID, if CPU residency is enabled."""
    memory: Memories | None = None
    setup: Setup | None = None

    cpu_times: CpuTimes | None = None
    """Idle and used time of the CPUs that the server may use; the same object until the next reading."""
    starved: int = 0
    """Threads of a worker that want the interpreter lock while it is idle."""
    unrequested: int = 0
    """TCP connections that uWSGI closed, and clients did not, since it last counted a request."""
    left: tuple[float, ...] = ()
    """Of the TCP connections that clients have closed, and uWSGI has not: for how long each client waited, without
    those on which uWSGI has sent something."""
    answered: int = 0
    """The number of the latter: their clients have their response, and uWSGI's thread is not free yet."""
    clients: tuple[int, int] = (0, 0)
    """How many clients were seen in service in the last minute, and how many of them had left, without stats."""
    identity: MasterIdentity | None = None

    oom_kills: OomKills | None = None
    """How often the kernel has killed a process because memory ran out, as of the last slow reading."""
    waits: Waits | None = None
    """What the request threads wait for at this instant; None if that is switched off."""
    starts: Mapping[int, Blocker] = field(default_factory=dict)
    """What the workers wait for that do not accept requests yet, by worker id, as of the last slow reading."""
    roles: tuple[RoleUse, ...] = ()
    """uWSGI's processes that are no workers, by role, as of the last look."""
    shared_connections: tuple[SharedConnection, ...] = ()
    """Connections that workers share, as of the last look; none if descriptors are hidden."""
    spooled: Mapping[str, int] = field(default_factory=dict)
    """The number of tasks in the directory of each spooler, by its name in the document, as of the last slow reading;
    without those that this user may not list."""
    ways_in: WaysIn = WaysIn()
    master_pid: int | None = None
    """The PID of the proven master here."""
    local_pids: Mapping[int, int] = field(default_factory=dict)
    """The PIDs of the workers here, by that in the document; empty if they are equal, as without namespaces."""

    def local_pid(self, pid: int) -> int | None:
        """The PID here of a worker; None if the worker is not proven."""
        return self.local_pids.get(pid) if self.local_pids else pid if pid in self.processes else None
