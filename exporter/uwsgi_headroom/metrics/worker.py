"""Workers, from uWSGI's own stats, and capacity: how many requests a server can serve at once, and serves now."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.figures import count_ceiling
from uwsgi_headroom.analysis.worker_states import count_harmful_now
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.metrics.family import Scrape, Table, gauge, tabulate_families
from uwsgi_headroom.stats.server import Snapshot, Worker


def threads_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of a server's threads; absent with stats-no-cores, which hides threads."""
    servers = scrape.servers
    yield gauge(
        "uwsgi_threads_configured",
        "Configured capacity: threads of all worker slots, including those that cheaper mode has not spawned.",
        [
            (server.labels, sum_if_all_known([worker.threads for worker in server.snapshot.workers]))
            for server in servers
        ],
    )
    yield gauge(
        "uwsgi_threads_available",
        "Available capacity: threads of workers that are up and accepting, as uWSGI reports. While a full reload waits "
        "for requests to end, uWSGI still counts the workers that serve these requests, although they take no other; "
        "so does this metric, but `check` and the API then say 0.",
        [
            (server.labels, sum_if_all_known([worker.available_threads for worker in server.snapshot.workers]))
            for server in servers
        ],
    )
    yield gauge(
        "uwsgi_threads_ceiling",
        "The most threads that can serve: those available plus those of workers that cheaper mode keeps in reserve.",
        [(server.labels, count_ceiling(server.record.workers)) for server in servers],
    )
    yield gauge(
        "uwsgi_threads_busy",
        "Threads serving a request at the moment of the read.",
        [
            (
                server.labels,
                sum_if_all_known([server.reading.busy_threads(worker) for worker in server.snapshot.workers]),
            )
            for server in servers
        ],
    )
    yield gauge(
        "uwsgi_threads_stuck",
        f"Threads whose request has been in service for longer than {STUCK_SECONDS:.0f} s, or what `stuck` is set to.",
        [
            (server.labels, count_harmful_now(server.record, server.observation.stuck_seconds))
            for server in servers
            if sum_if_all_known([worker.threads for worker in server.snapshot.workers]) is not None
        ],
    )


_REQUESTS: Table[Worker] = (
    (
        "uwsgi_worker_requests_total",
        "Requests completed, summed over the worker's threads. A full reload resets this counter, a respawn does not.",
        lambda worker: worker.requests,
    ),
    (
        "uwsgi_worker_running_time_seconds_total",
        "Time spent in completed requests by all threads, added when a request ends. Its rate is concurrency by "
        "Little's law.",
        lambda worker: worker.running_time,
    ),
    (
        "uwsgi_worker_static_requests_total",
        "Requests that uWSGI itself answered with a file; they count as requests but add no running time.",
        lambda worker: worker.static_requests,
    ),
)

_SLOT: Table[Worker] = (
    (
        "uwsgi_worker_threads",
        "Threads that serve requests when the worker is up (async cores if uWSGI is asynchronous).",
        lambda worker: worker.threads,
    ),
    (
        "uwsgi_worker_accepting",
        "Whether the worker takes requests: its process exists, has started, and is neither cheaped nor paused.",
        lambda worker: worker.accepting,
    ),
    (
        "uwsgi_worker_exceptions_total",
        "Exceptions that escaped the application to uWSGI. A framework that turns errors into responses hides them.",
        lambda worker: worker.exceptions,
    ),
    (
        "uwsgi_worker_harakiri_total",
        "Times uWSGI killed the worker because a request took longer than harakiri. All requests in the worker are "
        "then lost, and uWSGI does not count them.",
        lambda worker: worker.harakiris,
    ),
    ("uwsgi_worker_respawns_total", "Spawns of the worker, including the first.", lambda worker: worker.respawns),
    ("uwsgi_worker_signals_total", "uWSGI signals handled.", lambda worker: worker.signals),
    (
        "uwsgi_worker_transmitted_bytes_total",
        "Bytes of response headers and bodies sent.",
        lambda worker: worker.transmitted_bytes,
    ),
    (
        "uwsgi_worker_last_spawn_time_seconds",
        "Time of the worker's last spawn, in epoch seconds.",
        lambda worker: worker.last_spawn,
    ),
)

_CLIENTS: Table[Snapshot] = (
    (
        "uwsgi_write_errors_total",
        "Responses that uWSGI could not write, because the client had left; of all workers. Each also counts as an "
        "exception. Absent with stats-no-cores.",
        lambda server: sum_if_all_known([worker.write_errors for worker in server.workers]),
    ),
    (
        "uwsgi_read_errors_total",
        "Request bodies that uWSGI could not read, because the client had left or sent nothing for `socket-timeout`; "
        "of all workers. Absent with stats-no-cores.",
        lambda server: sum_if_all_known([worker.read_errors for worker in server.workers]),
    ),
)


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every worker slot of the scrape."""
    workers = [pair for server in scrape.servers for pair in server.workers]
    yield from tabulate_families(_REQUESTS, workers)
    yield gauge(
        "uwsgi_worker_busy_threads",
        "Threads serving a request at the moment of the read.",
        [
            (labels, server.reading.busy_threads(worker))
            for server in scrape.servers
            for labels, worker in server.workers
        ],
    )
    yield from tabulate_families(_SLOT, workers)
    yield from tabulate_families(_CLIENTS, [(server.labels, server.snapshot) for server in scrape.servers])
    yield gauge(
        "uwsgi_worker_oldest_request_age_seconds",
        "Age of the oldest request in service, precise to about a second; absent while there is none.",
        [
            (labels, max(0.0, server.reading.time - min(worker.request_starts)))
            for server in scrape.servers
            for labels, worker in server.workers
            if worker.request_starts and not server.reading.process_is_missing(worker)
        ],
    )
