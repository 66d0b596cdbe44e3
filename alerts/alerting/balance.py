"""Alerts about uneven workers: a ticket if unevenness persists under load, a page if it slows requests down.

Both are per server, and their texts query which worker is the hottest: with `worker_id` as a label, `for` would start
over whenever another worker becomes the hottest.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts import cpu
from alerts.levels import by_server, of_server
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import (
    CHECK,
    HUNDREDTH,
    INSTANCE,
    SERVER,
    SERVER_DASHBOARD,
    TENTH,
    WHOLE,
    answer,
    asked,
    milliseconds,
    value,
)

EVEN_OUT = (
    f"Use more `processes` with fewer `threads` each: {answer('2 * count(uwsgi_worker_threads{$self})')} processes "
    f"with {answer('ceil(max(uwsgi_worker_threads{$self}) / 2)')} threads, instead of "
    f"{answer('count(uwsgi_worker_threads{$self})')} processes with {answer('max(uwsgi_worker_threads{$self})')} "
    "threads. Change one setting at a time, and compare the response times before and after."
)
"""The advice, with processes x threads computed for the server."""

HOT_WORKER = "Worker {{ $id }}"
"""Names the worker in a text that begins with `_worker`."""


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `balance.yaml`."""
    return [Group("uwsgi-headroom balance", [_hot_worker_saturated(t), _workers_uneven(t)])]


def _hot_worker_saturated(t: Thresholds) -> Alert:
    w = t.window
    share, load = f"worker:uwsgi_request_share:ratio_rate{w}", f"worker:uwsgi_interpreter_load:rate{w}"
    hot = f"topk(1, {share}{{$self}} and {load}{{$self}} >= {t.interpreter_full})"
    slow = f"worker:uwsgi_response_time_seconds:ratio_rate{w}{{$worker}}"
    calm, mean = (f"server:uwsgi_{prefix}response_time_seconds:ratio_rate{w}{{$self}}" for prefix in ("calm_", ""))
    part = answer(f"100 * {share}{{$worker}}", WHOLE)
    return Alert(
        alert="UwsgiHotWorkerSaturated",
        # Where no CPU is idle, all workers are slow for that reason.
        expr=f"{_slowed(t)}\nand {_above_noise(t)}\nand {_idle(t)} >= {t.hot_worker_idle}\nunless ({cpu.lacks(t)})",
        hold=t.hot_worker_hold,
        keep=t.load_keep,
        severity="critical",
        summary=f"{_worker(hot)}uWSGI {SERVER} on {INSTANCE}: "
        f"worker {{{{ $id }}}} is saturated and takes {part} % of the requests, while other workers have free threads",
        acts=(
            EVEN_OUT,
            "If `map-socket` assigns sockets to certain workers, skip step 1, and spread the load evenly over these "
            "sockets.",
            f"If one kind of request uses most of the CPU, make it cheaper, or serve it from another uWSGI: {CHECK} "
            "shows which kind of request this is.",
        ),
        evidence=f"{_worker(hot)}{HOT_WORKER} takes {part} % of the requests, and its interpreter uses "
        + answer(f"{load}{{$worker}}", HUNDREDTH)
        + f" of a CPU. Requests take {milliseconds(slow)} in this worker, but {milliseconds(calm)} in less busy "
        "workers; " + answer(_idle(t, "{$self}"), WHOLE) + " threads of other workers are idle. "
        f"The uneven load adds {milliseconds(f'({slow} - ignoring (worker_id) {calm})')} to {part} % of the requests: "
        f"the mean response time is {milliseconds(mean)} instead of {milliseconds(calm)}.",
        dashboard=SERVER_DASHBOARD,
    )


