"""Counters integrated from samples, which no single reading contains: those of the table of quantities
(`history.counts`), and a few that need more than a total."""

from __future__ import annotations

from itertools import accumulate

from uwsgi_headroom.history.code_time import CodeTotals
from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS, sum_if_all_known
from uwsgi_headroom.history.totals import CpuTotals, RouteTotals, Totals, WaitTotals, WorkerTotals
from uwsgi_headroom.history.window import CPU, SERVER, SOCKET, WAITS, WORKER
from uwsgi_headroom.metrics.family import (
    Histogram,
    ObservedServer,
    Rows,
    Scrape,
    Subjects,
    each_found,
    each_summed,
    each_totals,
    each_worker_totals,
    tabulate_counts,
)
from uwsgi_headroom.record import STATES
from uwsgi_headroom.watch.observation import Observation

WORKER_TOTALS: Rows[WorkerTotals] = {
    **tabulate_counts(WORKER),
    "uwsgi_worker_cpu_residency_seconds_total{cpu}": (
        "CPU time of the worker's threads, by CPU. Opt-in (cpu-residency): workers x CPUs series.",
        lambda worker: {str(cpu): seconds for cpu, seconds in sorted(worker.residency.items())},
    ),
    "uwsgi_worker_lost_requests_total": (
        "Requests that were in service when the worker's process ended, and that uWSGI never counted as completed; a "
        "lower bound. Absent if threads are unknown.",
        lambda worker: None if worker.busy_seconds is None else worker.lost,
    ),
}


each_cpu = each_found(each_totals, lambda totals: totals.cpu if totals.cpu and totals.cpu.since is not None else None)

CPU_TOTALS: Rows[CpuTotals] = tabulate_counts(CPU)


def _grown_bytes(totals: Totals) -> int | None:
    kilobytes = sum_if_all_known([worker.grown_kilobytes for worker in totals.workers])
    return None if kilobytes is None else 1024 * kilobytes


SERVER_TOTALS: Rows[Totals] = {
    **tabulate_counts((*SOCKET, *SERVER)),
    "uwsgi_memory_growth_bytes_total": (
        "How far the memory of each worker process rose above what it had after its first request, summed over all "
        "processes: a leak raises the sum although workers are replaced. Absent unless uWSGI reports memory "
        "(`memory-report`, `reload-on-rss`).",
        _grown_bytes,
    ),
}


each_occupied = each_found(each_totals, lambda totals: totals if any(totals.occupancy) else None)

_BOUNDS = (*map(str, OCCUPANCY_BOUNDS), "+Inf")

OCCUPANCY: Rows[Totals] = {
    "uwsgi_full_occupancy_seconds_total": (
        "Time with every available thread busy. Absent with stats-no-cores, which hides the threads.",
        lambda totals: totals.full_seconds,
    ),
    "uwsgi_threads_busy_ratio{le}": (
        "Samples by busy / available threads. Above 0.99: every thread is busy, or fewer than one in a hundred is not.",
        lambda totals: Histogram(_BOUNDS, list(accumulate(totals.occupancy)), totals.occupancy_sum),
    ),
}

EXPORTER_TOTALS: Rows[Observation] = {
    "uwsgi_exporter_samples_total": ("Readings used for the integrals.", lambda server: server.totals.samples),
    "uwsgi_exporter_observed_seconds_total": (
        "Time covered by samples. If there are gaps, divide an integral by this time, not by wall-clock time.",
        lambda server: server.totals.observed_seconds,
    ),
    "uwsgi_exporter_sample_gap_seconds_total": (
        "Time not covered by samples: failed reads, pauses, reloads. No integral includes this time.",
        lambda server: server.totals.gap_seconds,
    ),
}


each_waits = each_found(
    each_totals, lambda totals: totals.waits if totals.waits and totals.waits.since is not None else None
)


def each_lock_wait(scrape: Scrape) -> Subjects[float]:
    seen = {labels["server"] for labels, _ in each_waits(scrape)}
    return [
        (labels, totals.interpreter_lock_seconds)
        for labels, totals in each_worker_totals(scrape)
        if labels["server"] in seen
    ]


WAIT_TOTALS: Rows[WaitTotals] = {
    "uwsgi_wait_thread_seconds_total{state}": (
        "Time of threads with a request in service, by what they do. The rate of all states together is the observed "
        "concurrency. Divided by requests: time per request in each state.",
        lambda waits: dict(zip(STATES, waits.seconds, strict=True)),
    ),
    **tabulate_counts(WAITS),
}

LOCK_WAIT: Rows[float] = {
    "uwsgi_worker_interpreter_lock_wait_thread_seconds_total": (
        "Time in which threads of the worker waited for its interpreter lock.",
        lambda seconds: seconds,
    ),
}

CONNECTIONS: Rows[ObservedServer] = {
    "uwsgi_shared_connections": (
        "Connections to other servers that were opened before the fork, so that several workers share them: the "
        "workers' requests wait for each other, and may get each other's answers. Absent if there is none, or if the "
        "exporter's user may not see the descriptors.",
        lambda server: len(server.record.shared_connections) or None,
    ),
}


each_routed = each_found(each_totals, lambda totals: totals.routes)

ROUTES: Rows[RouteTotals] = {
    "uwsgi_route_busy_thread_seconds_total{route}": (
        "Time of busy threads by the route of their request, from samples. The rate of all routes together is the "
        "observed concurrency. It says nothing about the number of requests. Opt-in (routes): 51 series at most.",
        lambda routes: routes.by_route(),
    ),
}


each_code = each_found(each_summed, lambda server: server.observation.code)

CODE: Rows[CodeTotals] = {
    "uwsgi_code_busy_thread_seconds_total{function,file,state}": (
        "Time of busy threads by the function that they are in and what they do there, from about one sample a second. "
        "The rate of all series together is the observed concurrency. The functions are those that were seen most; "
        "`(other)` has the rest. A function that is seldom seen may lose its series to another one. Opt-in (code): 33 "
        "series at most.",
        lambda code: code.seconds,
    ),
    "uwsgi_code_observed_seconds_total": (
        "Time for which the exporter knows which functions the busy threads are in. With gaps, divide by this time.",
        lambda code: code.observed_seconds,
    ),
}
