"""What a rule file is made of, and its YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, Literal

import yaml

from alerts.thresholds import Thresholds
from alerts.words import with_self

Severity = Literal["critical", "warning", "info"]
"""critical: a page, somebody gets up; warning: a ticket; info: good to know."""

HEADER = "# Made by `python3 -m alerts`, which also says how to change a threshold. Changes made here are lost.\n"


@dataclass(frozen=True)
class Recording:
    """A recorded series: `record` is level:metric:operations."""

    record: str
    expr: str
    labels: tuple[tuple[str, str], ...] = ()

    def document(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        labels = {"labels": dict(self.labels)} if self.labels else {}
        return {"record": self.record, "expr": _block(self.expr), **labels}


@dataclass(frozen=True)
class Alert:
    """An alert. hold: how long it must be true before it fires (`for`); summary: one sentence with what is wrong where;
    description: the numbers, and what to do first; dashboard: path below Grafana's address, with Prometheus' templates;
    keep: how long it stays when it is no longer true (`keep_firing_for`).
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
        """As Prometheus reads it."""
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
    """The exporter serves pages, filled in for a server; a copy elsewhere has the files."""
    if "$labels.instance" in runbooks:
        return f"{runbooks}/{alert}?server={{{{ $labels.server | urlquery }}}}"
    return f"{runbooks}/{alert}.md"


@dataclass(frozen=True)
class Group:
    """Rules that are evaluated one after the other, at one instant. interval: Prometheus' own if empty."""

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
    """Lines of an expression stay lines."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


BlockDumper.add_representer(str, _text)


def _block(expression: str) -> str:
    """An expression without the indentation that it has in Python."""
    return dedent(expression).strip()
