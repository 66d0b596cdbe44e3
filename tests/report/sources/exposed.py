"""The series that an exporter of a synthetic server would expose, minute by minute."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from tests.support.synthetic.plan import DAY, History, Service
from tests.support.synthetic.server import make_server
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS
from uwsgi_headroom.report.columns import PERCENTILES, Column, ServerData

MINUTE = 60.0
SAMPLES_PER_SECOND = 5
WINDOW_MINUTES = 5
UWSGIS_OWN = (
    "uwsgi_worker_requests_total",
    "uwsgi_worker_static_requests_total",
    "uwsgi_worker_running_time_seconds_total",
)
"""Counters that a full reload resets."""


class Exposed(Struct, frozen=True):
    """A series. values: at the start of the history and at the end of each of its minutes; counter: whether they are a
    total, or a level."""

    name: str
    values: Column
    counter: bool
    labels: Mapping[str, str] = field(default_factory=dict)


def expose(history: History, service: Service, place: int) -> Iterator[Exposed]:
    """The series of a service's `place`-th server, without target labels."""
    minutes = make_server(history, service, place, MINUTE)
    ends = history.since + MINUTE * np.arange(len(minutes.time) + 1)

    def reset_at(days: Sequence[float]) -> list[int]:
        return [int(np.searchsorted(ends, history.since + DAY * day)) for day in days]

    restarts = reset_at(service.restarts)
    for name, labels, growth in _counters(minutes):
        resets = sorted({*restarts, *reset_at(service.reloads)}) if name in UWSGIS_OWN else restarts
        yield Exposed(name, _total(growth, resets, whole=_is_count(name)), True, {"server": service.name, **labels})
    for name, labels, level in _levels(minutes):
        yield Exposed(name, np.concatenate([level[:1], level]), False, {"server": service.name, **labels})


def _is_count(name: str) -> bool:
    return "seconds" not in name or name.endswith("_bucket")


def _total(growth: Column, resets: Sequence[int], *, whole: bool) -> Column:
    """The total after each minute, from 0, and from 0 again after a reset."""
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(growth))])
    for place in resets:
        total[place:] -= total[place]
    return np.floor(total + 1e-6) if whole else total


def _counters(minutes: ServerData) -> Iterator[tuple[str, dict[str, str], Column]]:
    """Name, labels and growth per minute of each counter."""
    observed = MINUTE * minutes.covered
    yield "uwsgi_exporter_observed_seconds_total", {}, observed
    yield "uwsgi_exporter_sample_gap_seconds_total", {}, MINUTE - observed
    yield "uwsgi_full_occupancy_seconds_total", {}, MINUTE * minutes.full
    yield "uwsgi_server_reloads_total", {}, minutes.reloads
    yield "uwsgi_listen_overflows_total", {}, minutes.overflows
    yield "uwsgi_cpu_used_by_workers_seconds_total", {}, MINUTE * minutes.cpu_own
    yield "uwsgi_cpu_available_idle_seconds_total", {}, MINUTE * minutes.cpu_idle
    yield "uwsgi_cpu_used_by_others_seconds_total", {}, MINUTE * minutes.cpu_others
    yield "uwsgi_wait_observed_seconds_total", {}, observed
    yield "uwsgi_socket_queue_seconds_total", {"socket": "/run/a.sock"}, MINUTE * minutes.queue
    yield "uwsgi_socket_queue_full_seconds_total", {"socket": "/run/a.sock"}, MINUTE * minutes.queue_full
    if minutes.objective:
        yield "uwsgi_slo_requests_total", {}, MINUTE * minutes.judged
        yield "uwsgi_slo_bad_requests_total", {"reason": "slow"}, MINUTE * (minutes.slow - minutes.lost)
        yield "uwsgi_slo_bad_requests_total", {"reason": "lost"}, MINUTE * minutes.lost
    for state, threads in minutes.waits.items():
        yield "uwsgi_wait_thread_seconds_total", {"state": state}, MINUTE * threads
    for backend, threads in minutes.backends.items():
        yield "uwsgi_backend_wait_thread_seconds_total", {"backend": backend}, MINUTE * threads
    for route, threads in minutes.routes.items():
        yield "uwsgi_route_busy_thread_seconds_total", {"route": route}, MINUTE * threads
    yield "uwsgi_events_total", {"kind": "reload"}, minutes.reloads
    samples = SAMPLES_PER_SECOND * MINUTE
    for bound, share in zip((*OCCUPANCY_BOUNDS, "+Inf"), np.cumsum(minutes.occupancy, axis=0), strict=True):
        yield "uwsgi_threads_busy_ratio_bucket", {"le": str(bound)}, samples * share
    for edge, rate in zip(minutes.bounds, np.cumsum(minutes.by_time, axis=0), strict=True):
        le = "+Inf" if edge == float("inf") else str(edge)
        yield "uwsgi_response_time_seconds_bucket", {"le": le}, MINUTE * rate
    yield from _of_workers(minutes)


