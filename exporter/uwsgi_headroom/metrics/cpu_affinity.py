"""CPUs: those that workers may run on, those they last ran on, and how many the server can use."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.worker_states import count_workers_sharing_one_cpu
from uwsgi_headroom.metrics.family import gauge
from uwsgi_headroom.metrics.scrape import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape whose processes are proven."""
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
        "Whether CPU use by others grows with the server's requests (1) or not (0). Absent if the last hour is not "
        "conclusive.",
        [
            (server.labels, int(follow))
            for server in scrape.servers
            if (follow := server.observation.others_follow) is not None
        ],
    )
