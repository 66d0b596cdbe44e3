"""Workers, from uWSGI's own stats, and capacity: how many requests a server can serve at once, and serves now."""

from __future__ import annotations

from uwsgi_headroom.analysis.figures import count_ceiling
from uwsgi_headroom.analysis.worker_states import count_harmful_now
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.metrics.family import ObservedServer, Rows, Slot


def sum_of_workers(server: ObservedServer, name: str) -> int | None:
    """The sum of a field of the workers; None if uWSGI omits it."""
    return sum_if_all_known([getattr(worker, name) for worker in server.snapshot.workers])


def _count_stuck(server: ObservedServer) -> int | None:
    if sum_of_workers(server, "threads") is None:
        return None
    return count_harmful_now(server.record, server.observation.stuck_seconds)


THREADS: Rows[ObservedServer] = {
    "uwsgi_threads_configured": (
        "Configured capacity: threads of all worker slots, including those that cheaper mode has not spawned.",
        lambda server: sum_of_workers(server, "threads"),
    ),
    "uwsgi_threads_available": (
        "Available capacity: threads of workers that are up and accepting, as uWSGI reports. While a full reload waits "
        "for requests to end, uWSGI still counts the workers that serve these requests, although they take no other; "
        "so does this metric, but `check` and the API then say 0.",
        lambda server: sum_of_workers(server, "available_threads"),
    ),
    "uwsgi_threads_ceiling": (
        "The most threads that can serve: those available plus those of workers that cheaper mode keeps in reserve.",
        lambda server: count_ceiling(server.record.workers),
    ),
    "uwsgi_threads_busy": (
        "Threads serving a request at the moment of the read.",
        lambda server: sum_if_all_known([server.reading.busy_threads(worker) for worker in server.snapshot.workers]),
    ),
    "uwsgi_threads_stuck": (
        f"Threads whose request has been in service for longer than {STUCK_SECONDS:.0f} s, or what `stuck` is set to.",
        _count_stuck,
    ),
}
"""Absent with stats-no-cores, which hides threads."""


def _find_oldest_age(slot: Slot) -> float | None:
    if not slot.worker.request_starts or slot.reading.process_is_missing(slot.worker):
        return None
    return max(0.0, slot.reading.time - min(slot.worker.request_starts))


WORKER: Rows[Slot] = {
    "uwsgi_worker_requests_total": (
        "Requests completed, summed over the worker's threads. A full reload resets this counter, a respawn does not.",
        lambda slot: slot.worker.requests,
    ),
    "uwsgi_worker_running_time_seconds_total": (
        "Time spent in completed requests by all threads, added when a request ends. Its rate is concurrency by "
        "Little's law.",
        lambda slot: slot.worker.running_time,
    ),
    "uwsgi_worker_static_requests_total": (
        "Requests that uWSGI itself answered with a file; they count as requests but add no running time.",
        lambda slot: slot.worker.static_requests,
    ),
    "uwsgi_worker_threads": (
        "Threads that serve requests when the worker is up (async cores if uWSGI is asynchronous).",
        lambda slot: slot.worker.threads,
    ),
    "uwsgi_worker_accepting": (
        "Whether the worker takes requests: its process exists, has started, and is neither cheaped nor paused.",
        lambda slot: slot.worker.accepting,
    ),
    "uwsgi_worker_exceptions_total": (
        "Exceptions that escaped the application to uWSGI. A framework that turns errors into responses hides them.",
        lambda slot: slot.worker.exceptions,
    ),
    "uwsgi_worker_harakiri_total": (
        "Times uWSGI killed the worker because a request took longer than harakiri. All requests in the worker are "
        "then lost, and uWSGI does not count them.",
        lambda slot: slot.worker.harakiris,
    ),
    "uwsgi_worker_respawns_total": ("Spawns of the worker, including the first.", lambda slot: slot.worker.respawns),
    "uwsgi_worker_signals_total": ("uWSGI signals handled.", lambda slot: slot.worker.signals),
    "uwsgi_worker_transmitted_bytes_total": (
        "Bytes of response headers and bodies sent.",
        lambda slot: slot.worker.transmitted_bytes,
    ),
    "uwsgi_worker_last_spawn_time_seconds": (
        "Time of the worker's last spawn, in epoch seconds.",
        lambda slot: slot.worker.last_spawn,
    ),
    "uwsgi_worker_busy_threads": (
        "Threads serving a request at the moment of the read.",
        lambda slot: slot.reading.busy_threads(slot.worker),
    ),
    "uwsgi_worker_oldest_request_age_seconds": (
        "Age of the oldest request in service, precise to about a second; absent while there is none.",
        _find_oldest_age,
    ),
}

CLIENTS: Rows[ObservedServer] = {
    "uwsgi_write_errors_total": (
        "Responses that uWSGI could not write, because the client had left; of all workers. Each also counts as an "
        "exception. Absent with stats-no-cores.",
        lambda server: sum_of_workers(server, "write_errors"),
    ),
    "uwsgi_read_errors_total": (
        "Request bodies that uWSGI could not read, because the client had left or sent nothing for `socket-timeout`; "
        "of all workers. Absent with stats-no-cores.",
        lambda server: sum_of_workers(server, "read_errors"),
    ),
    "uwsgi_routed_requests_total": (
        "Requests that a rule of uWSGI's internal routing ended; of all workers. Absent with stats-no-cores.",
        lambda server: sum_of_workers(server, "routed_requests"),
    ),
    "uwsgi_offloaded_requests_total": (
        "Requests whose answer an offload thread of uWSGI sends, so that the worker is free before it has gone; of all "
        "workers. Absent with stats-no-cores.",
        lambda server: sum_of_workers(server, "offloaded_requests"),
    ),
}
