"""Findings about the service level objective."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.objective import SLOW_BURN, Burn, ObjectiveFigures
from uwsgi_headroom.words.formats import chosen, counted, duration, fine_percent, mean_count

_USED_UP = 1.0
"""Burn rate above which the budget of a month lasts less than a month."""

_PART = 0.05
"""Below this share of the misses, a reason is not in the title."""

Reason = Literal["slow", "waited", "lost", "refused"]

WAITED = "too slow only because of the wait in the listen queue"
"""What requests were that missed the objective, and would have kept it without this wait."""


def find(figures: Figures) -> Iterator[Finding]:
    """The finding that the error budget burns."""
    objective = figures.objective
    if objective is None or objective.unjudged:
        return
    rates = [burn.rate for burn in objective.windows if burn.rate is not None]
    if len(rates) < len(objective.windows) or min(rates) <= _USED_UP:
        return
    burns = min(rates) >= SLOW_BURN
    yield Finding(
        code="objective_missed",
        severity="critical" if objective.level == "fast" else "warning" if burns else "info",
        title=_title(objective, objective.windows[-1]),
        evidence=f"{fine_percent(objective.windows[-1].share or 0.0)} of the requests missed the objective; in "
        f"{'; in '.join(dict.fromkeys(map(_evidence, objective.windows)))}.",
        meaning="The error budget is the share of requests that may miss the objective. This budget is used up "
        f"{mean_count(rates[-1])} times as fast as the objective permits: at this rate, a month's error budget lasts "
        f"{duration(30 * 86400 / rates[-1])}.",
        change=_advise(figures, objective.windows[0]),
    )


def _reasons(burn: Burn) -> list[Reason]:
    """Why requests missed the objective, the most frequent reason first."""
    numbers: dict[Reason, float] = {
        "slow": burn.slow,
        "waited": burn.waited,
        "lost": burn.lost,
        "refused": burn.refused,
    }
    least = max(_PART * sum(numbers.values()), 0.0)
    found = [reason for reason, number in numbers.items() if number and number >= least]
    return sorted(found, key=lambda reason: -numbers[reason])


def _title(objective: ObjectiveFigures, burn: Burn) -> str:
    threshold = chosen(objective.slo.threshold)
    what: dict[Reason, str] = {
        "slow": f"were slower than {threshold}",
        "waited": f"were slower than {threshold} including the wait in the listen queue",
        "lost": "were lost",
        "refused": "were refused",
    }
    # In the order of the table, so that the title stays the same while the numbers change.
    reasons = [text for reason, text in what.items() if reason in _reasons(burn)]
    return f"More than the permitted {_permitted(objective)} of requests {' or '.join(reasons)}."


def _permitted(objective: ObjectiveFigures) -> str:
    return fine_percent(1 - objective.slo.objective)


def _evidence(burn: Burn) -> str:
    kinds: list[tuple[float, str]] = [
        (burn.slow, "too slow"),
        (burn.waited, WAITED),
        (burn.lost, "lost"),
        (burn.refused, "refused"),
    ]
    (first, why), *others = [kind for kind in kinds if round(kind[0])] or kinds[:1]
    also = "".join(f", {number:.0f} {what}" for number, what in others)
    return (
        f"the last {duration(burn.seconds)}, {first:.0f} of {burn.requests} requests were {why}{also} (burn rate "
        f"{burn.rate:.1f})"
    )


def _advise(figures: Figures, burn: Burn) -> str:
    """What to do about most of the misses of the last minutes."""
    reasons = _reasons(burn)
    most = reasons[0] if reasons else "slow"
    if most == "waited":
        return (
            "Requests were slow only because they waited in the listen queue: follow the advice of the finding about "
            "the listen queue, or about busy threads. A larger `listen` would make requests wait longer."
        )
    if most == "refused":
        return "Follow the advice of the finding about the full listen queue, because of which requests were refused."
    if most == "lost":
        if figures.window.harakiris:
            return (
                "Follow the advice of the finding about `harakiri`, and find out what the killed requests waited for: "
                f"in the last {duration(figures.window.seconds)}, `harakiri` killed "
                f"{counted(figures.window.harakiris, 'worker')} with all of their requests."
            )
        return (
            "Check uWSGI's log for the reason why workers exited while they served requests, and follow the advice of "
            "the finding about lost requests."
        )
    return (
        "Most requests that missed the objective were slow in service: if there is also a finding about threads, "
        "interpreters, CPU or a backend, follow its advice. Without such a finding, find out what the slow requests "
        "wait for."
    )
