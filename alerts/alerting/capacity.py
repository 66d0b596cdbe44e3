"""Alerts about load near a limit: threads, interpreters, CPUs.

An unknown limit raises no alert: stats-no-cores hides threads, and CPU time needs a proven process.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts import cpu, waiting
from alerts.levels import by_server
from alerts.more_capacity import more_capacity
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import HUNDREDTH, INSTANCE, SERVER, SERVER_DASHBOARD, TENTH, WHOLE, answer, asked, milliseconds, value
from uwsgi_headroom.analysis.wait_states import BEYOND_ONE, CONTENDED, LOCK_WAIT

DAY = 86400


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `capacity.yaml`."""
    alerts = (_near_capacity, _headroom_low, _interpreter_bound, _cpu_bound, _workers_share_one_cpu)
    return [
        Group("uwsgi-headroom capacity", [alert(t) for alert in alerts]),
        Group("uwsgi-headroom forecast", [_forecast(t)], interval="1h"),
    ]


def _near_capacity(t: Thresholds) -> Alert:
    """Pages if nearly all threads are busy and requests wait. If no request waits, or the wait is unknown, the ticket
    of UwsgiHeadroomLow is enough.
    """
    w = t.window
    used = f"server:uwsgi_utilization:ratio_rate{w}"
    full = (
        f"100 * rate(uwsgi_full_occupancy_seconds_total{{$self}}[{w}])"
        f" / rate(uwsgi_exporter_observed_seconds_total{{$self}}[{w}])"
    )
    return Alert(
        alert="UwsgiConcurrencyNearCapacity",
        expr=f"{used} >= {t.near_capacity}\nand {waiting.noticed(t)}",
        hold=t.near_capacity_hold,
        keep=t.load_keep,
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE} has hardly any thread free, and requests wait for one.",
        description=answer(f"{used}{{$self}} * uwsgi_threads_ceiling{{$self}}", TENTH)
        + f" of {answer('uwsgi_threads_ceiling{$self}')} threads are busy on average, and all running threads are "
        f"busy {answer(full, WHOLE)} % of the time. A request that finds no free thread waits in the listen queue, "
        "now for "
        + milliseconds(f"server:uwsgi_queue_wait_seconds:ratio_rate{w}{{$self}}")
        + f" on average. {answer(f'server:uwsgi_requests:rate{w}{{$self}}', TENTH)} requests/s take "
        + milliseconds(f"server:uwsgi_response_time_seconds:ratio_rate{w}{{$self}}")
        + " each: first check whether that is longer than usual, and what the requests wait for.\n"
        + more_capacity(t),
        dashboard=SERVER_DASHBOARD,
    )


def _headroom_low(t: Thresholds) -> Alert:
    """A ticket for the least headroom. That of the CPUs counts only for servers that use CPU: on a busy host, an idle
    server has none. The usable headroom is not read: by Erlang's formula a server of few threads has none at a moderate
    load, and where its arrivals are not random, nobody waits."""
    headroom = f"server:uwsgi_headroom:ratio_rate{t.window}"
    worst = f"quantile_over_time(0.05, {headroom}{{$self}}[{t.headroom_range}])"
    return Alert(
        alert="UwsgiHeadroomLow",
        expr=f"""
min without (limit) (
  quantile_over_time(0.05, {headroom}[{t.headroom_range}])
  and {headroom} offset {t.headroom_range}
  unless (
    {headroom}{{limit="cpu"}} and ignoring (limit) ({cpu.hardly_uses(t, t.headroom_range)})
  )
) < {t.headroom_low}""",
        hold=t.headroom_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: headroom is down to {value(HUNDREDTH)}x.",
        description=f"In the worst 5 % of the last {t.headroom_range}, load {value(HUNDREDTH)} times as high "
        f"would have {{{{ with {asked(f'bottomk(1, {worst})')} }}}}"
        '{{ $limit := . | first | label "limit" }}'
        '{{ if eq $limit "threads" }}used all threads. '
        + more_capacity(t)
        + '{{ else if eq $limit "cpu" }}used all available CPU: give the server more, '
        'or move load to another host.{{ else if eq $limit "interpreters" }}saturated all interpreters: add '
        "`processes` while CPUs are free.{{ else }}saturated the interpreter of the hottest worker: use more "
        "`processes` and fewer `threads`.{{ end }}{{ else }}reached a limit.{{ end }}\nBy limit: "
        f"{{{{ range $place, $of := {asked(f'sort({worst})')} }}}}{{{{ if $place }}}}, {{{{ end }}}}"
        '{{ $of.Labels.limit }} {{ printf "%.2f" $of.Value }}{{ end }} (1 means reached).',
        dashboard=SERVER_DASHBOARD,
    )


