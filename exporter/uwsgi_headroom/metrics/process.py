"""Worker processes, from the kernel; absent if their PIDs are not proven to be of this host."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge, label_set
from uwsgi_headroom.metrics.scrape import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every worker process of the scrape."""
    processes = [pair for server in scrape.servers for pair in server.processes]
    yield counter(
        "uwsgi_worker_cpu_seconds_total",
        "CPU time of the worker process, all threads. A Python interpreter can use one CPU: a rate near 1 means that "
        "the worker is saturated.",
        [
            (label_set(**labels, mode=mode), seconds)
            for labels, process in processes
            for mode, seconds in (("user", process.cpu_user_seconds), ("system", process.cpu_system_seconds))
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
            (label_set(**labels, kind=kind), switches)
            for labels, process in processes
            for kind, switches in (
                ("voluntary", process.voluntary_context_switches),
                ("involuntary", process.involuntary_context_switches),
            )
        ],
    )
    yield gauge(
        "uwsgi_worker_open_fds",
        "Open files and sockets of the worker process.",
        [(labels, process.open_fds) for labels, process in processes],
    )
