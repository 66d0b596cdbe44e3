"""Figures of single workers."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.levels import by_server, by_worker, of_server
from alerts.rule import Recording
from alerts.thresholds import Thresholds
from uwsgi_headroom.analysis.balance import ACTIVE


def rules(t: Thresholds) -> Sequence[Recording]:
    """uWSGI's counters are of worker slots, so a respawn does not show in them; CPU time is a process's own, and `rate`
    takes it for a counter that began again.
    """
    w = t.window
    requests, active = f"worker:uwsgi_requests:rate{w}", f"worker:uwsgi_active_requests:rate{w}"
    timed = f"worker:uwsgi_timed_requests:rate{w}"
    return [
        Recording(requests, f"rate(uwsgi_worker_requests_total[{w}])"),
        # Workers that cheaper mode adds or ends within the window are not to be blamed for their small shares.
        Recording(active, f"{requests} and avg_over_time(uwsgi_worker_accepting[{w}]) >= {ACTIVE}"),
        # Static files are counted as requests and take no running time; stats-no-cores does not tell of them.
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
            f"worker:uwsgi_interpreter_load:rate{w}",
            by_worker("sum", f"rate(uwsgi_worker_cpu_seconds_total[{w}])", also="mode"),
        ),
        Recording(
            f"worker:uwsgi_concurrency_observed:ratio_rate{w}",
            f"""
            rate(uwsgi_worker_busy_thread_seconds_total[{w}])
              {of_server("/")} (rate(uwsgi_exporter_observed_seconds_total[{w}]) > 0)
            """,
        ),
    ]
