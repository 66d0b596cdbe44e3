"""What the kernel reports about a server: its worker processes, memory and CPUs, and its listen queues, in which
connections wait until a worker accepts them.

Figures of processes are absent if their PIDs are not proven to be of this host.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.capacity import count_more_workers
from uwsgi_headroom.analysis.worker_states import count_workers_sharing_one_cpu, count_workers_with_own_sockets
from uwsgi_headroom.metrics.family import ObservedServer, Scrape, counter, gauge, label_sets, labels_of


def process_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of worker processes: CPU time, resident memory, context switches and open files."""
    processes = [pair for server in scrape.servers for pair in server.processes]
    yield counter(
        "uwsgi_worker_cpu_seconds_total",
        "CPU time of the worker process, all threads. A Python interpreter can use one CPU: a rate near 1 means that "
        "the worker is saturated.",
        [
            pair
            for labels, process in processes
            for pair in zip(
                label_sets("mode", ("user", "system"), **labels),
                (process.cpu_user_seconds, process.cpu_system_seconds),
                strict=True,
            )
        ],
    )
    yield gauge(
        "uwsgi_worker_resident_memory_bytes",
        "Resident memory of the worker process, including pages shared with other workers. From uWSGI's memory-report "
        "if the process is not visible.",
        [
            (labels, process.resident_bytes if process else worker.resident_bytes)
            for server in scrape.servers
            for labels, worker in server.workers
            for process in (server.reading.host.processes.get(worker.pid or 0),)
        ],
    )
    yield counter(
        "uwsgi_worker_context_switches_total",
        "Context switches of the worker's main thread: voluntary (it waits) or involuntary (the kernel preempts it).",
        [
            pair
            for labels, process in processes
            for pair in zip(
                label_sets("kind", ("voluntary", "involuntary"), **labels),
                (process.voluntary_context_switches, process.involuntary_context_switches),
                strict=True,
            )
        ],
    )
    yield gauge(
        "uwsgi_worker_open_fds",
        "Open files and sockets of the worker process.",
        [(labels, process.open_fds) for labels, process in processes],
    )
    yield gauge(
        "uwsgi_largest_worker_threads",
        "Threads of the worker process that has the most, those that serve no request included.",
        [
            (server.labels, max([process.threads for _, process in server.processes if process.threads], default=None))
            for server in scrape.servers
        ],
    )
    yield gauge(
        "uwsgi_task_limit_ratio",
        "How much of a cgroup's limit of processes and threads (`pids.max`) is in use, for that cgroup of the server "
        "which has the fewest left; at 1, no thread can be started. Absent without a limit.",
        [(server.labels, tasks.used / tasks.most) for server in scrape.servers if (tasks := server.record.tasks)],
    )
    yield gauge(
        "uwsgi_open_fds_limit",
        "The most files and sockets that a worker process may have open (RLIMIT_NOFILE, which `max-fd` sets): the "
        "least of all workers.",
        [
            (
                server.labels,
                min([process.most_fds for _, process in server.processes if process.most_fds], default=None),
            )
            for server in scrape.servers
        ],
    )


def other_process_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of uWSGI's processes that are no workers."""
    uses = [
        (labels_of(server.observation, kind=use.role), use) for server in scrape.servers for use in server.record.roles
    ]
    yield counter(
        "uwsgi_process_cpu_seconds_total",
        "CPU time of uWSGI's processes that are no workers, by kind (master, mule, spooler, router, daemon; other if "
        "it cannot be seen which), since the exporter first saw them.",
        [(labels, use.cpu_seconds) for labels, use in uses],
    )
    yield gauge(
        "uwsgi_process_resident_memory_bytes",
        "Resident memory of the same processes, by kind.",
        [(labels, use.resident_bytes) for labels, use in uses],
    )


