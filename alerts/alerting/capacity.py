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
        "threads are busy, and requests wait",
        acts=(
            more_capacity(t),
            HOW_MUCH,
            LIMIT_CLIENTS,
        ),
        evidence=f"All running threads are busy {answer(full, WHOLE)} % of the time. A request that finds no free "
        "thread waits in the listen queue, now for "
        + milliseconds(f"server:uwsgi_queue_wait_seconds:ratio_rate{w}{{$self}}")
        + f" on average. uWSGI serves {answer(f'server:uwsgi_requests:rate{w}{{$self}}', TENTH)} requests/s, which "
        "take " + milliseconds(f"server:uwsgi_response_time_seconds:ratio_rate{w}{{$self}}") + " each.",
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: headroom is down to {value(HUNDREDTH)}x: with a little more load, "
        "requests wait",
        acts=(
            f"{{{{ with {asked(f'bottomk(1, {worst})')} }}}}"
            '{{ $limit := . | first | label "limit" }}'
            f'{{{{ if eq $limit "threads" }}}}{more_capacity(t)}'
            '{{ else if eq $limit "cpu" }}Give uWSGI more CPU, or move load to another host.'
            '{{ else if eq $limit "interpreters" }}Add `processes` while CPUs are free.'
            "{{ else }}Use more `processes` and fewer `threads`.{{ end }}{{ else }}"
            f"Run {CHECK}.{{{{ end }}}}",
            f"Run {CHECK} at the busiest time: it says which setting to raise, and how many requests uWSGI then "
            "serves.",
            "If a job or one client causes the peak, move the job to another time, or limit the client.",
        ),
        evidence=f"In the worst 5 % of the last {t.headroom_range}, a load {value(HUNDREDTH)} times as high would have "
        "reached a limit. Headroom by limit: "
        f"{{{{ range $place, $of := {asked(f'sort({worst})')} }}}}{{{{ if $place }}}}, {{{{ end }}}}"
        '{{ $of.Labels.limit }} {{ printf "%.2f" $of.Value }}{{ end }} (1 means that the limit is reached).',
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
            "Open the dashboard Capacity review: does the load grow steadily, or did one event raise it?",
            "Plan for more `processes` and CPUs, or another host.",
            "If the threads mostly wait for a lock, a backend at its limit or slow clients, fix this first.",
        ),
        evidence="In the busiest 5 % of the last day, at least "
        + answer(f"100 * {today}", WHOLE)
        + " % of all threads were busy. The share of busy threads grows by "
        + answer(f"100 * {7 * DAY} * {slope.replace('p95_1d', 'p95_1d{$self}')}", TENTH)
        + f" percentage points per week: the trend of {answer(count.replace('p95_1d', 'p95_1d{$self}'))} days reaches "
        f"{100 * t.near_capacity:g} % around "
        '{{ ($value | toTime).Format "2 January 2006" }}, if load keeps growing as before. From this date on, '
        "the alert UwsgiConcurrencyNearCapacity pages you if requests wait.",
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
            "Add `processes`: "
            + answer(f"sum(worker:uwsgi_interpreter_load:rate{w}{{$self}})", TENTH)
            + f" of {answer('uwsgi_cpus_usable{$self}')} CPUs are in use. More threads do not help.",
            "If no CPU is free, give the host more CPUs, or move load to another host.",
            f"Make the requests compute less: {CHECK} says which kinds of requests take most time.",
        ),
        evidence=f"Each interpreter uses {value(HUNDREDTH)} of a CPU and can use at most 1. The workers cannot serve "
        "more than "
        + answer(f"server:uwsgi_requests:rate{w}{{$self}}", TENTH)
        + " requests/s. If load grows, only the response time grows (now "
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
            f"a CPU quota stops its workers in {{{{ . | first | value | {WHOLE} }}}} % of the quota's periods",
            f"its workers use all the CPU that they can get ({used_now} of {usable} CPUs)",
        ),
        acts=(
            if_any(f"{stopped} >= 1", "Raise the quota (CPUQuota, --cpus, resources.limits.cpu). ")
            + "Widen `cpu-affinity`, or the mask that the service manager sets, if it allows fewer CPUs than the host "
            f"has: the workers' masks allow {answer('max(uwsgi_worker_cpu_affinity_cpus{$self})')} CPUs each.",
            "Give the host more CPUs, or move load to another host. No uWSGI option adds CPUs.",
            f"Make the requests compute less: {CHECK} says which kinds of requests take most time.",
        ),
        evidence=f"{answer(f'count({used}{{$self}})')} workers use {used_now} of {usable} CPUs"
        + if_any(others, f", other programs {{{{ . | first | value | {TENTH} }}}}, and {answer(idle, TENTH)} are idle")
        + ". If load grows, the response time grows (now "
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
        summary=f"The CPUs of {INSTANCE} are full, and {value(WHOLE)} uWSGI server"
        "{{ if gt $value 1.0 }}s{{ end }} on it lack{{ if eq $value 1.0 }}s{{ end }} CPU",
        acts=(
            "Find out on the host which program uses the CPUs: `top -o %CPU`. If users do not need this program, stop "
            "the program or move it.",
            "Move a uWSGI server to another host, or give the host more CPUs.",
            "If one uWSGI matters more than the others, give its systemd unit a higher CPUWeight.",
        ),
        evidence=f"CPUs that each uWSGI server uses: {{{{ range $place, $of := {asked(f'sort_desc(topk(5, {used}))')} "
        f"}}}}{{{{ if $place }}}}, {{{{ end }}}}{{{{ $of.Labels.server }}}} {{{{ $of.Value | {TENTH} }}}}{{{{ end "
        f"}}}}. One of these servers shares the CPUs with programs that use {answer(others, TENTH)} of "
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: {value()} workers are pinned to a CPU together with another worker",
        acts=(
            "Remove `cpu-affinity`, and reload uWSGI.",
            "If you need `cpu-affinity`, `processes` x `cpu-affinity` must not be more than the number of CPUs.",
            "In a container, do not set `cpu-affinity`: uWSGI counts the host's CPUs, not the container's.",
        ),
        evidence=f"Each of these {value()} workers may run on only one CPU, and another worker is pinned to the same "
        "CPU. These workers wait for each other even if other CPUs are idle.",
        dashboard=SERVER_DASHBOARD,
    )
