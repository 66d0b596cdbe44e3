"""Findings about the service level objective."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.objective import Burn, ObjectiveFigures
from uwsgi_headroom.words.formats import chosen, duration, fine_percent, mean_count

_USED_UP = 1.0
"""Burn rate above which the budget of a month lasts less than a month."""


def find(figures: Figures) -> Iterator[Finding]:
    """The finding that the error budget burns."""
    objective = figures.objective
    if objective is None or objective.unjudged:
        return
    rates = [burn.rate for burn in objective.windows if burn.rate is not None]
    if len(rates) < len(objective.windows) or min(rates) <= _USED_UP:
        return
    yield Finding(
        code="objective_missed",
        severity="critical" if objective.level == "fast" else "warning" if objective.level == "slow" else "info",
        title=_title(objective, objective.windows[-1]),
        evidence=f"In {'; in '.join(dict.fromkeys(map(_evidence, objective.windows)))}.",
        meaning=f"The error budget burns {mean_count(rates[-1])} times as fast as it may: a month's lasts "
        f"{duration(30 * 86400 / rates[-1])}.",
        change="Follow the first finding about threads, interpreters, CPU or a backend; without one, look at what the "
        "slow requests wait for.",
    )


def _title(objective: ObjectiveFigures, burn: Burn) -> str:
    slo, missed = objective.slo, fine_percent(burn.share or 0.0)
    return (
        f"{missed} of the requests were slower than {chosen(slo.threshold)} or lost, where the objective permits "
        f"{fine_percent(1 - slo.objective)}."
    )


def _evidence(burn: Burn) -> str:
    lost = f", {burn.lost} lost" if burn.lost else ""
    return (
        f"the last {duration(burn.seconds)}, {burn.slow:.0f} of {burn.requests} requests too slow{lost} "
        f"(burn rate {burn.rate:.1f})"
    )
