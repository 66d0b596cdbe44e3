"""Memory: what each worker has for itself, what is available, and how many more workers fit."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.memory_headroom import compute_memory_headroom
from uwsgi_headroom.metrics.family import gauge, label_set
from uwsgi_headroom.metrics.scrape import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Families of this module, for every server of the scrape whose processes are proven."""
    memories = [(server, memory) for server in scrape.servers if (memory := server.reading.host.memory)]
    yield gauge(
        "uwsgi_worker_unique_memory_bytes",
        "The most memory that the worker process was seen to have for itself alone (USS): what ending it would free. "
        "One worker a minute is looked at; absent where the kernel does not permit it.",
        [
            (labels, memory.worker.unique.get(process.pid))
            for server, memory in memories
            if memory.worker
            for labels, process in server.processes
        ],
    )
    yield gauge(
        "uwsgi_memory_available_bytes",
        "Memory that the server can still get: the least of what is available on the host and what its cgroups have "
        "left of their limits.",
        [(server.labels, memory.available.byte_count) for server, memory in memories if memory.available],
    )
    yield gauge(
        "uwsgi_memory_headroom_workers",
        "How many more workers fit into the memory available, each taken to be as large as the largest. By unique "
        'memory (source="uss"); or by anonymous memory where that is unknown (source="anonymous"): at least so many '
        "fit.",
        [
            (label_set(**server.labels, source=room.source), room.more_workers)
            for server, memory in memories
            if (room := compute_memory_headroom(memory))
        ],
    )
