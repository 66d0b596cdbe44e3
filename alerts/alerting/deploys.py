"""The alerts about servers that became slower: since a reload, and than at the same hour of other days.

The exporter judges what a reload changed (docs/deploys.md), and the rule passes it on. What is usual is in Prometheus.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.daily import INTERVAL
from alerts.rule import Alert, Group, Recording
from alerts.thresholds import Thresholds
from alerts.words import CLOCK, INSTANCE, SERVER, SERVER_DASHBOARD, SHELL_NAME, answer, asked, milliseconds, percent
from uwsgi_headroom.analysis.deploys.usual import DAYS, FEWEST


def groups(t: Thresholds) -> Sequence[Group]:
    """The groups of `deploys.yaml`."""
    return [
        Group("uwsgi-headroom deploys", [_slower(t)]),
        Group("uwsgi-headroom usual", [*_usual(t), _slower_than_usual(t)], interval=INTERVAL),
    ]


_ERRORS = 6.5
"""Standard errors of a day's difference from the mean of the others that are not usual: Student's t with 13 degrees
of freedom exceeds it once in 100,000. In simulations of a year, with days and hours that vary by a tenth each, a server
has 0.4 tickets, and 1.8 if days vary as Student's t with four degrees of freedom."""

_TIME = "server:uwsgi_response_time_seconds"
_MEAN, _SPREAD = f"{_TIME}:mean14d", f"{_TIME}:stddev14d"

_WORDS = {
    "time": "requests take longer",
    "cpu": "requests use more CPU time",
    "errors": "more requests fail",
    "memory": "the memory of the workers grows",
}


def _slower(t: Thresholds) -> Alert:
    worse = "uwsgi_deploy_worse{$self} == 1"
    named = "".join(
        f'{{{{ if eq ($each | label "quantity") "{quantity}" }}}}{words}{{{{ end }}}}'
        for quantity, words in _WORDS.items()
    )
    reloaded = answer("max(uwsgi_last_reload_time_seconds{$self})", CLOCK)
    return Alert(
        alert="UwsgiSlowerSinceReload",
        expr="max without (quantity) (uwsgi_deploy_worse) == 1",
        hold=t.deploy_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} has been worse since its reload at {reloaded}",
        acts=(
            "If this reload was a deploy, roll the deploy back.",
            f"Run `uwsgi-headroom compare {SHELL_NAME}` on the host: it says how much changed, and what requests wait "
            "for.",
            "If the new version must stay, start with what `compare` names as the cause: CPU, a backend, a lock or "
            "memory.",
        ),
        evidence=f"Since the reload, {{{{ range $place, $each := {asked(worse)} }}}}{{{{ if $place }}}}, and {{{{ end "
        f"}}}}{named}{{{{ end }}}}. This may be chance: the alert fires after at most one in 200 deploys that change "
        "nothing.",
        is_dated=False,
        dashboard=SERVER_DASHBOARD,
    )


def _usual(t: Thresholds) -> Sequence[Recording]:
    """The mean of the last hour, and the mean and the standard deviation of the same hour of the days before, which are
    there if all these days are."""
    hour = f"{_TIME}:avg1h"
    days = [f"{hour} offset {day}d" for day in range(1, DAYS + 1)]
    squares = " + ".join(f"({day}) ^ 2" for day in days)
    return [
        Recording(hour, f"avg_over_time({_TIME}:ratio_rate{t.window}[1h])"),
        Recording(_MEAN, f"({' + '.join(days)}) / {DAYS}"),
        Recording(_SPREAD, f"sqrt(clamp_min(({squares} - {DAYS} * {_MEAN} ^ 2) / {DAYS - 1}, 0))"),
    ]


def _slower_than_usual(t: Thresholds) -> Alert:
    hour = f"{_TIME}:avg1h"
    return Alert(
        alert="UwsgiSlowerThanUsual",
        expr=f"""
({hour} / {_MEAN} - 1 >= {t.usual_slower})
and {hour} - {_MEAN} > {_ERRORS * (1 + 1 / DAYS) ** 0.5:.2f} * {_SPREAD}
and avg_over_time(server:uwsgi_timed_requests:rate{t.window}[1h]) >= {FEWEST} / 3600""",
        hold=t.usual_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: requests take {percent()} longer than usual at this hour",
        acts=(
            "If the problem began with a deploy, roll the deploy back.",
            f"Run `uwsgi-headroom compare {SHELL_NAME} --around TIME --before 1h`: it says what changed at TIME. For "
            "TIME, use the time at which response times begin to rise on Grafana's dashboard.",
            "If the load is higher than on other days, run `uwsgi-headroom check` on the host to see how much headroom "
            "is left.",
        ),
        evidence=f"In the last hour, the mean response time was {milliseconds(f'{hour}{{$self}}')}. In the same hour "
        f"of the {DAYS} days before, the mean response time was {milliseconds(f'{_MEAN}{{$self}}')}, with a "
        f"standard deviation of {milliseconds(f'{_SPREAD}{{$self}}')} between the days.",
        is_dated=False,
        dashboard=SERVER_DASHBOARD,
    )
