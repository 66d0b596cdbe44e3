"""Memory: unique memory of each worker, available memory, and how many more workers fit."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.capacity import count_more_workers
from uwsgi_headroom.metrics.family import gauge, label_set
from uwsgi_headroom.metrics.scrape import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape whose processes are proven."""
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
        "uwsgi_memory_headroom_workers",
        "How many more workers of the size of the largest fit into available memory, by unique memory "
        '(source="uss"), or, if that is unknown, by anonymous memory (source="anonymous"), which is a lower bound.',
        [
            (label_set(**server.labels, source=known.source), count_more_workers(known))
            for server in scrape.servers
            if (known := server.record.memory)
        ],
    )
