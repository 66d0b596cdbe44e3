"""Alerts about load near a limit: threads, interpreters, CPUs.

An unknown limit raises no alert: stats-no-cores hides threads, and CPU time needs a proven process.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts import cpu, waiting
from alerts.levels import by_server
from alerts.more_capacity import HOW_MUCH, LIMIT_CLIENTS, more_capacity
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import (
    CHECK,
    FLEET_DASHBOARD,
    HUNDREDTH,
    INSTANCE,
    SERVER,
    SERVER_DASHBOARD,
    TENTH,
    WHOLE,
    answer,
    asked,
    if_any,
    milliseconds,
    value,
)
from uwsgi_headroom.analysis.wait_states import BEYOND_ONE, CONTENDED, LOCK_WAIT

DAY = 86400


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `capacity.yaml`."""
    alerts = (_near_capacity, _headroom_low, _interpreter_bound, _cpu_bound, _host_full, _workers_share_one_cpu)
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
    busy = answer(f"{used}{{$self}} * uwsgi_threads_ceiling{{$self}}", TENTH)
    return Alert(
        alert="UwsgiConcurrencyNearCapacity",
        expr=f"{used} >= {t.near_capacity}\nand {waiting.noticed(t)}",
        hold=t.near_capacity_hold,
        keep=t.load_keep,
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE} is overloaded: {busy} of {answer('uwsgi_threads_ceiling{$self}')} "
        "threads are busy on average, and requests wait in the listen queue",
        acts=(
            more_capacity(t),
            HOW_MUCH,
            LIMIT_CLIENTS,
        ),
        evidence=f"For {answer(full, WHOLE)} % of the time, all running threads are busy at once. On average, a "
        "request waits "
        + milliseconds(f"server:uwsgi_queue_wait_seconds:ratio_rate{w}{{$self}}")
        + " in the listen queue, and is then in service for "
        + milliseconds(f"server:uwsgi_response_time_seconds:ratio_rate{w}{{$self}}")
        + f". uWSGI completes {answer(f'server:uwsgi_requests:rate{w}{{$self}}', TENTH)} requests/s.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: headroom is down to {value(HUNDREDTH)}x: if the load grows a little, "
        "requests will wait",
        acts=(
            f"{{{{ with {asked(f'bottomk(1, {worst})')} }}}}"
            '{{ $limit := . | first | label "limit" }}'
            f'{{{{ if eq $limit "threads" }}}}{more_capacity(t)}'
            '{{ else if eq $limit "cpu" }}Give uWSGI more CPUs, or move load to another host.'
            '{{ else if eq $limit "interpreters" }}While CPUs are free, add `processes`.'
            f"{{{{ else }}}}Use more `processes` with fewer `threads` each.{{{{ end }}}}{{{{ else }}}}Run {CHECK}.{{{{ "
            "end }}",
            f"At the busiest time of day, run {CHECK}: it says which setting to raise, and how many requests per "
            "second uWSGI can then serve.",
            "If a scheduled job or a single client causes the peak load, move the job to another time, or rate-limit "
            "the client.",
        ),
        evidence=f"In the busiest 5 % of the last {t.headroom_range}, a load at most {value(HUNDREDTH)} times as high "
        "would have reached a limit. Headroom for each limit, where 1 means that the limit is reached: {{ range "
        f"$place, $of := {asked(f'sort({worst})')} }}}}{{{{ if $place }}}}, {{{{ end }}}}"
        '{{ $of.Labels.limit | reReplaceAll "^interpreters$" "all interpreters" | reReplaceAll "_" " " }} '
        '{{ printf "%.2f" $of.Value }}{{ end }}.',
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
        '{{ ($value | toTime).Format "2 January 2006" }}',
        acts=(
            "Open Grafana's dashboard `Capacity review` to see whether the load grows steadily, or whether one event "
            "raised it.",
            "Plan for more `processes` and CPUs, or another host.",
            "If the threads mostly wait for a lock, for slow clients or for a backend at its limit, fix that cause "
            "before you add capacity.",
        ),
        evidence="In the busiest 5 % of the last day, at least "
        + answer(f"100 * {today}", WHOLE)
        + " % of all threads were busy. The share of busy threads grows by "
        + answer(f"100 * {7 * DAY} * {slope.replace('p95_1d', 'p95_1d{$self}')}", TENTH)
        + f" percentage points per week. If this trend of {answer(count.replace('p95_1d', 'p95_1d{$self}'))} days "
        f"continues, the share reaches {100 * t.near_capacity:g} % around "
        '{{ ($value | toTime).Format "2 January 2006" }}. From then on, the alert UwsgiConcurrencyNearCapacity pages '
        "you if requests also wait in the listen queue.",
        dashboard=SERVER_DASHBOARD,
        is_dated=False,
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: the interpreters of all workers are saturated, at {value(HUNDREDTH)} "
        "of a CPU each",
        acts=(
            "Add `processes`: the workers use "
            + answer(f"sum(worker:uwsgi_interpreter_load:rate{w}{{$self}})", TENTH)
            + f" of {answer('uwsgi_cpus_usable{$self}')} CPUs. Do not add threads: an interpreter runs only one thread "
            "at a time.",
            "If no CPU is free, give the host more CPUs, or move load to another host.",
            f"Make the requests use less CPU time: {CHECK} names the kinds of requests that take the most time.",
        ),
        evidence=f"Each interpreter uses {value(HUNDREDTH)} of a CPU and can use at most 1. With these workers, uWSGI "
        "cannot serve more than "
        + answer(f"server:uwsgi_requests:rate{w}{{$self}}", TENTH)
        + " requests/s. If the load grows, only the response time grows (now "
        + milliseconds(f"server:uwsgi_response_time_seconds:ratio_rate{w}{{$self}}")
        + " on average).",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
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


