"""Builds the section of a worker: what uWSGI and the kernel report now, and figures over the window."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import ServerRecord, WorkerRecord
from uwsgi_headroom.same_fields import copy_fields, given
from uwsgi_headroom.stats.server import Snapshot, State
from uwsgi_headroom.stats.server import Worker as Stats


class WorkerSection(Struct, frozen=True, kw_only=True):
    """A worker slot.

    worker_id: position in uWSGI's list, from 1. pid: in the master's PID namespace; local_pid: in the exporter's.
    accepting: accepts requests now.
    Over the window: active (accepted requests for 90 % of it, so that it can be compared with others), window_requests,
    throughput (requests per second), share of the requests, response_time, interpreter_load (CPU seconds per second, of
    the one CPU that one interpreter can use), lock_waiters (mean threads that wait for the interpreter lock),
    concurrency (mean busy threads), resident_growth.
    Since uWSGI's last full reload: requests, lifetime_share, running_time, exceptions, harakiris, respawns, signals,
    transmitted_bytes.
    age: since last_spawn. oldest_request_age, request_ages: of requests in service, oldest first, precise to about a
    second. thread_requests: of each thread, since the last full reload; serving: threads that serve a request, with the
    age of the request, null if uWSGI does not report it; both null with stats-no-cores. Threads are numbered from 0, as
    in uWSGI's log ("core 3").
    unique_bytes: the most memory unique to the worker's process in any sample; null if not measured.
    affinity: the CPUs that the worker's mask allows. last_cpu: the CPU on which its main thread last ran. residency:
    CPU seconds by CPU since the exporter's start; null unless enabled.
    """

    worker_id: int
    pid: int | None = None
    local_pid: int | None = None
    state: State
    accepting: bool
    active: bool | None = None
    threads: int | None = None
    busy_threads: int | None = None
    window_requests: int | None = None
    throughput: float | None = None
    share: float | None = None
    response_time: float | None = None
    interpreter_load: float | None = None
    concurrency: float | None = None
    requests: int | None = None
    lifetime_share: float | None = None
    running_time: float | None = None
    exceptions: int | None = None
    harakiris: int | None = None
    respawns: int | None = None
    signals: int | None = None
    transmitted_bytes: int | None = None
    resident_bytes: int | None = None
    resident_growth: int | None = None
    unique_bytes: int | None = None
    last_spawn: int | None = None
    age: float | None = None
    oldest_request_age: float | None = None
    request_ages: tuple[float, ...]
    thread_requests: tuple[int, ...] | None = None
    serving: dict[int, float | None] | None = None
    affinity: tuple[int, ...] | None = None
    last_cpu: int | None = None
    residency: dict[int, float] | None = None
    lock_waiters: float | None = None


def build_workers(
    reading: Reading, record: ServerRecord, figures: Figures | None, totals: Totals
) -> Iterator[WorkerSection]:
    """Build the sections of all workers of a server, in uWSGI's order."""
    snapshot = reading.snapshot
    assert isinstance(snapshot, Snapshot)
    served = sum(worker.requests or 0 for worker in snapshot.workers)
    for index, worker in enumerate(snapshot.workers):
        known = figures if figures and index < len(figures.workers) else None
        yield _build_worker(
            reading,
            worker,
            record.workers[index],
            served,
            known.workers[index] if known else None,
            known.window if known else None,
            totals.workers[index].residency if index < len(totals.workers) else {},
        )


def _build_worker(
    reading: Reading,
    worker: Stats,
    record: WorkerRecord,
    served: int,
    figures: WorkerFigures | None,
    window: Window | None,
    residency: dict[int, float],
) -> WorkerSection:
    process = reading.host.processes.get(worker.pid or 0)
    memory = reading.host.memory
    ages = sorted((age for age in record.ages.values() if age is not None), reverse=True)
    return copy_fields(
        WorkerSection,
        worker,
        figures,
        process,
        local_pid=reading.host.local_pid(worker.pid or 0),
        busy_threads=reading.busy_threads(worker),
        window_requests=given(figures, lambda known: known.requests),
        throughput=ratio(figures.requests, window.seconds) if figures and window else None,
        lifetime_share=ratio(worker.requests, served),
        resident_bytes=(process or worker).resident_bytes,
        resident_growth=given(window, lambda known: known.workers[worker.worker_id - 1].resident_growth),
        unique_bytes=memory.worker.unique.get(worker.pid or 0) if memory and memory.worker else None,
        age=max(0.0, reading.time - worker.last_spawn) if worker.last_spawn and worker.pid else None,
        oldest_request_age=next(iter(ages), None),
        request_ages=tuple(ages),
        thread_requests=worker.thread_requests or None,
        serving=dict(record.ages) if worker.thread_requests else None,
        residency=dict(residency) if reading.host.threads else None,
    )