def memory_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of memory: unique memory of each worker, how many more workers fit, kills for lack of it."""
    memories = [(server, memory) for server in scrape.servers if (memory := server.reading.host.memory)]
    yield gauge(
        "uwsgi_worker_unique_memory_bytes",
        "Largest measured unique memory (USS) of the worker process, which ending the process would free. One worker "
        "is measured per minute; absent if the kernel does not permit it.",
        [
            (labels, memory.worker.unique.get(process.pid))
            for server, memory in memories
            if memory.worker
            for labels, process in server.processes
        ],
    )
    yield gauge(
        "uwsgi_memory_available_bytes",
        "Memory still available to the server: the least of the host's available memory and the memory left under its "
        "cgroups' limits.",
        [(server.labels, memory.available.byte_count) for server, memory in memories if memory.available],
    )
    yield gauge(
        "uwsgi_memory_pressure_ratio",
        "The part of the last minute in which processes of the server's cgroup waited for memory, or those of the "
        'host, if the kernel does not count it by cgroup: at least one (kind="some"), or all that had work '
        '(kind="full"). Absent if the kernel does not count it.',
        [
            (labels_of(server.observation, kind=kind), getattr(memory.available.pressure, kind))
            for server, memory in memories
            if memory.available and memory.available.pressure
            for kind in ("some", "full")
        ],
    )
    yield gauge(
        "uwsgi_memory_headroom_workers",
        "How many more workers of the size of the largest fit into available memory, by unique memory "
        '(source="uss"), or, if that is unknown, by anonymous memory (source="anonymous"), which is a lower bound.',
        [
            (labels_of(server.observation, source=known.source), count_more_workers(known))
            for server in scrape.servers
            if (known := server.record.memory)
        ],
    )
    yield counter(
        "uwsgi_oom_kills_total",
        "Processes that the kernel killed because memory ran out, since the exporter's start: those of the server's "
        "cgroup, or of the whole host if the kernel does not count them by cgroup.",
        [(server.labels, server.observation.totals.oom_kills) for server in scrape.servers],
    )


def cpu_affinity_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of CPUs: those workers may run on or last ran on, and how many the server can use."""
    processes = [pair for server in scrape.servers for pair in server.processes]
    yield gauge(
        "uwsgi_worker_cpu_affinity_cpus",
        "CPUs that the worker's affinity mask allows. A mask inherited from the master does not pin the worker.",
        [(labels, len(process.affinity) if process.affinity else None) for labels, process in processes],
    )
    yield gauge(
        "uwsgi_worker_last_cpu",
        "The CPU that the worker's main thread last ran on.",
        [(labels, process.last_cpu) for labels, process in processes],
    )
    yield gauge(
        "uwsgi_cpus_usable",
        "The most CPUs the server can use: the least of its affinity, its cgroup's quota and the host's CPUs.",
        [(server.labels, cpus.count) for server in scrape.servers if (cpus := server.reading.host.cpus)],
    )
    yield gauge(
        "uwsgi_workers_sharing_one_cpu",
        "Workers pinned to a single CPU to which another worker of the server is pinned too. A mask inherited from the "
        "master does not pin a worker.",
        [
            (server.labels, count_workers_sharing_one_cpu(server.record))
            for server in scrape.servers
            if server.processes
        ],
    )
    yield gauge(
        "uwsgi_cpu_others_follow_load",
        "Whether CPU use by other programs grows with the server's requests (1) or not (0). Absent if the last hour "
        "is not conclusive.",
        [
            (server.labels, int(follow))
            for server in scrape.servers
            if (follow := server.observation.others_follow) is not None
        ],
    )


def socket_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of listen queues, for every socket of the scrape. An unmeasurable queue is absent, never 0."""
    queues = [
        (labels_of(server.observation, socket=name), backlog)
        for server in scrape.servers
        for name, backlog in server.reading.listen_queues().items()
    ]
    yield gauge(
        "uwsgi_socket_queue_length",
        "Connections waiting in the listen queue, from the kernel; if the kernel cannot be asked, uWSGI's own figure "
        "for TCP sockets, which is up to a second old.",
        [(labels, backlog.queue) for labels, backlog in queues],
    )
    yield gauge(
        "uwsgi_socket_max_queue_length",
        "Length at which the listen queue is full: the `listen` option, capped by net.core.somaxconn.",
        [(labels, backlog.limit) for labels, backlog in queues],
    )
    yield gauge(
        "uwsgi_socket_queue_measurable",
        "Whether the exporter can measure the socket's listen queue; if 0, the exporter's page says why.",
        [(labels, backlog.queue is not None) for labels, backlog in queues],
    )
    yield gauge(
        "uwsgi_workers_with_own_sockets",
        "Workers that take requests only from sockets that no other worker has: the threads of such a worker are a "
        "limit of their own. Absent without `map-socket`, and if the workers' descriptors are hidden.",
        [
            (server.labels, count_workers_with_own_sockets(setup))
            for server in scrape.servers
            if (setup := server.reading.host.setup)
        ],
    )
    yield gauge(
        "uwsgi_listen_queue_length",
        "Length of the server's longest listen queue, of those that can be measured.",
        [(server.labels, max(lengths)) for server in scrape.servers if (lengths := _list_lengths(server))],
    )
    yield gauge(
        "uwsgi_listen_queue_oldest_wait_seconds",
        "For how long the oldest request in the server's listen queues has waited; 0 if they are empty. TCP: as the "
        "kernel says. UNIX: since the exporter first saw it, to within the time between two samples. Absent unless all "
        "queues are known.",
        [
            (server.labels, max(oldest.values()))
            for server in scrape.servers
            if (oldest := server.observation.totals.oldest_waits)
            and oldest.keys() == server.reading.listen_queues().keys()
        ],
    )
    overflows = [(server.labels, counts) for server in scrape.servers if (counts := server.reading.host.overflows)]
    yield counter(
        "uwsgi_listen_overflows_total",
        "Connections that found a TCP listen queue full, in the server's whole network namespace.",
        [(labels, counts.overflows) for labels, counts in overflows],
    )
    yield counter(
        "uwsgi_listen_drops_total",
        "Connections dropped at TCP listeners for any reason, in the server's whole network namespace.",
        [(labels, counts.drops) for labels, counts in overflows],
    )
    yield gauge(
        "uwsgi_tracked_connections_ratio",
        "How full the kernel's table of tracked connections (nf_conntrack) is; at 1, it drops new connections. Only "
        "for servers with TCP sockets in the exporter's own network namespace, where connections are tracked.",
        [
            (server.labels, tracked.entries / tracked.most)
            for server in scrape.servers
            if (tracked := server.record.tracked)
        ],
    )
    yield counter(
        "uwsgi_untracked_packets_total",
        "Packets that the kernel dropped because it could not track their connection, in the same network namespace, "
        "since the exporter first saw it: because the table was full, and for rarer reasons.",
        [(server.labels, server.observation.totals.untracked) for server in scrape.servers],
    )


def _list_lengths(server: ObservedServer) -> list[int]:
    """List the lengths, in connections, of the server's measurable listen queues."""
    return [backlog.queue for backlog in server.reading.listen_queues().values() if backlog.queue is not None]