def _of_workers(minutes: ServerData) -> Iterator[tuple[str, dict[str, str], Column]]:
    for worker in minutes.by_worker:
        own = {"worker_id": str(worker.worker_id)}
        nothing = np.zeros(len(minutes.time))
        yield "uwsgi_worker_requests_total", own, MINUTE * worker.requests
        yield "uwsgi_worker_static_requests_total", own, nothing
        yield "uwsgi_worker_running_time_seconds_total", own, MINUTE * worker.running
        yield "uwsgi_worker_busy_thread_seconds_total", own, MINUTE * worker.busy
        yield "uwsgi_worker_interpreter_lock_wait_thread_seconds_total", own, MINUTE * worker.lock
        yield "uwsgi_worker_cpu_seconds_total", {**own, "mode": "user"}, 0.75 * MINUTE * worker.cpu
        yield "uwsgi_worker_cpu_seconds_total", {**own, "mode": "system"}, 0.25 * MINUTE * worker.cpu
        yield "uwsgi_worker_lost_requests_total", own, nothing
        yield "uwsgi_worker_exceptions_total", own, nothing
        yield "uwsgi_worker_harakiri_total", own, nothing
        yield "uwsgi_worker_respawns_total", own, minutes.respawns / len(minutes.by_worker)


def _levels(minutes: ServerData) -> Iterator[tuple[str, dict[str, str], Column]]:
    """Name, labels and values of each gauge."""
    yield "uwsgi_up", {}, minutes.covered
    yield "uwsgi_threads_configured", {}, minutes.configured
    yield "uwsgi_threads_available", {}, minutes.available
    yield "uwsgi_cpus_usable", {}, minutes.cpus
    yield "uwsgi_memory_available_bytes", {}, minutes.memory_available
    yield "uwsgi_thunder_lock", {}, np.zeros(len(minutes.time))
    if minutes.objective:
        yield "uwsgi_slo_threshold_seconds", {}, np.full(len(minutes.time), minutes.objective.threshold)
        yield "uwsgi_slo_objective_ratio", {}, np.full(len(minutes.time), minutes.objective.objective)
    window = {"window": f"{WINDOW_MINUTES}m"}
    yield "uwsgi_window_seconds", window, np.full(len(minutes.time), 60.0 * WINDOW_MINUTES)
    yield "uwsgi_throughput_requests_per_second", window, _mean_so_far(minutes.requests)
    for share, seconds in zip(PERCENTILES, minutes.percentiles, strict=True):
        labels = {**window, "percentile": f"{100 * share:g}"}
        yield "uwsgi_response_time_percentile_seconds", labels, _mean_so_far(seconds)
    for worker in minutes.by_worker:
        own = {"worker_id": str(worker.worker_id)}
        yield "uwsgi_worker_accepting", own, worker.accepting
        yield "uwsgi_worker_unique_memory_bytes", own, minutes.memory_per_worker


def _mean_so_far(values: Column) -> Column:
    """The mean of the last minutes, up to each minute."""
    padded = np.concatenate([np.full(WINDOW_MINUTES - 1, values[0]), values])
    mean: Column = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_MINUTES).mean(axis=1)
    return mean
