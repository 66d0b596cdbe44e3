"""Workers, as uWSGI's own document tells of them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge
from uwsgi_headroom.metrics.scrape import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Families of this module, for every worker slot of the scrape."""
    workers = [pair for server in scrape.servers for pair in server.workers]
    yield counter(
        "uwsgi_worker_requests_total",
        "Requests completed: the sum over the worker's threads. Zeroed by a full reload, not by a respawn.",
        [(labels, worker.requests) for labels, worker in workers],
    )
    yield counter(
        "uwsgi_worker_running_time_seconds_total",
        "Time spent in completed requests, over all threads, added when a request ends. Its rate is concurrency by "
        "Little's law.",
        [(labels, worker.running_time) for labels, worker in workers],
    )
    yield counter(
        "uwsgi_worker_static_requests_total",
        "Requests answered by uWSGI itself with a file; counted as requests, but they add no running time.",
        [(labels, worker.static_requests) for labels, worker in workers],
    )
    yield gauge(
        "uwsgi_worker_busy_threads",
        "Threads serving a request at the moment of the read.",
        [
            (labels, server.reading.busy_threads(worker))
            for server in scrape.servers
            for labels, worker in server.workers
        ],
    )
    yield gauge(
        "uwsgi_worker_threads",
        "Threads that serve requests when the worker is up (async cores where uWSGI is asynchronous).",
        [(labels, worker.threads) for labels, worker in workers],
    )
    yield gauge(
        "uwsgi_worker_accepting",
        "Whether the worker takes requests: a process is there, has started, and is neither cheaped nor paused.",
        [(labels, worker.accepting) for labels, worker in workers],
    )
    yield counter(
        "uwsgi_worker_exceptions_total",
        "Exceptions that escaped the application to uWSGI. A framework that turns errors into answers hides them.",
        [(labels, worker.exceptions) for labels, worker in workers],
    )
    yield counter(
        "uwsgi_worker_harakiri_total",
        "Times the worker was ended for a request over the harakiri time. Every request in it is lost, and counted "
        "nowhere.",
        [(labels, worker.harakiris) for labels, worker in workers],
    )
    yield counter(
        "uwsgi_worker_respawns_total",
        "Spawns of the worker; the first counts.",
        [(labels, worker.respawns) for labels, worker in workers],
    )
    yield counter(
        "uwsgi_worker_signals_total",
        "uWSGI signals handled.",
        [(labels, worker.signals) for labels, worker in workers],
    )
    yield counter(
        "uwsgi_worker_transmitted_bytes_total",
        "Bytes of headers and bodies sent.",
        [(labels, worker.transmitted_bytes) for labels, worker in workers],
    )
    yield gauge(
        "uwsgi_worker_last_spawn_time_seconds",
        "When the worker was last spawned, in epoch seconds.",
        [(labels, worker.last_spawn) for labels, worker in workers],
    )
    yield gauge(
        "uwsgi_worker_oldest_request_age_seconds",
        "Age of the oldest request in service, to about a second; absent while there is none.",
        [
            (labels, max(0.0, server.reading.time - min(worker.request_starts)))
            for server in scrape.servers
            for labels, worker in server.workers
            if worker.request_starts and not server.reading.process_is_missing(worker)
        ],
    )
