"""Every threshold and window of the rules, each with the reason that somebody would change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any


def knob(default: Any, why: str) -> Any:
    """A field of `Thresholds`: its value as shipped, and what it does and when to change it."""
    return field(default=default, metadata={"why": why})


@dataclass(frozen=True)
class Thresholds:
    """Durations are Prometheus' (`5m`); ratios are 1 for the whole."""

    window: str = knob(
        "5m",
        "What rates are over, and a part of every recorded name. At least four scrape intervals; longer steadies the "
        "figures of servers with few requests, and makes every alert later.",
    )
    instance_labels: str = knob(
        "instance, pod, node",
        "Labels that tell the machines of one service apart, comma separated: what is left names a service. Add what "
        "your relabelling puts on targets.",
    )
    exporter_job: str = knob(
        "uwsgi.*", "Regular expression of the scrape jobs that the exporters are in, for the alert on one being down."
    )
    grafana: str = knob("http://localhost:3000", "Address of your Grafana, for the links in alerts.")
    runbooks: str = knob(
        "http://{{ $labels.instance }}/runbooks",
        "Where runbook links lead: as shipped to the exporter itself, which serves them. Name your own copy where "
        "people cannot reach exporters.",
    )
    uneven_ratio: float = knob(
        1.5,
        "Hot ratio (1 is even) from which uneven workers are a ticket. Lower it for services that must be fast "
        "throughout; there is no reason to raise it, because it counts under load alone.",
    )


def changed(thresholds: Thresholds, assignments: Sequence[str]) -> Thresholds:
    """With `NAME=VALUE` applied. Raises ValueError with a sentence about what is wrong."""
    known = {it.name: type(getattr(thresholds, it.name)) for it in fields(thresholds)}
    values = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or name not in known:
            raise ValueError(f"{assignment!r}: expected NAME=VALUE with one of {', '.join(known)}")
        try:
            values[name] = known[name](value)
        except ValueError as error:
            raise ValueError(f"{assignment!r}: {value!r} is not a number") from error
    return replace(thresholds, **values)
