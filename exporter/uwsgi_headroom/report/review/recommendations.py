"""Section 9: what to do. The findings of `check` in the quarter hour that counts, and what only a long range shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from uwsgi_headroom.analysis.advice import add_capacity
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import evenness, limits, load, memory, neighbours, queue, waits
from uwsgi_headroom.analysis.findings.finding import SEVERITIES, Finding
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.report.review.long_range import find_killed, find_lost, find_missed, find_refused
from uwsgi_headroom.report.review.model import BalanceReview, Judgement, ObjectiveUse, Users, Utilization
from uwsgi_headroom.report.review.outlook_model import Recommendation, Trend, WhatIfReview
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.remedies import URGENCY, recommendation
from uwsgi_headroom.words.formats import duration, factor, mean_count, percent

LOW = 1.5
"""Headroom below which there is something to plan, as for neighbours in `check`."""

ALIKE = 1.1
"""Servers whose headroom is at most this multiple of the smallest need the same."""

AT_PEAK: tuple[Callable[[Figures], Iterable[Finding]], ...] = (
    queue.find,
    evenness.find,
    load.find,
    waits.find,
    limits.find,
    neighbours.find,
    memory.find,
)
"""The modules whose findings are about a level of load. The others are about a moment, or about uWSGI's setup."""

_ORDER: tuple[Judgement, ...] = ("act", "plan", "ok", "unknown")
_ALREADY_SAID = {"unevenness_hurts": {"interpreter_bound"}}
"""Findings that say less than another about the same."""

_FIRST_LIMIT = ("unevenness_hurts", "interpreter_bound", "saturation", "cpu_bound", "cpu_used_by_others")
"""Findings whose advice moves out the first limit. Once that is reached, they are urgent."""


@dataclass(frozen=True)
class Evidence:
    """What recommendations are drawn from. trend, what_if: None without."""

    peaks: Peaks
    utilization: Utilization
    users: Users
    balance: BalanceReview
    trend: Trend | None
    what_if: WhatIfReview | None


def recommend(evidence: Evidence) -> tuple[Recommendation, ...]:
    """What to do about a service, most urgent first."""
    peaks, used, users = evidence.peaks, evidence.utilization, evidence.users
    found = [*find_refused(peaks, users), *_at_peak(evidence), *find_killed(peaks), *find_lost(users)]
    found += _ahead(peaks, used, evidence.trend, {each.code for each in found})
    if used.headroom is not None and used.headroom <= 1 / REACHED:
        moving = (*_FIRST_LIMIT, "headroom_low")
        found = [replace(each, judgement="act") if each.code in moving else each for each in found]
    if isinstance(users.objective, ObjectiveUse):
        found += find_missed(users.objective, found)
    found += _one_lost(used)
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.judgement)))


def is_short(utilization: Utilization, trend: Trend | None) -> bool:
    """Whether capacity is to be added: headroom is low, or the trend reaches a limit."""
    return (utilization.headroom is not None and utilization.headroom < LOW) or bool(trend and trend.first)


def _at_peak(evidence: Evidence) -> Iterator[Recommendation]:
    """The findings that have advice, each once, with the evidence of the server where it is worst."""
    by_code: dict[str, list[tuple[Finding, str]]] = {}
    for server, figures in evidence.peaks.present:
        for module in AT_PEAK:
            for finding in module(figures):
                if finding.change:
                    by_code.setdefault(finding.code, []).append((finding, server.server))
    covered = {less for code in by_code for less in _ALREADY_SAID.get(code, ())}
    for code, found in by_code.items():
        if code in covered:
            continue
        finding, name = min(found, key=lambda pair: SEVERITIES.index(pair[0].severity))
        yield recommendation(
            code,
            URGENCY[finding.severity],
            finding.title,
            finding.change,
            tuple(each for _, each in found),
            f"In the quarter hour that counts, on {name}: {finding.evidence} {finding.meaning}".strip(),
            _even_effect(evidence, finding.change) if code == "unevenness_hurts" else "",
        )


