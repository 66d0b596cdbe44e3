"""How fast servers and services use their error budgets, over the windows of The Site Reliability Workbook (chapter 5).

A request is bad if it was slower than the threshold of the objective in service, or with the mean wait in the listen
queue before, or if it was lost with its worker or refused at a full TCP queue. The burn rate is the share of bad
requests divided by the share that the objective permits: at 1, the budget of a month lasts a month.
Servers without an objective have none of these series.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.levels import by_service
from alerts.rule import Group, Recording
from alerts.thresholds import Thresholds

HOURS = ("5m", "30m", "1h", "2h", "6h")
DAYS = ("1d", "3d")

INTERVAL = "4m"
"""Of the rules over days, which read up to three days of samples. Prometheus returns a sample for five minutes."""


def groups(t: Thresholds) -> Sequence[Group]:
    """The groups of `burn_rates.yaml`."""
    return [
        Group("uwsgi-headroom burn rates", [rule for window in HOURS for rule in _over(window, t)]),
        Group("uwsgi-headroom burn rates of days", [rule for window in DAYS for rule in _over(window, t)], INTERVAL),
    ]


def burn_rate(level: str, window: str) -> str:
    """The name of the recorded burn rate over a window."""
    return f"{level}:uwsgi_slo_burn_rate:ratio_rate{window}"


def bad_share(level: str, window: str) -> str:
    """The name of the recorded share of bad requests over a window."""
    return f"{level}:uwsgi_slo_bad_requests:ratio_rate{window}"


def requests(level: str, window: str) -> str:
    """The name of the recorded number of requests per second that count for the objective."""
    return f"{level}:uwsgi_slo_requests:rate{window}"


def _over(window: str, t: Thresholds) -> Sequence[Recording]:
    """The rules over one window. Servers of one service may have different objectives, so the bad requests of all are
    divided by the bad requests that are permitted to all; that includes servers that have gone within the window."""
    served, share = requests("server", window), bad_share("server", window)
    bad = by_service("sum", f"{share} * {served}", t)
    permitted = f"{served} * (1 - last_over_time(uwsgi_slo_objective_ratio[{window}]))"
    return [
        Recording(served, f"rate(uwsgi_slo_requests_total[{window}])"),
        Recording(share, f"sum without (reason) (rate(uwsgi_slo_bad_requests_total[{window}])) / ({served} > 0)"),
        Recording(burn_rate("server", window), f"{share} / (1 - uwsgi_slo_objective_ratio)"),
        Recording(requests("service", window), by_service("sum", served, t)),
        Recording(bad_share("service", window), f"{bad} / {by_service('sum', served, t)}"),
        Recording(burn_rate("service", window), f"{bad} / {by_service('sum', permitted, t)}"),
    ]
