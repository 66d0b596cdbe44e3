"""A signal: the content of a panel, separate from its drawing; the selectors of its queries, and thresholds.

Thresholds are where figures change their colour. Those of alerts are in `alerts/rules`; `check` has the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.words.states import LIMITS

PER_SECOND, PER_MINUTE = "suffix:/s", "suffix:/min"
TIMES = "suffix:x"
"""Custom units. Grafana's own for the first two are c/s and c/m."""


@dataclass(frozen=True)
class Series:
    """One query. legend: Grafana's template for the name of a series, or of a column in a table; now: only the value at
    the end of the time range.
    """

    expr: str
    legend: str = ""
    now: bool = False


@dataclass(frozen=True)
class Signal:
    """The content of a panel. unit: Grafana's name of it, or `suffix:x` for a custom unit; description: what the figure
    means, what to do about it, and why it may be empty.
    """

    name: str
    unit: str
    description: str
    series: tuple[Series, ...]


def signal(name: str, unit: str, description: str, *series: Series) -> Signal:
    """Makes a signal; joins the lines of its description into one paragraph."""
    return Signal(name, unit, " ".join(description.split()), series)


IDENTITY = ("job", "instance", "server")
"""Labels that identify a server. A server that two exporters read counts as two servers."""

SERVICE = "$service_label"
"""The label that names a service: a variable, because Prometheus may add any label."""

RATE = "[$__rate_interval]"
RANGE = "[$__range]"


@dataclass(frozen=True)
class Scope:
    """The servers of a dashboard: many, where each variable may be All, or exactly one."""

    many: bool

    def of(self, metric: str, *more: str) -> str:
        """The metric's series in this scope; `more` are matchers such as `limit="cpu"`."""
        sign = "=~" if self.many else "="
        identity = [f'{label}{sign}"${label}"' for label in IDENTITY]
        matchers = ", ".join([*identity, f'{SERVICE}=~"$service"', *more])
        return f"{metric}{{{matchers}}}"

    def rate(self, metric: str, *more: str) -> str:
        """The growth of a counter per second."""
        return f"rate({self.of(metric, *more)}{RATE})"

    def over(self, metric: str, window: str, *more: str) -> str:
        """The growth of a counter per second over a range such as `1h`."""
        return f"rate({self.of(metric, *more)}[{window}])"

    def growth(self, metric: str, *more: str) -> str:
        """The growth of a counter over the whole time range."""
        return f"increase({self.of(metric, *more)}{RANGE})"


FLEET = Scope(many=True)
ONE = Scope(many=False)

WINDOW = 'window="$window"'
"""Matches the exporter's figures over the chosen window."""

BY_SERVER = f"by ({', '.join(IDENTITY)}, service)"
BY_SERVICE = "by (service)"

COARSE = """The exporter's own percentiles, on the dashboard of a server, are finer: PromQL interpolates between two
bounds of the histogram, which may be as far apart as 1 s and 2.5 s, and knows nothing above 60 s."""
"""Says what percentiles are that PromQL makes of a histogram."""


def in_words(series: str) -> str:
    """The series with the label `limit` in words: `hottest interpreter`."""
    for code, limit in LIMITS.items():
        if limit.name != code:
            series = f'label_replace({series}, "limit", "{limit.name}", "limit", "{code}")'
    return series


def with_service(series: str) -> str:
    """The series with the chosen service label copied to `service`: tables need a fixed label name for a column."""
    return f'label_replace({series}, "service", "$1", "{SERVICE}", "(.*)")'


HEADROOM_LOW = 1.25
"""UwsgiHeadroomLow."""
NEAR_CAPACITY = 0.9
"""The part of a limit in use from which a full server is one whose requests wait."""
UNEVEN = 1.5
"""UwsgiWorkersUneven."""
INTERPRETER_BUSY, INTERPRETER_FULL = 0.5, 0.85
"""Interpreter loads from which threads begin to wait for its lock, and mostly wait for it."""
BURNS_HOURS, BURNS_AN_HOUR = 6.0, 14.4
"""The pages of UwsgiErrorBudgetBurning, over six hours and over one."""
QUEUE_FULL = 0.05
QUEUE_WAIT, QUEUE_WAIT_SEVERE = 0.1, 0.5
"""Seconds that users notice, and that they notice badly."""
CPU_FULL = 0.9
FORECAST_DAYS = 14
"""UwsgiHeadroomForecast."""
