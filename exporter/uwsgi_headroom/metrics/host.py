"""What the kernel reports about a server: its worker processes, memory and CPUs, and its listen queues.

Figures of processes are absent if their PIDs are not proven to be of this host.
"""

from __future__ import annotations

from uwsgi_headroom.analysis.capacity import count_more_workers
from uwsgi_headroom.analysis.worker_states import count_workers_sharing_one_cpu, count_workers_with_own_sockets
from uwsgi_headroom.kernel.backlogs import ListenOverflows
from uwsgi_headroom.kernel.memory import AvailableMemory
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.metrics.family import ObservedServer, Rows, Slot, each_found, each_part, each_server, each_summed
from uwsgi_headroom.record import Backlog
from uwsgi_headroom.surroundings import RoleUse

PROCESS: Rows[WorkerProcess] = {
    "uwsgi_worker_cpu_seconds_total{mode}": (
        "CPU time of the worker process, all threads. A Python interpreter can use one CPU: a rate near 1 means that "
        "the worker is saturated.",
        lambda process: {"user": process.cpu_user_seconds, "system": process.cpu_system_seconds},
    ),
    "uwsgi_worker_context_switches_total{kind}": (
        "Context switches of the worker's main thread: voluntary (it waits) or involuntary (the kernel preempts it).",
        lambda process: {
            "voluntary": process.voluntary_context_switches,
            "involuntary": process.involuntary_context_switches,
        },
    ),
    "uwsgi_worker_open_fds": ("Open files and sockets of the worker process.", lambda process: process.open_fds),
}

RESIDENT: Rows[Slot] = {
    "uwsgi_worker_resident_memory_bytes": (
        "Resident memory of the worker process, including pages shared with other workers. From uWSGI's memory-report "
        "if the process is not visible.",
        lambda slot: (slot.process or slot.worker).resident_bytes,
    ),
}

PROCESSES: Rows[ObservedServer] = {
    "uwsgi_largest_worker_threads": (
        "Threads of the worker process that has the most, including those that serve no request.",
        lambda server: max([each.threads for each in server.processes if each.threads], default=None),
    ),
    "uwsgi_task_limit_ratio": (
        "Share in use of a limit of processes and threads (`pids.max` of a cgroup, or `ulimit -u`), the one with the "
        "fewest left; at 1, no thread can be started. Absent without a limit.",
        lambda server: tasks.used / tasks.most if (tasks := server.record.tasks) else None,
    ),
    "uwsgi_open_fds_limit": (
        "Files and sockets that a worker process may have open (RLIMIT_NOFILE, which `max-fd` sets): the lowest "
        "limit of all workers.",
        lambda server: min([each.most_fds for each in server.processes if each.most_fds], default=None),
    ),
}

each_role = each_part(each_summed, "kind", lambda server: [(use.role, use) for use in server.record.roles])

ROLE: Rows[RoleUse] = {
    "uwsgi_process_cpu_seconds_total": (
        "CPU time of uWSGI's processes that are not workers, by kind (master, mule, spooler, router, cron, daemon; "
        "other if the kind is unknown), since the exporter first saw them.",
        lambda use: use.cpu_seconds,
    ),
    "uwsgi_process_resident_memory_bytes": (
        "Resident memory of uWSGI's processes that are not workers, by kind.",
        lambda use: use.resident_bytes,
    ),
}


def _find_unique_memory(slot: Slot) -> int | None:
    memory = slot.reading.host.memory
    return memory.worker.unique.get(slot.process.pid) if slot.process and memory and memory.worker else None


UNIQUE: Rows[Slot] = {
    "uwsgi_worker_unique_memory_bytes": (
        "Largest measured unique memory (USS) of the worker process, which ending the process would free. One worker "
        "is measured per minute; absent if the kernel does not permit it.",
        _find_unique_memory,
    ),
}


each_memory = each_found(each_server, lambda server: server.reading.host.memory)
each_available = each_found(each_memory, lambda memory: memory.available)

AVAILABLE: Rows[AvailableMemory] = {
    "uwsgi_memory_available_bytes": (
        "Memory still available to the server: the least of the host's available memory and the memory left under its "
        "cgroups' limits.",
        lambda memory: memory.byte_count,
    ),
    "uwsgi_memory_pressure_ratio{kind}": (
        "The part of the last minute in which processes of the server's cgroup waited for memory, or those of the "
        'host, if the kernel does not count it by cgroup: at least one (kind="some"), or all that had work '
        '(kind="full"). Absent if the kernel does not count it.',
        lambda memory: {kind: getattr(memory.pressure, kind) for kind in ("some", "full")} if memory.pressure else None,
    ),
}

