"""Figures of servers, computed from those of their workers."""

from __future__ import annotations

from collections.abc import Sequence

from alerts import cpu
from alerts.levels import by_server, of_server
from alerts.rule import Recording
from alerts.thresholds import Thresholds
from alerts.waiting import many_wait, noticed
from uwsgi_headroom.analysis.balance import ENOUGH_REQUESTS
from uwsgi_headroom.analysis.capacity import LEAST_LOAD, REACHED
from uwsgi_headroom.analysis.littles_law import IDLE_WHILE_WAITING, STANDING


def rules(t: Thresholds) -> Sequence[Recording]:
    """The rules of flow, balance and headroom, in this order."""
    return [*_flow(t), *_balance(t), *_headroom(t)]


def _flow(t: Thresholds) -> Sequence[Recording]:
    w = t.window
    observed = f"(rate(uwsgi_exporter_observed_seconds_total[{w}]) > 0)"
    requests, timed = f"server:uwsgi_requests:rate{w}", f"server:uwsgi_timed_requests:rate{w}"
    littles_law, concurrency = (
        f"server:uwsgi_concurrency_littles_law:rate{w}",
        f"server:uwsgi_concurrency_observed:ratio_rate{w}",
    )
    queue = f"server:uwsgi_queue_length:ratio_rate{w}"
    return [
        Recording(requests, by_server("sum", f"worker:uwsgi_requests:rate{w}")),
        Recording(timed, by_server("sum", f"worker:uwsgi_timed_requests:rate{w}")),
        Recording(littles_law, by_server("sum", f"rate(uwsgi_worker_running_time_seconds_total[{w}])")),
        Recording(f"server:uwsgi_response_time_seconds:ratio_rate{w}", f"{littles_law} / ({timed} > 0)"),
        Recording(
            concurrency, f"{by_server('sum', f'rate(uwsgi_worker_busy_thread_seconds_total[{w}])')} / {observed}"
        ),
        Recording(queue, f"sum without (socket) (rate(uwsgi_socket_queue_seconds_total[{w}])) / {observed}"),
        # `rate` divides by the whole window even if the series are younger: then requests are too few for the queue.
        # In a queue that hardly moves, the mean is over those that wait and are served, too, and a lower bound.
        Recording(
            f"server:uwsgi_queue_wait_seconds:ratio_rate{w}",
            f"""
            {queue}
              / ({accepted(t)} and {requests} > 0)
              and uwsgi_exporter_observed_seconds_total offset {w}
            """,
        ),
        Recording(
            f"server:uwsgi_utilization:ratio_rate{w}",
            f"({concurrency} or {littles_law}) / (uwsgi_threads_ceiling > 0)",
        ),
    ]


def accepted(t: Thresholds) -> str:
    """The requests per second over which the time in the queue is a mean: those that left it; in a queue that hardly
    moves, those that wait and are served, too."""
    requests, served = (
        f"server:uwsgi_requests:rate{t.window}",
        f"server:uwsgi_concurrency_observed:ratio_rate{t.window}",
    )
    waiting = f"({many_wait(t)}) + ({served} / {t.window_seconds:g} or 0 * {requests})"
    return f"({requests} + ({waiting} or 0 * {requests}))"


def _balance(t: Thresholds) -> Sequence[Recording]:
    w, seconds = t.window, t.window_seconds
    active, calm = f"worker:uwsgi_active_requests:rate{w}", f"worker:uwsgi_calm_requests:rate{w}"
    median = f"quantile without (worker_id) (0.5, {active})"
    workers, requests = f"server:uwsgi_active_workers:count{w}", f"server:uwsgi_active_requests:rate{w}"
    calm_time = f"server:uwsgi_calm_response_time_seconds:ratio_rate{w}"
    z_squared = f"(9 + 2 * ln({workers} / 2))"
    counted, enough = f"({requests} * {seconds:g})", f"{ENOUGH_REQUESTS} / {seconds:g}"
    return [
        Recording(workers, by_server("count", active)),
        Recording(requests, by_server("sum", active)),
        Recording(
            f"server:uwsgi_hot_worker_ratio:ratio_rate{w}",
            f"{by_server('count', active)} * {by_server('max', active)} / ({by_server('sum', active)} > 0)",
        ),
        # Derived in uwsgi_headroom.analysis.balance.noise_floor. One worker is always even.
        Recording(
            f"server:uwsgi_hot_worker_ratio_noise_floor:ratio_rate{w}",
            f"""
            (
              1
              + sqrt({z_squared} * ({workers} - 1) / {counted})
              + ({z_squared} - 1) / 6 * {workers} / {counted}
              and {workers} > 1
              or {workers} == 1
            )
            and {requests} > 0
            """,
        ),
        Recording(f"server:uwsgi_active_requests:median_rate{w}", median),
        # Workers are compared with the median of the same evaluation: where recorded series are written to a remote
        # store, as by vmalert, the recorded median is that of the evaluation before.
        # A worker at the median is calm, unless the median is also the maximum; if all workers tie, all are calm.
        Recording(
            calm,
            f"""
            {active} {of_server("<")} {median}
            or
            ({active} {of_server("==")} {median} and ignoring (worker_id) ({median} < {by_server("max", active)}))
            or
            ({active} {of_server("==")} {median} unless ignoring (worker_id) ({active} {of_server("<")} {median}))
            """,
        ),
        Recording(
            calm_time,
            f"""
            {by_server("sum", f"rate(uwsgi_worker_running_time_seconds_total[{w}]) and {calm}")}
              / ({by_server("sum", f"worker:uwsgi_timed_requests:rate{w} and {calm}")} >= {enough})
            and {workers} > 1
            """,
        ),
        Recording(
            f"server:uwsgi_unevenness_cost:ratio_rate{w}",
            f"clamp_min(1 - {calm_time} / (server:uwsgi_response_time_seconds:ratio_rate{w} > 0), 0)",
        ),
    ]


