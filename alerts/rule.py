"""Rules and groups of rules, and their YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, Literal

import yaml

from alerts.thresholds import Thresholds
from alerts.words import with_self

Severity = Literal["critical", "warning", "info"]
"""critical: a page, wakes somebody up; warning: a ticket; info: for information."""

HEADER = "# Made by `python3 -m alerts`, which also says how to change a threshold. Changes made here are lost.\n"


@dataclass(frozen=True)
class Recording:
    """A recorded series: `record` is level:metric:operations."""

    record: str
    expr: str
    labels: tuple[tuple[str, str], ...] = ()

    def document(self) -> dict[str, Any]:
        """The rule as Prometheus reads it."""
        labels = {"labels": dict(self.labels)} if self.labels else {}
        return {"record": self.record, "expr": _block(self.expr), **labels}


@dataclass(frozen=True)
class Alert:
    """An alert. hold: how long `expr` must be true before the alert fires (`for`); summary: one sentence that says what
    is wrong and where; description: the numbers, and the first steps; dashboard: path below Grafana's address, with
    Prometheus' templates; keep: how long the alert stays when `expr` is no longer true (`keep_firing_for`).
    """

    alert: str
    expr: str
    hold: str
    severity: Severity
    summary: str
    description: str
    dashboard: str
    keep: str = ""

    def document(self, thresholds: Thresholds) -> dict[str, Any]:
        """The rule as Prometheus reads it."""
        return {
            "alert": self.alert,
            "expr": _block(self.expr),
            "for": self.hold,
            **({"keep_firing_for": self.keep} if self.keep else {}),
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": with_self(self.summary),
                "description": with_self(self.description),
                "runbook_url": _runbook_address(thresholds.runbooks, self.alert),
                "dashboard_url": thresholds.grafana + self.dashboard,
            },
        }


def _runbook_address(runbooks: str, alert: str) -> str:
    """The address of a runbook: a page of the exporter, filled in for the server, or a file of a copy elsewhere."""
    if "$labels.instance" in runbooks:
        return f"{runbooks}/{alert}?server={{{{ $labels.server | urlquery }}}}"
    return f"{runbooks}/{alert}.md"


@dataclass(frozen=True)
class Group:
    """Rules that Prometheus evaluates in order, at one time. interval: empty for Prometheus' default."""

    name: str
    rules: Sequence[Recording | Alert]
    interval: str = ""


def render(groups: Sequence[Group], thresholds: Thresholds) -> str:
    """The YAML of a rule file."""
    document = {
        "groups": [
            {
                "name": group.name,
                **({"interval": group.interval} if group.interval else {}),
                "rules": [
                    rule.document(thresholds) if isinstance(rule, Alert) else rule.document() for rule in group.rules
                ],
            }
            for group in groups
        ]
    }
    return HEADER + yaml.dump(document, Dumper=BlockDumper, sort_keys=False, width=1000, allow_unicode=True)


class BlockDumper(yaml.SafeDumper):
    """Writes expressions of several lines as YAML blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


BlockDumper.add_representer(str, _text)


def _block(expression: str) -> str:
    """Removes an expression's Python indentation."""
    return dedent(expression).strip()
