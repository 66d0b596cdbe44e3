"""Figures of services, computed from those of their servers: servers of one name in one job, on any instance.

A server without a figure counts in neither the numerator nor the denominator of its service.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.levels import by_service
from alerts.recording.server import accepted, headroom
from alerts.rule import Recording
from alerts.thresholds import Thresholds
from uwsgi_headroom.analysis.balance import ENOUGH_REQUESTS


def rules(t: Thresholds) -> Sequence[Recording]:
    """The rules, in the order of those for servers."""
    return [*_flow(t), *_balance(t), *_headroom(t)]


def _flow(t: Thresholds) -> Sequence[Recording]:
    w = t.window
    requests, timed = f"server:uwsgi_requests:rate{w}", f"server:uwsgi_timed_requests:rate{w}"
    littles_law, observed = (
        f"server:uwsgi_concurrency_littles_law:rate{w}",
        f"server:uwsgi_concurrency_observed:ratio_rate{w}",
    )
    queue, used = f"server:uwsgi_queue_length:ratio_rate{w}", f"server:uwsgi_utilization:ratio_rate{w}"
    whole = f"uwsgi_exporter_observed_seconds_total offset {w}"
    return [
        Recording(f"service:uwsgi_requests:rate{w}", by_service("sum", requests, t)),
        Recording(f"service:uwsgi_concurrency_littles_law:rate{w}", by_service("sum", littles_law, t)),
        Recording(f"service:uwsgi_concurrency_observed:ratio_rate{w}", by_service("sum", observed, t)),
        Recording(
            f"service:uwsgi_response_time_seconds:ratio_rate{w}",
            f"{by_service('sum', littles_law, t)} / ({by_service('sum', f'{timed} and {littles_law}', t)} > 0)",
        ),
        Recording(
            f"service:uwsgi_queue_wait_seconds:ratio_rate{w}",
            f"""
            {by_service("sum", f"{queue} and {whole}", t)}
              / {by_service("sum", f"{accepted(t)} and {queue} and {whole}", t)}
              and {by_service("sum", f"{requests} and {queue} and {whole}", t)} > 0
            """,
        ),
        Recording("service:uwsgi_threads_available:sum", by_service("sum", "uwsgi_threads_available", t)),
        Recording("service:uwsgi_threads_configured:sum", by_service("sum", "uwsgi_threads_configured", t)),
        Recording(
            f"service:uwsgi_utilization:ratio_rate{w}",
            f"""
            {by_service("sum", f"{used} * uwsgi_threads_ceiling", t)}
              / {by_service("sum", f"uwsgi_threads_ceiling and {used}", t)}
            """,
        ),
    ]


def _balance(t: Thresholds) -> Sequence[Recording]:
    w, seconds = t.window, t.window_seconds
    cost, littles_law = f"server:uwsgi_unevenness_cost:ratio_rate{w}", f"server:uwsgi_concurrency_littles_law:rate{w}"
    enough = f"server:uwsgi_active_requests:rate{w} >= {ENOUGH_REQUESTS} / {seconds:g}"
    return [
        # The worst server. Servers with few requests are left out: they are uneven by chance.
        Recording(
            f"service:uwsgi_hot_worker_ratio:max_ratio_rate{w}",
            by_service("max", f"server:uwsgi_hot_worker_ratio:ratio_rate{w} and {enough}", t),
        ),
        # The time that balancing would save, divided by the time in service.
        Recording(
            f"service:uwsgi_unevenness_cost:ratio_rate{w}",
            f"{by_service('sum', f'{cost} * {littles_law}', t)} / {by_service('sum', f'{littles_law} and {cost}', t)}",
        ),
    ]


def _headroom(t: Thresholds) -> Sequence[Recording]:
    w = t.window
    record = f"service:uwsgi_headroom:ratio_rate{w}"
    workers, load = f"server:uwsgi_active_workers:count{w}", f"server:uwsgi_interpreter_load:rate{w}"
    demand, capacity = f"server:uwsgi_cpu_demand:rate{w}", f"server:uwsgi_cpu_capacity:rate{w}"
    hottest = f"worker:uwsgi_interpreter_load:rate{w} and worker:uwsgi_active_requests:rate{w}"
    used = {
        "hottest_interpreter": by_service("max", hottest, t, also="worker_id"),
        "interpreters": f"{by_service('sum', load, t)} / {by_service('sum', f'{workers} and {load}', t)}",
        "threads": f"service:uwsgi_utilization:ratio_rate{w}",
        "cpu": f"{by_service('sum', demand, t)} / {by_service('sum', capacity, t)}",
    }
    return [headroom(record, limit, part) for limit, part in used.items()]