MEMORY: Rows[ObservedServer] = {
    "uwsgi_memory_headroom_workers{source}": (
        "How many more workers of the size of the largest fit into available memory, by unique memory "
        '(source="uss"), or, if that is unknown, by anonymous memory (source="anonymous"), which is a lower bound.',
        lambda server: {known.source: count_more_workers(known)} if (known := server.record.memory) else None,
    ),
}

AFFINITY: Rows[WorkerProcess] = {
    "uwsgi_worker_cpu_affinity_cpus": (
        "CPUs that the worker's affinity mask allows. A mask inherited from the master does not pin the worker.",
        lambda process: len(process.affinity) if process.affinity else None,
    ),
    "uwsgi_worker_last_cpu": ("The CPU that the worker's main thread last ran on.", lambda process: process.last_cpu),
}

CPUS: Rows[ObservedServer] = {
    "uwsgi_cpus_usable": (
        "The most CPUs the server can use: the least of its affinity, its cgroup's quota and the host's CPUs.",
        lambda server: cpus.count if (cpus := server.reading.host.cpus) else None,
    ),
    "uwsgi_workers_sharing_one_cpu": (
        "Workers pinned to a single CPU to which another worker of the server is pinned too. A mask inherited from the "
        "master does not pin a worker.",
        lambda server: count_workers_sharing_one_cpu(server.record) if server.processes else None,
    ),
    "uwsgi_cpu_others_follow_load": (
        "Whether CPU use by other programs grows with the server's requests (1) or not (0). Absent if the last hour "
        "is not conclusive.",
        lambda server: server.observation.others_follow,
    ),
}

each_socket = each_part(each_server, "socket", lambda server: server.reading.listen_queues().items())

SOCKET: Rows[Backlog] = {
    "uwsgi_socket_queue_length": (
        "Connections waiting in the listen queue, from the kernel; if the kernel's figure is unknown, uWSGI's own "
        "for TCP sockets, which is up to a second old.",
        lambda backlog: backlog.queue,
    ),
    "uwsgi_socket_max_queue_length": (
        "Length at which the listen queue is full: the `listen` option, capped by net.core.somaxconn.",
        lambda backlog: backlog.limit,
    ),
    "uwsgi_socket_queue_measurable": (
        "Whether the exporter can measure the socket's listen queue; if 0, the exporter's page says why.",
        lambda backlog: backlog.queue is not None,
    ),
}
"""An unmeasurable queue is absent, never 0."""


def _find_oldest_wait(server: ObservedServer) -> float | None:
    oldest = server.totals.oldest_waits
    is_known = oldest and oldest.keys() == server.reading.listen_queues().keys()
    return max(oldest.values()) if is_known else None


SOCKETS: Rows[ObservedServer] = {
    "uwsgi_workers_with_own_sockets": (
        "Workers that take requests only from sockets that no other worker has: the threads of such a worker are a "
        "limit of their own. Absent without `map-socket`, and if the workers' descriptors are hidden.",
        lambda server: count_workers_with_own_sockets(server.record.setup),
    ),
    "uwsgi_listen_queue_length": (
        "Length of the server's longest listen queue, of those that can be measured.",
        lambda server: max(
            [each.queue for each in server.reading.listen_queues().values() if each.queue is not None], default=None
        ),
    ),
    "uwsgi_listen_queue_oldest_wait_seconds": (
        "For how long the oldest request in the server's listen queues has waited; 0 if they are empty. TCP: as the "
        "kernel says. UNIX: since the exporter first saw it, to within the time between two samples. Absent unless all "
        "queues are known.",
        _find_oldest_wait,
    ),
    "uwsgi_tracked_connections_ratio": (
        "How full the kernel's table of tracked connections (nf_conntrack) is; at 1, it drops new connections. Only "
        "for servers with TCP sockets in the exporter's own network namespace, where connections are tracked.",
        lambda server: tracked.entries / tracked.most if (tracked := server.record.tracked) else None,
    ),
}


each_overflow = each_found(each_server, lambda server: server.reading.host.overflows)

OVERFLOWS: Rows[ListenOverflows] = {
    "uwsgi_listen_overflows_total": (
        "Connections that found a TCP listen queue full, in the server's whole network namespace.",
        lambda counts: counts.overflows,
    ),
    "uwsgi_listen_drops_total": (
        "Connections dropped at TCP listeners for any reason, in the server's whole network namespace.",
        lambda counts: counts.drops,
    ),
}
