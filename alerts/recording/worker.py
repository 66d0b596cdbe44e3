"""Figures of workers."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.levels import WORKER_LABELS, by_server, by_worker, of_server
from alerts.rule import Recording
from alerts.thresholds import Thresholds
from uwsgi_headroom.analysis.balance import ACTIVE
from uwsgi_headroom.analysis.polling import AT_TIMES, FULL, LEAST, OF_KERNEL


def rules(t: Thresholds) -> Sequence[Recording]:
    """The rules for workers. uWSGI counts per worker slot, so a respawn does not reset its counters; CPU time belongs
    to a process, and `rate` handles a respawn as a counter reset.
    """
    w = t.window
    requests, active = f"worker:uwsgi_requests:rate{w}", f"worker:uwsgi_active_requests:rate{w}"
    timed = f"worker:uwsgi_timed_requests:rate{w}"
    busy, polling = f"worker:uwsgi_concurrency_observed:ratio_rate{w}", f"worker:uwsgi_polling_cpus:rate{w}"
    cpu = by_worker("sum", f"rate(uwsgi_worker_cpu_seconds_total[{w}])", also="mode")
    of_kernel = by_worker("sum", f'rate(uwsgi_worker_cpu_seconds_total{{mode="system"}}[{w}])', also="mode")
    observed = f"(rate(uwsgi_exporter_observed_seconds_total[{w}]) > 0)"
    return [
        Recording(requests, f"rate(uwsgi_worker_requests_total[{w}])"),
        # Leaves out workers that cheaper mode starts or ends within the window: their shares are small.
        Recording(active, f"{requests} and avg_over_time(uwsgi_worker_accepting[{w}]) >= {ACTIVE}"),
        # uWSGI counts static files as requests, without running time; stats-no-cores hides their number.
        Recording(timed, f"{requests} - rate(uwsgi_worker_static_requests_total[{w}]) or {requests}"),
        Recording(
            f"worker:uwsgi_request_share:ratio_rate{w}",
            f"{requests} {of_server('/')} ({by_server('sum', requests)} > 0)",
        ),
        Recording(
            f"worker:uwsgi_response_time_seconds:ratio_rate{w}",
            f"rate(uwsgi_worker_running_time_seconds_total[{w}]) / ({timed} > 0)",
        ),
        Recording(
            busy,
            f"""
            rate(uwsgi_worker_busy_thread_seconds_total[{w}])
              {of_server("/")} {observed}
            """,
        ),
        # Only workers with coroutines have a loop that a call can hold: uwsgi_headroom.analysis.polling.
        Recording(
            polling,
            f"""
            {cpu} >= {LEAST}
            and {of_kernel} >= {OF_KERNEL} * {cpu}
            and rate(uwsgi_worker_loop_held_seconds_total[{w}]) >= 0
            and (
              {busy} >= {FULL} * uwsgi_worker_threads
              or {busy} and ignoring ({WORKER_LABELS}) (
                rate(uwsgi_full_occupancy_seconds_total[{w}]) / {observed} >= {AT_TIMES}
              )
            )
            """,
        ),
        # What a worker uses while it polls is not known to be needed.
        Recording(f"worker:uwsgi_interpreter_load:rate{w}", f"{cpu} unless {polling}"),
    ]
