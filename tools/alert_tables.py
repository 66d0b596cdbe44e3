"""The tables of alerts in docs/alerts.md, and of thresholds in docs/thresholds.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from alerts.files import FILES
from alerts.rule import Alert
from alerts.thresholds import Thresholds
from tools.environments import ROOT
from tools.generated_files import replace_section

ALERTS_FILE = ROOT / "docs" / "alerts.md"
THRESHOLDS_FILE = ROOT / "docs" / "thresholds.md"
RUNBOOKS = ROOT / "alerts" / "runbooks"


def shipped() -> Iterator[Alert]:
    """Every alert, in the order of the rule files."""
    thresholds = Thresholds()
    for groups in FILES.values():
        for group in groups(thresholds):
            yield from (rule for rule in group.rules if isinstance(rule, Alert))


def condition_of(alert: str) -> str:
    """Returns the summary of an alert's runbook, which says what the alert means."""
    return (RUNBOOKS / f"{alert}.md").read_text().split("\n\n")[1]


def alerts() -> str:
    """Returns the table of alerts as Markdown, the most severe first; one line per alert name."""
    order = ("critical", "warning", "info")
    rows: dict[str, list[Alert]] = {}
    for rule in sorted(shipped(), key=lambda rule: order.index(rule.severity)):
        rows.setdefault(rule.alert, []).append(rule)
    lines = ["| alert | severity | when | for |", "|---|---|---|---|"]
    for name, rules in rows.items():
        severities = " or ".join(rule.severity for rule in rules)
        hold = " or ".join(dict.fromkeys(rule.hold for rule in rules))
        lines.append(f"| [{name}](../alerts/runbooks/{name}.md) | {severities} | {condition_of(name)} | {hold} |")
    return "\n".join(lines) + "\n"


def knobs() -> str:
    """Returns the table of thresholds as Markdown, in the order of thresholds.py."""
    lines = ["| threshold | value | what it does, and why to change it |", "|---|---|---|"]
    lines += [f"| `{field.name}` | `{field.default}` | {field.metadata['why']} |" for field in fields(Thresholds)]
    return "\n".join(lines) + "\n"


def alerts_page() -> str:
    """docs/alerts.md with the alerts as they are shipped."""
    return replace_section(ALERTS_FILE.read_text(), "alerts", alerts())


def thresholds_page() -> str:
    """docs/thresholds.md with the thresholds as they are shipped."""
    return replace_section(THRESHOLDS_FILE.read_text(), "knobs", knobs())
