"""Counters integrated from samples, which no single reading contains."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS, sum_if_all_known
from uwsgi_headroom.history.totals import CpuTotals, Totals
from uwsgi_headroom.metrics.family import (
    Family,
    Line,
    Scrape,
    Table,
    counter,
    label_each,
    label_set,
    labels_of,
    tabulate_families,
)

_OCCUPANCY = "uwsgi_threads_busy_ratio"
_BUCKET = f"{_OCCUPANCY}_bucket"
_BOUNDS = (*map(str, OCCUPANCY_BOUNDS), "+Inf")

_CPU: Table[CpuTotals] = (
    (
        "uwsgi_cpu_used_by_workers_seconds_total",
        "CPU time of all workers and of the child processes they waited for.",
        lambda cpu: cpu.own_seconds,
    ),
    (
        "uwsgi_cpu_available_idle_seconds_total",
        "Idle CPU time that the server could have used: on the CPUs its workers may run on, within its cgroup's quota.",
        lambda cpu: cpu.idle_seconds,
    ),
    (
        "uwsgi_cpu_used_by_others_seconds_total",
        "CPU time that other programs used and the server could have used: on its CPUs, or within its cgroup's quota "
        "if that is tighter.",
        lambda cpu: cpu.others_seconds if cpu.others_since is not None else None,
    ),
)


_QUOTA: Table[Totals] = (
    (
        "uwsgi_cpu_quota_periods_total",
        "Periods of the CPU quota (0.1 s by default) in which a process of the server's cgroup could run. Of several "
        "cgroups with a quota, the one that stops the workers most. Absent without a quota.",
        lambda totals: totals.quota_periods,
    ),
    (
        "uwsgi_cpu_quota_throttled_periods_total",
        "Those of uwsgi_cpu_quota_periods_total in which the quota was used up, so that the kernel stopped the workers "
        "until the next period.",
        lambda totals: totals.throttled_periods,
    ),
    (
        "uwsgi_cpu_quota_throttled_seconds_total",
        "For how long the kernel stopped the workers because the quota was used up, summed over the CPUs.",
        lambda totals: totals.throttled_seconds,
    ),
)


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape."""
    observed = [(server, server.observation.totals) for server in scrape.servers]
    yield counter(
        "uwsgi_worker_busy_thread_seconds_total",
        "Integral of the worker's busy threads over time, from samples. Its rate is observed concurrency.",
        [(labels, worker.busy_seconds) for server in scrape.servers for labels, worker in server.worker_totals],
    )
    yield counter(
        "uwsgi_worker_cpu_residency_seconds_total",
        "CPU time of the worker's threads, by CPU. Opt-in (cpu-residency): workers x CPUs series.",
        [
            (label_set(**labels, cpu=str(cpu)), seconds)
            for server in scrape.servers
            for labels, worker in server.worker_totals
            for cpu, seconds in sorted(worker.residency.items())
        ],
    )
    cpus = [(server.labels, totals.cpu) for server, totals in observed if totals.cpu and totals.cpu.since is not None]
    yield from tabulate_families(_CPU, cpus)
    limited = [(server.labels, totals) for server, totals in observed if totals.quota_periods is not None]
    yield from tabulate_families(_QUOTA, limited)
    yield counter(
        "uwsgi_socket_queue_seconds_total",
        "Integral of the listen queue's length over time, from samples. Divided by requests, it is their mean wait.",
        [
            (labels_of(server.observation, socket=name), area)
            for server, totals in observed
            for name, area in totals.queue_seconds.items()
        ],
    )
    yield counter(
        "uwsgi_socket_queue_full_seconds_total",
        "Time with the listen queue at its limit, from samples: the kernel refused or dropped further clients.",
        [
            (labels_of(server.observation, socket=name), area)
            for server, totals in observed
            for name, area in totals.queue_full_seconds.items()
        ],
    )
    yield counter(
        "uwsgi_idle_queue_seconds_total",
        "Time in which a request waited in a listen queue although a thread was free, from samples: something keeps "
        "the workers from accepting it. Absent if no queue is measured or threads are unknown.",
        [(server.labels, totals.idle_queue_seconds) for server, totals in observed],
    )
    yield counter(
        "uwsgi_no_worker_seconds_total",
        "Time in which uWSGI's master answered and no worker took requests, from samples: all were replaced, paused or "
        "starting at once.",
        [(server.labels, totals.no_worker_seconds) for server, totals in observed],
    )
    yield counter(
        "uwsgi_starting_worker_seconds_total",
        "Integral of the workers that have a process and accept no request yet, from samples: they load the "
        "application.",
        [(server.labels, totals.starting_seconds) for server, totals in observed],
    )
    yield counter(
        "uwsgi_memory_growth_bytes_total",
        "How far the memory of each worker process rose above what it had after its first request, summed over all "
        "processes: a leak grows it although workers are replaced. Absent unless uWSGI reports memory "
        "(`memory-report`, `reload-on-rss`).",
        [(server.labels, _grown_bytes(totals)) for server, totals in observed],
    )
    yield counter(
        "uwsgi_worker_lost_requests_total",
        "Requests that were in service when the worker's process ended, and that uWSGI never counted as completed; a "
        "lower bound. Absent if threads are unknown.",
        [
            (labels, None if worker.busy_seconds is None else worker.lost)
            for server in scrape.servers
            for labels, worker in server.worker_totals
        ],
    )
    yield counter(
        "uwsgi_unanswered_requests_total",
        "Requests that ended at once, without a byte of an answer and without an error; a lower bound. uWSGI has no "
        "plugin for them. Absent with stats-no-cores.",
        [(server.labels, totals.unanswered) for server, totals in observed],
    )
    yield counter(
        "uwsgi_full_occupancy_seconds_total",
        "Time with every available thread busy. Absent with stats-no-cores, which hides the threads.",
        [(server.labels, totals.full_seconds) for server, totals in observed if any(totals.occupancy)],
    )
    yield _occupancy(scrape)
    yield counter(
        "uwsgi_server_reloads_total",
        "Full reloads seen; each one resets uWSGI's own counters to zero.",
        [(server.labels, totals.reloads) for server, totals in observed],
    )
    every = scrape.observations
    yield counter(
        "uwsgi_exporter_samples_total",
        "Readings used for the integrals.",
        [(labels, observation.totals.samples) for labels, observation in every],
    )
    yield counter(
        "uwsgi_exporter_observed_seconds_total",
        "Time covered by samples. If there are gaps, divide an integral by this time, not by wall-clock time.",
        [(labels, observation.totals.observed_seconds) for labels, observation in every],
    )
    yield counter(
        "uwsgi_exporter_sample_gap_seconds_total",
        "Time not covered by samples: failed reads, pauses, reloads. No integral includes this time.",
        [(labels, observation.totals.gap_seconds) for labels, observation in every],
    )


def _grown_bytes(totals: Totals) -> int | None:
    kilobytes = sum_if_all_known([worker.grown_kilobytes for worker in totals.workers])
    return None if kilobytes is None else 1024 * kilobytes


def _occupancy(scrape: Scrape) -> Family:
    lines: list[Line] = []
    for server in scrape.servers:
        totals = server.observation.totals
        if not any(totals.occupancy):  # uWSGI does not list threads
            continue
        counts = list(accumulate(totals.occupancy))
        lines += [
            (_BUCKET, labels, count)
            for labels, count in zip(label_each(server.observation, "le", _BOUNDS), counts, strict=True)
        ]
        lines.append((f"{_OCCUPANCY}_count", server.labels, counts[-1]))
        lines.append((f"{_OCCUPANCY}_sum", server.labels, totals.occupancy_sum))
    return Family(
        _OCCUPANCY,
        "Samples by busy / available threads. Above 0.99: every thread is busy, or fewer than one in a hundred is not.",
        "histogram",
        lines,
    )