def _own(t: Thresholds) -> str:
    """The part of its CPUs that a server's workers use, where that is nearly all."""
    used = by_server("sum", f"worker:uwsgi_interpreter_load:rate{t.window}")
    return f"{used} / uwsgi_cpus_usable >= {t.cpu_full}"


def _cpu_bound(t: Thresholds) -> Alert:
    """A ticket for workers that use all their CPUs, and for workers that a quota stops again and again while their mean
    use is below it."""
    w = t.window
    used = f"worker:uwsgi_interpreter_load:rate{w}"
    others = f"rate(uwsgi_cpu_used_by_others_seconds_total{{$self}}[{w}])"
    idle = f"rate(uwsgi_cpu_available_idle_seconds_total{{$self}}[{w}])"
    stopped = f"100 * {cpu.throttled(w, '{$self}')}"
    used_now, usable = answer(f"sum({used}{{$self}})", TENTH), answer("uwsgi_cpus_usable{$self}")
    return Alert(
        alert="UwsgiCpuBound",
        expr=f"{_own(t)}\nor\n{cpu.is_throttled(t)}",
        hold=t.bound_hold,
        keep=t.load_keep,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: "
        + if_any(
            f"{stopped} >= 1",
            f"a CPU quota throttles its workers in {{{{ . | first | value | {WHOLE} }}}} % of the quota's periods",
            f"its workers use nearly all CPUs that they may use ({used_now} of {usable} CPUs)",
        ),
        acts=(
            if_any(
                f"{stopped} >= 1",
                "Raise the CPU quota: CPUQuota in systemd, --cpus in Docker, resources.limits.cpu in Kubernetes. ",
            )
            + "If `cpu-affinity`, or the CPU mask that the service manager sets, allows fewer CPUs than the host has, "
            f"widen it: the workers' masks allow {answer('max(uwsgi_worker_cpu_affinity_cpus{$self})')} CPUs each.",
            "Give the host more CPUs, or move load to another host. More `processes` or `threads` do not help: they "
            "would share the same CPUs.",
            f"Make the requests use less CPU time: {CHECK} names the kinds of requests that take the most time.",
        ),
        evidence=f"{answer(f'count({used}{{$self}})')} workers use {used_now} of {usable} CPUs"
        + if_any(others, f", other programs {{{{ . | first | value | {TENTH} }}}}, and {answer(idle, TENTH)} are idle")
        + ". If the load grows, so does the response time (now "
        + milliseconds(f"server:uwsgi_response_time_seconds:ratio_rate{w}{{$self}}")
        + " on average).",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )


def _host_full(t: Thresholds) -> Alert:
    """One ticket for a host without an idle CPU, if servers on it lack CPU: they use some, and either more than the
    other programs do, or their requests wait. A server that uses all its CPUs itself is in UwsgiCpuBound."""
    w = t.window
    used = "rate(uwsgi_cpu_used_by_workers_seconds_total{$self}[" + w + "])"
    others = "max(rate(uwsgi_cpu_used_by_others_seconds_total{$self}[" + w + "]))"
    return Alert(
        alert="UwsgiHostFull",
        expr=f"""
count without (server) (
  ({cpu.lacks(t)})
  and ({cpu.is_felt(t)})
  unless ({_own(t)})
)""",
        hold=t.bound_hold,
        keep=t.load_keep,
        severity="warning",
        summary=f"All CPUs of {INSTANCE} are busy, and {value(WHOLE)} uWSGI server"
        "{{ if gt $value 1.0 }}s{{ end }} on this host get{{ if eq $value 1.0 }}s{{ end }} too little CPU time",
        acts=(
            "Run `top -o %CPU` on the host to see which program uses the CPUs. If your users do not need this program, "
            "stop it or move it to another host.",
            "Move one of the uWSGI servers to another host, or give this host more CPUs.",
            "If one uWSGI server matters more than the other programs on the host, give its systemd unit a higher "
            "CPUWeight.",
        ),
        evidence=f"CPUs in use by each uWSGI server: {{{{ range $place, $of := {asked(f'sort_desc(topk(5, {used}))')} "
        f"}}}}{{{{ if $place }}}}, {{{{ end }}}}{{{{ $of.Labels.server }}}} {{{{ $of.Value | {TENTH} }}}}{{{{ end "
        f"}}}}. Seen from one of the uWSGI servers, all other programs together use {answer(others, TENTH)} of "
        f"{answer('max(uwsgi_cpus_usable{$self})')} CPUs.",
        dashboard=FLEET_DASHBOARD,
    )


def _workers_share_one_cpu(t: Thresholds) -> Alert:
    return Alert(
        alert="UwsgiWorkersShareOneCpu",
        expr=f"""
uwsgi_workers_sharing_one_cpu > 0
and {by_server("max", f"worker:uwsgi_interpreter_load:rate{t.window}")} >= {t.shared_cpu_load}""",
        hold=t.shared_cpu_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: {value()} workers are pinned to one CPU each, which they share with "
        "other workers",
        acts=(
            "Remove `cpu-affinity`, and reload uWSGI.",
            "If you need `cpu-affinity`, make sure that `processes` multiplied by `cpu-affinity` does not exceed the "
            "number of CPUs.",
            "In a container, do not set `cpu-affinity`: uWSGI counts the host's CPUs, not the container's.",
        ),
        evidence=f"Each of these {value()} workers may run on only one CPU, to which another worker is pinned as well. "
        "Workers that share a CPU wait for each other even if other CPUs are idle.",
        dashboard=SERVER_DASHBOARD,
    )