def _headroom(t: Thresholds) -> Sequence[Recording]:
    """A limit of which the load uses the part U is reached at 1/U times the load: uwsgi_headroom.analysis.capacity."""
    w = t.window
    workers, load = f"server:uwsgi_active_workers:count{w}", f"server:uwsgi_interpreter_load:rate{w}"
    loads = f"worker:uwsgi_interpreter_load:rate{w} and worker:uwsgi_active_requests:rate{w}"
    demand, capacity = f"server:uwsgi_cpu_demand:rate{w}", f"server:uwsgi_cpu_capacity:rate{w}"
    own, idle = cpu.used(t), f"rate(uwsgi_cpu_available_idle_seconds_total[{w}])"
    floor = f"{t.cpu_least:g} * uwsgi_cpus_usable"
    others = f"(rate(uwsgi_cpu_used_by_others_seconds_total[{w}]) and uwsgi_cpu_others_follow_load == 1)"
    used = {
        "hottest_interpreter": by_server("max", loads),
        "interpreters": f"{load} / {workers}",
        "threads": f"server:uwsgi_utilization:ratio_rate{w}",
        "cpu": f"{demand} / {capacity}",
    }
    unknown = f"{_stands_still(w)} or {_held_up(t, list(used.values()))} or {OTHER_LIMIT}"
    return [
        # Of the active workers, and only if the load of every one is known.
        Recording(load, f"{by_server('sum', loads)} and {by_server('count', loads)} == {workers}"),
        # CPUs in use by all programs that grow with the load, and the CPUs that these could use together. If idle time
        # is unknown, the CPUs that the workers use, and the usable CPUs. The kernel leaves a small part to the workers
        # whatever others do: without that, each idle server of a busy host would have no headroom.
        Recording(
            demand,
            f"""
            ({own} > 0) + {others}
            or {own}
            or ({load} and uwsgi_cpus_usable)
            """,
        ),
        Recording(
            capacity,
            f"""
            {demand} + {idle} >= {floor}
            or ({floor} and {demand} + {idle})
            or {demand} + {idle}
            or (uwsgi_cpus_usable and {load})
            """,
        ),
        *(
            headroom(f"server:uwsgi_headroom:ratio_rate{w}", limit, part, unless=unknown)
            for limit, part in used.items()
        ),
    ]


OTHER_LIMIT = """(
  max without (limit, window) (
    uwsgi_headroom_ratio{limit="other"} <= ignoring (limit) min without (limit) (uwsgi_headroom_ratio)
  )
  or max without (window) (uwsgi_window_seconds) unless max without (limit, window) (uwsgi_headroom_ratio)
)"""
"""That something else than its resources limits a server first, by the exporter's own figures, which see what the
threads wait for: its headroom is none of what the counters give, or not known."""


def _stands_still(window: str) -> str:
    """That no request is completed, although some wait beside free threads, or there are none at all: such a server has
    no headroom that is known."""
    use = f"server:uwsgi_utilization:ratio_rate{window}"
    waiting = f"server:uwsgi_queue_length:ratio_rate{window} >= {STANDING:g} unless {use} >= {REACHED:g}"
    return f"server:uwsgi_requests:rate{window} == 0 and ({waiting} or {use} == 0)"


def _held_up(t: Thresholds, used: Sequence[str]) -> str:
    """That requests wait beside free threads, or that no worker is there, and none of the limits is reached, of which
    these parts are used: something else keeps the server from serving, so its headroom is not known."""
    w = t.window
    beside = f"rate(uwsgi_idle_queue_seconds_total[{w}]) / (rate(uwsgi_exporter_observed_seconds_total[{w}]) > 0)"
    reached = " or ".join(f"{part} >= {REACHED:g}" for part in used)
    free = f"({beside} >= {IDLE_WHILE_WAITING:g} or uwsgi_threads_available == 0)"
    return f"({free} and ({noticed(t)}) unless ({reached}))"


def headroom(record: str, limit: str, used: str, unless: str = "") -> Recording:
    """Records the headroom of a limit of which the load uses the part `used`. Absent below LEAST_LOAD, where headroom
    is noise, and larger than anybody plans for, and where `unless` is true."""
    factor = f"1 / ({used} >= {LEAST_LOAD})"
    return Recording(record, f"{factor} unless ({unless})" if unless else factor, labels=(("limit", limit),))
