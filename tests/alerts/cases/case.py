"""One case of an alert, as `promtool test rules` reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Firing = Mapping[str, Any]
"""An alert that is expected: `exp_labels` and `exp_annotations`."""


@dataclass(frozen=True)
class Case:
    """One case. name: the alert, the kind of case, and what it shows; expected: the firing alerts, with labels and
    texts, by time; count: for how many servers the alert fires, by time; severity: of those, if it matters;
    nothing_fires: times when no alert fires."""

    name: str
    input_series: Sequence[Mapping[str, str]]
    expected: Mapping[str, Sequence[Firing]] = field(default_factory=dict)
    count: Mapping[str, int] = field(default_factory=dict)
    nothing_fires: Sequence[str] = ()
    interval: str = "1m"
    severity: str = ""

    @property
    def alert(self) -> str:
        """The alert that the case is about."""
        return self.name.partition(":")[0]

    def document(self) -> dict[str, Any]:
        """The case as promtool reads it."""
        tests: dict[str, Any] = {
            "alert_rule_test": [
                {"eval_time": time, "alertname": self.alert, "exp_alerts": list(firing)}
                for time, firing in self.expected.items()
            ],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{self.alert}",severity=~"{self.severity or ".+"}",'
                    'alertstate="firing"})',
                    "eval_time": time,
                    "exp_samples": [{"labels": "{}", "value": servers}],
                }
                for time, servers in self.count.items()
            ]
            + [
                {"expr": 'ALERTS{alertstate="firing"}', "eval_time": time, "exp_samples": []}
                for time in self.nothing_fires
            ],
        }
        given = {"name": self.name, "interval": self.interval, "input_series": list(self.input_series)}
        return {**given, **{key: of for key, of in tests.items() if of}}


def acts(*lines: str) -> str:
    """The first lines of a description."""
    return "".join(f"{place}. {line}\n" for place, line in enumerate(lines, start=1))


def firing(alert: str, severity: str, summary: str, description: str, since: str = "00:05", **labels: str) -> Firing:
    """Returns an expected alert, including its link. Without an address of Grafana, there is none to a dashboard.
    summary: without the time; since: the minute in which the alert's condition became true, empty if it is not said."""
    return {
        "exp_labels": {"severity": severity, **labels},
        "exp_annotations": {
            "summary": f"{summary}{since and f' (began 1 Jan {since} UTC)'}.",
            "description": description,
            "runbook_url": f"http://{labels['instance']}/runbooks/{alert}?server={labels.get('server', '')}",
        },
    }
