"""The rule files and the groups in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alerts import burn_rates, compat, daily, recording
from alerts.alerting import availability, balance, capacity, deploys, objective, queue, silent_causes, workers
from alerts.rule import Group
from alerts.rule import render as to_yaml
from alerts.thresholds import Thresholds

FILES: dict[str, Callable[[Thresholds], Sequence[Group]]] = {
    "recording.yaml": recording.groups,
    "daily.yaml": daily.groups,
    "burn_rates.yaml": burn_rates.groups,
    "availability.yaml": availability.groups,
    "balance.yaml": balance.groups,
    "capacity.yaml": capacity.groups,
    "deploys.yaml": deploys.groups,
    "objective.yaml": objective.groups,
    "queue.yaml": queue.groups,
    "silent_causes.yaml": silent_causes.groups,
    "workers.yaml": workers.groups,
    "compat-uwsgi-exporter.yaml": compat.groups,
}


def render(thresholds: Thresholds) -> dict[str, str]:
    """The text of every rule file, by its name."""
    return {name: to_yaml(groups(thresholds), thresholds) for name, groups in FILES.items()}
