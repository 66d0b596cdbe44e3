"""Every threshold and window of the rules, each with the reason that somebody would change it."""

from __future__ import annotations

import re
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
    uneven_utilization: float = knob(
        0.25,
        "Part of the available threads that is busy from which unevenness counts; with less, uneven shares are how an "
        "idle uWSGI works. Raise it if the ticket comes for servers that are fast enough.",
    )
    uneven_interpreter: float = knob(
        0.5,
        "CPU a second of an interpreter from which unevenness counts although few threads are busy: from half a core "
        "on, requests in one worker meet at its lock.",
    )
    uneven_concurrency: float = knob(
        1.2,
        "Requests in service at once, on average, from which unevenness counts at all: one client that sends one "
        "request after the other makes 1.0 at most, and waits for nobody, however uneven and however fast.",
    )
    uneven_hold: str = knob("15m", "How long workers are uneven before it is a ticket: longer ignores batch jobs.")
    hot_worker_ratio: float = knob(
        1.25,
        "Times its fair share from which a saturated worker is one that takes too much. 68/32 % over two workers is "
        "1.36 and was measured to hurt.",
    )
    hot_worker_slower: float = knob(
        1.5,
        "Times the response time of the calm workers from which a saturated worker is a page. Lower it where every "
        "request has to be fast.",
    )
    hot_worker_idle: float = knob(
        1.0,
        "Threads of workers with room that idle, on average, for a saturated worker to be a page: with none, the "
        "server is full rather than uneven, which is another page.",
    )
    hot_worker_hold: str = knob("5m", "How long a worker is saturated before it is a page. Raise it for batch work.")
    uneven_keep: str = knob(
        "10m",
        "How long alerts about uneven workers stay once they fired, though the condition is gone: load at the "
        "threshold, and a reload, must not resolve a page and send it again.",
    )
    interpreter_full: float = knob(
        0.9,
        "CPU a second of one interpreter from which its threads mostly wait for its lock. Raise it where extensions "
        "release the lock, which lets a worker use more than one CPU.",
    )
    near_capacity: float = knob(
        0.9,
        "Part of the available threads that is busy, on average, from which it is a page: random arrivals find all of "
        "them busy much of the time. Raise it for batch servers whose clients do not mind waiting.",
    )
    near_capacity_hold: str = knob(
        "10m", "How long it is near capacity before it is a page: twice the time in which a mean forgets a burst."
    )
    headroom_low: float = knob(
        1.25,
        "Factor by which load could still grow, in the worst twentieth of an hour, below which it is a ticket. Raise "
        "it where load jumps, or new capacity takes long to have.",
    )
    headroom_range: str = knob("1h", "What the worst twentieth is of. A server younger than that is not judged.")
    headroom_hold: str = knob("10m", "How long headroom is low before it is a ticket.")
    forecast_range: str = knob(
        "28d",
        "How far a forecast looks back. Whole weeks, because of weekends; not beyond what your Prometheus keeps.",
    )
    forecast_days: int = knob(
        14, "Daily figures that a forecast needs at least: two weekends, so that none is a trend."
    )
    forecast_significance: float = knob(
        4.0,
        "t-statistic of the trend, its slope over the slope's standard error, that a forecast needs. At 4, chance "
        "makes a trend of steady load once in a thousand; 2 would be once in twenty.",
    )
    forecast_horizon_days: int = knob(28, "How far a forecast looks ahead: no further than it looks back.")
    forecast_hold: str = knob("1h", "How long a forecast stands before it is told: daily figures move once a day.")
    cpu_full: float = knob(
        0.9, "Part of the CPUs that the workers may use which is used, from which it is a ticket. As in `check`."
    )
    bound_hold: str = knob("15m", "How long interpreters or CPUs are full before it is a ticket.")
    shared_cpu_hold: str = knob("15m", "How long workers are pinned to one CPU before it is a ticket.")

    @property
    def window_seconds(self) -> float:
        """The window's length: `1m30s` is 90."""
        units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
        return sum(int(count) * units[unit] for count, unit in re.findall(r"(\d+)(ms|[smhd])", self.window))


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