def _even_effect(evidence: Evidence, change: str) -> str:
    """What even workers would bring, in numbers."""
    ceiling = [use for use in evidence.utilization.limits if use.limit != "hottest_interpreter" and use.factor]
    nearest = min(ceiling, key=lambda use: use.factor or 0.0, default=None)
    parts = []
    if evidence.balance.cost_seconds is not None:
        parts.append(f"{duration(evidence.balance.cost_seconds)} less response time at peak")
    if nearest is not None and nearest.factor is not None:
        parts.append(f"headroom up to {factor(nearest.factor)}, where {gives_out(nearest.limit)} next")
    texts = [f"With even workers: {' and '.join(parts)}."] if parts else []
    lost = max((use.one_lost for use in ceiling if use.one_lost is not None), default=None)
    if lost is not None and lost < REACHED:
        texts.append(f"One server can then be lost: the others are at {percent(lost)} of a limit.")
    return " ".join([*texts, *_predicted(evidence.what_if, change)])


def _predicted(what_if: WhatIfReview | None, change: str) -> Iterator[str]:
    """What the model says about the setting that an advice names."""
    rows = what_if.rows if what_if else ()
    row = next((row for row in rows if not row.is_today and f" {row.setting} " in change), None)
    today = next((row for row in rows if row.is_today), None)
    if row and today and row.response_times[0] is not None and today.response_times[0] is not None:
        yield (
            f"The model of section 8 predicts {duration(row.response_times[0])} at peak with {row.setting}, and "
            f"{duration(today.response_times[0])} with {today.setting}."
        )


def _ahead(peaks: Peaks, utilization: Utilization, trend: Trend | None, said: set[str]) -> list[Recommendation]:
    """Capacity to add before the first limit is reached, where no finding says so."""
    tightest = next(((name, figures) for name, figures in peaks.present if name.server == utilization.server), None)
    if tightest is None or utilization.headroom is None or utilization.first is None:
        return []
    if not is_short(utilization, trend) or said & {"unevenness_hurts", "saturation", "interpreter_bound", "cpu_bound"}:
        return []
    server, figures = tightest
    limit = (trend.first if trend and trend.first else None) or utilization.first
    advice = even_out_or_add(figures, limit == "hottest_interpreter")
    soon = "" if trend is None or trend.first is None else ", and the trend reaches that limit (section 7)"
    return [
        recommendation(
            "headroom_low",
            "plan",
            f"Headroom {factor(utilization.headroom)} at peak: {gives_out(utilization.first)} first{soon}.",
            advice,
            _as_tight(utilization),
            f"In the quarter hour that counts, {server.server} had {mean_count(figures.flow.observed or 0)} of "
            f"{figures.ceiling or 0} threads in service.",
        )
    ]


def _as_tight(utilization: Utilization) -> tuple[str, ...]:
    """The servers with nearly the smallest headroom."""
    least = utilization.headroom or 0.0
    return tuple(each.server for each in utilization.servers if each.factor and each.factor <= ALIKE * least)


def even_out_or_add(figures: Figures, hottest: bool) -> str:
    """Advice: to spread the load of the hottest worker where that is the limit and the workers are uneven."""
    balance = figures.balance
    uneven = (balance.hot_ratio or 0.0) >= max(evenness.UNEVEN, balance.noise_floor or 0.0)
    return evenness.even_out(figures) if hottest and uneven else add_capacity(figures)


def _one_lost(utilization: Utilization) -> Iterator[Recommendation]:
    """The number of servers with which one can be lost, where the present number does not suffice. The hottest
    interpreter does not count: even workers are the cheaper remedy."""
    serving = [use for use in utilization.limits if use.limit != "hottest_interpreter" and use.one_lost is not None]
    worst = max(serving, key=lambda use: use.one_lost or 0.0, default=None)
    if worst is None or worst.one_lost is None or worst.one_lost < REACHED:
        return
    servers = len(utilization.servers)
    needed = ceil(worst.one_lost * (servers - 1) / REACHED) + 1
    yield recommendation(
        "server_lost",
        "plan",
        f"The service cannot lose a server at peak: the others would be at {percent(worst.one_lost)} of a limit.",
        f"Run {needed} servers of the present size instead of {servers}.",
        (),
        f"If {utilization.lost_server or 'a server'} is lost at peak, its requests go to the others, and "
        f"{gives_out(worst.limit)} at once.",
        f"With {needed} servers, the loss of one leaves the others below {percent(REACHED)}.",
    )