def _forecast(t: Thresholds) -> Alert:
    """Extrapolates the least-squares line through the daily 0.95 quantiles.

    Its slope b has the t-statistic b sqrt((n - 2) V_t / (V_x - b² V_t)), where V_t and V_x are the variances of the
    times and of the values, with divisor n: N. R. Draper, H. Smith, "Applied Regression Analysis", 1998, chapter 1.
    Neighbouring values of a sliding day would be alike, and any trend would seem significant; so each day counts once.
    """
    days = f"server:uwsgi_utilization:p95_1d[{t.forecast_range}:1d]"
    today = "server:uwsgi_utilization:p95_1d{$self}"
    slope, count = f"deriv({days})", f"count_over_time({days})"
    times = f"stdvar_over_time((time() + 0 * server:uwsgi_utilization:p95_1d)[{t.forecast_range}:1d])"
    explained = f"{slope} ^ 2 * {times}"
    now, then = f"predict_linear({days}, 0)", f"predict_linear({days}, {t.forecast_horizon_days} * {DAY})"
    return Alert(
        alert="UwsgiHeadroomForecast",
        expr=f"""
(time() + ({t.near_capacity} - {now}) / ({slope} > 0))
and {now} < {t.near_capacity}
and {then} >= {t.near_capacity}
and server:uwsgi_utilization:p95_1d
and {count} >= {t.forecast_days}
and ({count} - 2) * {explained}
  >= {t.forecast_significance} ^ 2 * clamp_min(stdvar_over_time({days}) - {explained}, 0)""",
        hold=t.forecast_hold,
        severity="info",
        summary=f"uWSGI {SERVER} on {INSTANCE} will be near capacity around "
        '{{ ($value | toTime).Format "2 January 2006" }}.',
        description="In the busiest 5 % of the last day, at least "
        + answer(f"100 * {today}", WHOLE)
        + " % of all threads that can serve were busy. This figure grows by "
        + answer(f"100 * {7 * DAY} * {slope.replace('p95_1d', 'p95_1d{$self}')}", TENTH)
        + f" points a week: the trend of {answer(count.replace('p95_1d', 'p95_1d{$self}'))} days reaches "
        f"{100 * t.near_capacity:g} % around "
        '{{ ($value | toTime).Format "2 January 2006" }}, if load keeps growing as before. From there, '
        "UwsgiConcurrencyNearCapacity pages if requests wait.\n"
        "Plan for more `processes` and CPUs, or another host. If the threads mostly wait for a lock, a full backend or "
        "slow clients, that comes first.",
        dashboard=SERVER_DASHBOARD,
    )


def _interpreter_bound(t: Thresholds) -> Alert:
    w = t.window
    loads = f"worker:uwsgi_interpreter_load:rate{w} and worker:uwsgi_active_requests:rate{w}"
    return Alert(
        alert="UwsgiInterpreterBound",
        expr=f"""
{by_server("avg", loads)} >= {t.interpreter_full}
unless {by_server("count", _uncontended(t))}""",
        hold=t.bound_hold,
        keep=t.load_keep,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: the interpreters of all workers are saturated.",
        description=f"Each interpreter uses {value(HUNDREDTH)} of a CPU and can use at most 1. The workers cannot "
        "serve more than "
        + answer(f"server:uwsgi_requests:rate{w}{{$self}}", TENTH)
        + " requests/s: if load grows, response times (now "
        + milliseconds(f"server:uwsgi_response_time_seconds:ratio_rate{w}{{$self}}")
        + ") grow and throughput does not.\nAdd `processes`: "
        + answer(f"sum(worker:uwsgi_interpreter_load:rate{w}{{$self}})", TENTH)
        + f" of {answer('uwsgi_cpus_usable{$self}')} CPUs are in use. More threads do not help.",
        dashboard=SERVER_DASHBOARD,
    )


