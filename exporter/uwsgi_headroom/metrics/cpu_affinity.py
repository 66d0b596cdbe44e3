"""CPUs: which the workers may run on, where they last ran, and how much CPU time the server can have at all."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.cpu_pinning import count_workers_sharing_one_cpu
from uwsgi_headroom.metrics.family import gauge
from uwsgi_headroom.metrics.scrape import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Families of this module, for every server of the scrape whose processes are proven."""
    processes = [pair for server in scrape.servers for pair in server.processes]
    yield gauge(
        "uwsgi_worker_cpu_affinity_cpus",
        "CPUs the worker's affinity mask allows. A mask inherited from the master is no pin.",
        [(labels, len(process.affinity) if process.affinity else None) for labels, process in processes],
    )
    yield gauge(
        "uwsgi_worker_last_cpu",
        "The CPU that the worker's main thread last ran on.",
        [(labels, process.last_cpu) for labels, process in processes],
    )
    yield gauge(
        "uwsgi_cpus_usable",
        "CPUs the server can use at most: the least of its affinity, its cgroup's quota and the host's CPUs.",
        [(server.labels, cpus.count) for server in scrape.servers if (cpus := server.reading.host.cpus)],
    )
    yield gauge(
        "uwsgi_workers_sharing_one_cpu",
        "Workers pinned to a single CPU that another worker of the server is pinned to as well. A mask inherited from "
        "the master is no pin.",
        [
            (server.labels, count_workers_sharing_one_cpu(server.reading.host))
            for server in scrape.servers
            if server.processes
        ],
    )
    yield gauge(
        "uwsgi_cpu_others_follow_load",
        "Whether CPU used by others grows with the server's requests (1) or not (0), as the last hour shows. Absent "
        "where it does not.",
        [
            (server.labels, int(follow))
            for server in scrape.servers
            if (follow := server.observation.others_follow) is not None
        ],
    )
