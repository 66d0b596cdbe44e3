"""Which series a dashboard is about, in PromQL with Grafana's variables: said once, for every query."""

from __future__ import annotations

from dataclasses import dataclass

IDENTITY = ("job", "instance", "server")
"""Labels that name a server. The same server read by two exporters is two servers."""

SERVICE = "$service_label"
"""Whatever label people call a service by: a variable, because Prometheus may have added any."""

RATE = "[$__rate_interval]"
RANGE = "[$__range]"


@dataclass(frozen=True)
class Scope:
    """`many` servers, each variable possibly All, or exactly one."""

    many: bool

    def of(self, metric: str, *more: str) -> str:
        """The metric's series in this scope; `more` are matchers such as `limit="cpu"`."""
        sign = "=~" if self.many else "="
        identity = [f'{label}{sign}"${label}"' for label in IDENTITY]
        matchers = ", ".join([*identity, f'{SERVICE}=~"$service"', *more])
        return f"{metric}{{{matchers}}}"

    def rate(self, metric: str, *more: str) -> str:
        """Growth a second of a counter."""
        return f"rate({self.of(metric, *more)}{RATE})"

    def growth(self, metric: str, *more: str) -> str:
        """Growth of a counter over the whole time that is shown."""
        return f"increase({self.of(metric, *more)}{RANGE})"


FLEET = Scope(many=True)
ONE = Scope(many=False)

WINDOW = 'window="$window"'
"""Of the exporter's windowed figures, those over the window that is chosen."""

BY_SERVER = f"by ({', '.join(IDENTITY)}, service)"
BY_SERVICE = "by (service)"


def in_words(series: str) -> str:
    """The series with the label `limit` as a person reads it."""
    return f'label_replace({series}, "limit", "$1 $2", "limit", "(.*)_(.*)")'


def with_service(series: str) -> str:
    """The series with the label that is chosen as service under the name `service`, which stays the same whichever it
    is: tables have their columns by names.
    """
    return f'label_replace({series}, "service", "$1", "{SERVICE}", "(.*)")'