def _uncontended(t: Thresholds) -> str:
    """Workers that are seen to compute without their interpreter lock, as compression does: `is_contended` of
    `uwsgi_headroom.analysis.wait_states`."""
    w = t.window
    busy, load = f"worker:uwsgi_concurrency_observed:ratio_rate{w}", f"worker:uwsgi_interpreter_load:rate{w}"
    waiting = f"worker:uwsgi_interpreter_lock_wait_threads:ratio_rate{w}"
    return f"""
  ({waiting} < {CONTENDED} * {busy} or ({waiting} < {LOCK_WAIT:g} and {load} >= {BEYOND_ONE:g}))
  and {busy} >= {load} + {LOCK_WAIT:g}
"""


def _cpu_bound(t: Thresholds) -> Alert:
    """A ticket for workers that use all their CPUs, for workers that lack CPU because others use it, and for workers
    that a quota stops again and again while their mean use is below it."""
    w = t.window
    used = f"worker:uwsgi_interpreter_load:rate{w}"
    others = f"rate(uwsgi_cpu_used_by_others_seconds_total{{$self}}[{w}])"
    idle = f"rate(uwsgi_cpu_available_idle_seconds_total{{$self}}[{w}])"
    stopped = f"100 * {cpu.throttled(w, '{$self}')}"
    return Alert(
        alert="UwsgiCpuBound",
        expr=f"""
{by_server("sum", used)} / uwsgi_cpus_usable >= {t.cpu_full}
or
({cpu.lacks(t)})
and ({cpu.is_felt(t)})
or
{cpu.is_throttled(t)}""",
        hold=t.bound_hold,
        keep=t.load_keep,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: hardly any CPU is left for its workers.",
        description=f"{answer(f'sum({used}{{$self}})', TENTH)} of {answer('uwsgi_cpus_usable{$self}')} CPUs are in use "
        f"by {answer(f'count({used}{{$self}})')} workers{{{{ with {asked(others)} }}}}, and "
        f"{{{{ . | first | value | {TENTH} }}}} by others, with {answer(idle, TENTH)} idle{{{{ end }}}}. "
        f"{{{{ with {asked(f'{stopped} >= 1')} }}}}A quota stopped the workers in {{{{ . | first | value | {WHOLE} }}}}"
        " % of its periods. {{ end }}"
        "If load grows, response times (now "
        + milliseconds(f"server:uwsgi_response_time_seconds:ratio_rate{w}{{$self}}")
        + ") grow. No uWSGI option adds CPUs.\nThe smallest of three limits applies: the affinity (the workers' "
        f"masks allow {answer('max(uwsgi_worker_cpu_affinity_cpus{$self})')} CPUs each), the cgroup's quota, and the "
        "host's CPUs. Widen `cpu-affinity` or the mask that the service manager sets; raise the quota (CPUQuota, "
        "--cpus, resources.limits.cpu); give the host more CPUs; or move load or other programs to another host.",
        dashboard=SERVER_DASHBOARD,
    )


def _workers_share_one_cpu(t: Thresholds) -> Alert:
    return Alert(
        alert="UwsgiWorkersShareOneCpu",
        expr=f"""
uwsgi_workers_sharing_one_cpu > 0
and {by_server("max", f"worker:uwsgi_interpreter_load:rate{t.window}")} >= {t.shared_cpu_load}""",
        hold=t.shared_cpu_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: {value()} workers are pinned to a CPU together with another worker.",
        description=f"Each of these {value()} workers may run on only one CPU, which another worker is pinned to as "
        "well. These workers wait for each other even if other CPUs are idle.\n"
        "Remove `cpu-affinity`, or keep `processes` times `cpu-affinity` at or below the number of CPUs. In a "
        "container, uWSGI counts the host's CPUs, not the container's.",
        dashboard=SERVER_DASHBOARD,
    )
