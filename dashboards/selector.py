"""Selectors for a dashboard's series, in PromQL with Grafana's variables, shared by all queries."""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.words.states import LIMITS

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