def _workers_uneven(t: Thresholds) -> Alert:
    w = t.window
    ratio, share = f"server:uwsgi_hot_worker_ratio:ratio_rate{w}", f"worker:uwsgi_request_share:ratio_rate{w}"
    calm, mean = (f"server:uwsgi_{prefix}response_time_seconds:ratio_rate{w}{{$self}}" for prefix in ("calm_", ""))
    shares = f"sort_desc(topk(8, 100 * {share}{{$self}}))"
    return Alert(
        alert="UwsgiWorkersUneven",
        expr=f"{ratio} > {t.uneven_ratio}\nand {_above_noise(t)}\nand {_loaded(t)}",
        hold=t.uneven_hold,
        keep=t.load_keep,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: one worker takes {value(TENTH)} times an even share of the requests",
        acts=(
            "If equal shares would shorten the mean response time by less than 10 % (see below), do nothing: the "
            "uneven shares are harmless.",
            "If `map-socket` assigns sockets to certain workers, spread the load evenly over these sockets.",
            EVEN_OUT,
        ),
        evidence=f"{_worker(f'topk(1, {share}{{$self}})')}{HOT_WORKER} takes the most requests. Shares of the busiest "
        "workers: {{ range $place, $of := "
        + asked(shares)
        + ' }}{{ if $place }}, {{ end }}{{ printf "%.0f" $of.Value }} %{{ end }}. The largest share is '
        f"{value(TENTH)} times an even share; by chance alone, this would be at most "
        + answer(f"server:uwsgi_hot_worker_ratio_noise_floor:ratio_rate{w}{{$self}}", TENTH)
        + " times. Requests take "
        + milliseconds(f"worker:uwsgi_response_time_seconds:ratio_rate{w}{{$worker}}")
        + f" in worker {{{{ $id }}}}, but {milliseconds(calm)} in less busy workers; the interpreter of worker "
        "{{ $id }} uses "
        + answer(f"worker:uwsgi_interpreter_load:rate{w}{{$worker}}", HUNDREDTH)
        + f" of a CPU. Even shares would save {milliseconds(f'clamp_min({mean} - {calm}, 0)')} ("
        + answer(f"100 * server:uwsgi_unevenness_cost:ratio_rate{w}{{$self}}", WHOLE)
        + " %) of the mean response time.",
        dashboard=SERVER_DASHBOARD,
    )


def _slowed(t: Thresholds) -> str:
    """How many times slower the requests of an overloaded, saturated worker are than those of the calm workers."""
    w = t.window
    active = f"worker:uwsgi_active_requests:rate{w}"
    return by_server(
        "max",
        f"""
  worker:uwsgi_response_time_seconds:ratio_rate{w}
    {of_server("/")} server:uwsgi_calm_response_time_seconds:ratio_rate{w} >= {t.hot_worker_slower}
  and worker:uwsgi_response_time_seconds:ratio_rate{w}
    {of_server("-")} server:uwsgi_calm_response_time_seconds:ratio_rate{w} >= {t.queue_wait_least_seconds}
  and worker:uwsgi_interpreter_load:rate{w} >= {t.interpreter_full}
  and {active} {of_server(">")} ({t.hot_worker_ratio} * {by_server("avg", active)})
""",
    )


def _above_noise(t: Thresholds) -> str:
    ratio = f"server:uwsgi_hot_worker_ratio:ratio_rate{t.window}"
    return f"{ratio} > server:uwsgi_hot_worker_ratio_noise_floor:ratio_rate{t.window}"


def _idle(t: Thresholds, of: str = "") -> str:
    """Idle threads of workers whose interpreters have room for more requests."""
    w = t.window
    idle = f"uwsgi_worker_threads{of} - worker:uwsgi_concurrency_observed:ratio_rate{w}{of}"
    room = f"worker:uwsgi_interpreter_load:rate{w}{of} < {t.interpreter_full}"
    return by_server("sum", f"{idle} and worker:uwsgi_active_requests:rate{w}{of} and {room}")


def _loaded(t: Thresholds) -> str:
    w = t.window
    loads = f"worker:uwsgi_interpreter_load:rate{w} and worker:uwsgi_active_requests:rate{w}"
    concurrency = f"server:uwsgi_concurrency_observed:ratio_rate{w} or server:uwsgi_concurrency_littles_law:rate{w}"
    return (
        f"(\n  server:uwsgi_utilization:ratio_rate{w} >= {t.uneven_utilization}\n"
        f"  or {by_server('max', loads)} >= {t.uneven_interpreter}\n)\n"
        f"and ({concurrency}) > {t.uneven_concurrency}"
    )


def _worker(query: str) -> str:
    """A template that sets `$id` to the id of the worker that a query returns, and `$worker` to its labels."""
    return (
        '{{ $id := "?" }}{{ range '
        + asked(query)
        + " }}{{ $id = .Labels.worker_id }}{{ end }}"
        + '{{ $worker := printf "%sworker_id=%q" $self $id }}'
    )
