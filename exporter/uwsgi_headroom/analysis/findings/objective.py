"""Findings about the service level objective."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.objective import SLOW_BURN, Burn
from uwsgi_headroom.words.formats import chosen, fine_percent
from uwsgi_headroom.words.template import Facts

_USED_UP = 1.0
"""Burn rate above which the budget of a month lasts less than a month."""

WAITED = "too slow only because of the wait in the listen queue"
"""What requests were that missed the objective, and would have kept it without this wait."""

BURNS = Kind(
    code="objective_missed",
    role="harm",
    severity="critical, warning or info",
    title="More than the permitted {permitted} of requests were slower than {threshold}, lost or refused.",
    evidence="Of {requests} requests in the last {long:duration}, {share:fine_percent} missed the objective (burn "
    "rate {rate:mean}; in the last {short:duration}: {short_rate:mean}).[slow?  {slow} {slow:was|were} too "
    "slow.][waited?  {waited} {waited:was|were} too slow only because of the wait in the listen queue.][lost?  {lost} "
    "{lost:was|were} lost.][refused?  {refused} {refused:was|were} refused.]",
    meaning="The error budget is the share of requests that may miss the objective. At this rate, a month's error "
    "budget lasts {lasts:duration}.",
    act="[for_slow? If another finding is about threads, interpreters, CPU or a backend, follow its advice.]"
    "[for_waited? Follow the advice of the finding about the listen queue, or about busy threads.]"
    "[for_killed? Find out what the requests that `harakiri` killed waited for.]"
    "[for_lost? Check uWSGI's log for the reason why workers exited while they served requests.]"
    "[for_refused? Follow the advice of the finding about the full listen queue.]",
    then="[for_slow? Without such a finding, find out what the slow requests wait for.][for_waited? A larger `listen` "
    "would make requests wait longer.][for_killed? `harakiri` killed {for_killed:worker} with all of their requests.]",
    runbook="UwsgiErrorBudgetBurning",
    waiting=6,
)


def find(figures: Figures) -> Iterator[Finding]:
    """The finding that the error budget burns."""
    objective = figures.objective
    if objective is None or objective.unjudged:
        return
    rates = [burn.rate for burn in objective.windows if burn.rate is not None]
    if len(rates) < len(objective.windows) or min(rates) <= _USED_UP:
        return
    short, long = objective.windows[0], objective.windows[-1]
    yield BURNS.found(
        figures,
        _advise(figures, short) | {name: round(number) or None for name, number in _count(long).items()},
        worse=(min(rates) >= SLOW_BURN) + (objective.level == "fast"),
        permitted=fine_percent(1 - objective.slo.objective),
        threshold=chosen(objective.slo.threshold),
        requests=long.requests,
        long=long.seconds,
        share=long.share,
        rate=rates[-1],
        short=short.seconds,
        short_rate=rates[0],
        lasts=30 * 86400 / rates[-1],
    )


def _count(burn: Burn) -> dict[str, float]:
    """Why requests missed the objective."""
    return {"slow": burn.slow, "waited": burn.waited, "lost": burn.lost, "refused": burn.refused}


def _advise(figures: Figures, burn: Burn) -> Facts:
    """What most of the misses of the last minutes were: one of these facts is known."""
    numbers, killed = _count(burn), figures.window.harakiris
    most = max(numbers, key=lambda reason: numbers[reason])
    facts: Facts = {f"for_{reason}": reason == most for reason in numbers}
    return facts | {"for_lost": most == "lost" and not killed, "for_killed": most == "lost" and (killed or None)}
