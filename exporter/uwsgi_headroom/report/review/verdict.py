"""Section 1: the verdict on a service: whether there is a problem, when, what to do, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.report.review.balance import WORTH_MENTION
from uwsgi_headroom.report.review.confidence import find_confidence, fullest_of, horizon_of
from uwsgi_headroom.report.review.dates import day_words, quarter_words
from uwsgi_headroom.report.review.model import Absent, BalanceReview, Judgement, Utilization, Verdict
from uwsgi_headroom.report.review.outlook_model import (
    LimitForecast,
    Recommendation,
    ServerQuality,
    Trend,
)
from uwsgi_headroom.report.review.recommendations import LOW
from uwsgi_headroom.words.formats import counted, duration, factor, mean_count, percent
from uwsgi_headroom.words.states import JUDGEMENTS

REACHED_FACTOR = 1 / REACHED
"""Headroom from which on a limit counts as reached, as in `analysis.capacity`."""

_HARM = ("clients_refused", "requests_lost", "harakiri", "objective_missed", "queue_wait")
"""Findings that say what users feel; others say why, which the verdict words for itself."""


@dataclass(frozen=True)
class Facts:
    """What a verdict is drawn from. quality: of the service's servers."""

    service: str
    utilization: Utilization
    balance: BalanceReview
    trend: Trend | Absent
    recommendations: Sequence[Recommendation]
    quality: Sequence[ServerQuality]
    partial: bool
    zone: ZoneInfo


def judge(facts: Facts) -> Verdict:
    """The verdict on a service with a known peak."""
    judgement = _judgement(facts)
    confidence, reasons = find_confidence(facts.utilization, facts.trend, facts.quality, partial=facts.partial)
    return Verdict(
        judgement=judgement,
        sentence=_sentence(facts, judgement),
        problem=_problem(facts, judgement),
        when=_when(facts),
        action=_action(facts),
        certainty=f"{confidence.capitalize()}: {'; '.join(reasons)}.",
        confidence=confidence,
    )


def unknown_verdict(service: str, reason: str) -> Verdict:
    """The verdict on a service without any data."""
    return Verdict(
        judgement="unknown",
        sentence=f"{service}: no verdict. {reason}",
        problem=f"Unknown. {reason}",
        when="Unknown.",
        action="Check that the exporter watches this service, and that its figures are kept.",
        certainty="Low: there is no data to judge.",
        confidence="low",
    )


def is_reached(headroom: float | None) -> bool:
    """Whether a limit counts as reached."""
    return headroom is not None and headroom <= REACHED_FACTOR


def _judgement(facts: Facts) -> Judgement:
    used, trend = facts.utilization, facts.trend
    urgencies = {each.judgement for each in facts.recommendations}
    if is_reached(used.headroom) or "act" in urgencies:
        return "act"
    dated = isinstance(trend, Trend) and trend.first is not None
    low = used.headroom is not None and used.headroom < LOW
    if dated or low or is_reached(used.one_lost) or "plan" in urgencies:
        return "plan"
    return "ok" if used.headroom is not None or used.limits else "unknown"


def _headroom(used: Utilization) -> str:
    """The headroom at peak and its first limit, as the start of a sentence, as `check` words it."""
    if used.headroom is None or used.first is None:
        return "Nearly idle at peak: headroom over 100x" if used.limits else "Headroom at peak is not known"
    most = "at most " if used.upper_bound else ""
    return f"Headroom {most}{factor(used.headroom)} at peak: {gives_out(used.first)} first"


def _sentence(facts: Facts, judgement: Judgement) -> str:
    used = facts.utilization
    do = short_action(facts.recommendations[0].action) if facts.recommendations else ""
    todo = f"; {do}" if judgement in ("act", "plan") and do else "; nothing to do" if judgement == "ok" else ""
    return f"{_headroom(used)}{_threads(used)}; {_crossing_clause(facts)}{todo}."


def short_action(action: str) -> str:
    """The first sentence of an advice, without what is in parentheses, to follow a semicolon."""
    first = re.split(r"(?:\.(?=\s|$))|;", re.sub(r"\s*\([^()]*\)", "", action), maxsplit=1)[0]
    return first[:1].lower() + first[1:]


def _crossing_clause(facts: Facts) -> str:
    if is_reached(facts.utilization.headroom):
        return f"with over {percent(REACHED)} in use, that limit counts as reached"
    forecast = _first_forecast(facts.trend)
    if forecast is not None and forecast.reached:
        return "the trend has reached that limit"
    if forecast is not None and forecast.crossing is not None:
        return f"that limit is reached around {day_words(forecast.crossing, facts.zone)}"
    if isinstance(facts.trend, Trend) and (days := horizon_of(facts.trend)):
        return f"no limit is reached within {days} days"
    return "no date can be given yet"


def _problem(facts: Facts, judgement: Judgement) -> str:
    used = facts.utilization
    start = JUDGEMENTS[judgement].answer
    harm = [each.title for each in facts.recommendations if each.judgement == "act" and each.code in _HARM][:1]
    lost = ""
    if used.lone_server:
        lost = " It has one server: if that is lost, the service is down."
    elif is_reached(used.one_lost) and used.one_lost is not None:
        lost = f" If one of its {len(used.servers)} servers is lost at peak, the others cannot carry its load" + (
            "." if used.one_lost < 1 else f" with room to spare (headroom {factor(used.one_lost)})."
        )
    return f"{start}. {' '.join([*harm, _use(used)])}{_cost(facts.balance)}{lost}"


def _use(used: Utilization) -> str:
    """How full the first limit is at peak, in words for readers who do not know uWSGI."""
    use = next((each for each in used.limits if each.limit == used.first), None)
    if use is None or not use.factor:
        return f"{_headroom(used)}."
    full, threads = percent(1 / use.factor), _threads(used)
    match use.limit:
        case "hottest_interpreter":
            return f"At peak the busiest worker process uses {full} of the one CPU that its Python can use{threads}."
        case "interpreters":
            return f"At peak the worker processes use {full} of the CPU that their Python can use{threads}."
        case "cpu":
            return f"At peak {full} of the CPU that the servers can get is in use{threads}."
    return f"At peak {full} of the threads of the fullest server are in use{threads}."


def _threads(used: Utilization) -> str:
    if used.in_service is None or not used.available:
        return ""
    return f", with {_number(used.in_service)} of {used.available:.0f} threads in service"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}".removesuffix(".0")


def _cost(balance: BalanceReview) -> str:
    """What uneven workers cost, where it is worth a word."""
    if balance.cost_servers is None or balance.cost_servers < WORTH_MENTION or not balance.cost_seconds:
        return ""
    return (
        f" Uneven workers cost {duration(balance.cost_seconds)} of each response and the capacity of "
        f"{mean_count(balance.cost_servers)} of {len(balance.servers)} servers."
    )


def _when(facts: Facts) -> str:
    used, trend, zone = facts.utilization, facts.trend, facts.zone
    peak = f"Peak: {quarter_words(used.until, zone)}."
    if is_reached(used.headroom):
        return f"Now. {peak}"
    forecast = _first_forecast(trend)
    if isinstance(trend, Absent):
        return f"{peak} No date: {trend.reason}"
    if forecast is not None and forecast.reached:
        return f"Now: the busiest days of the last week reached it. {peak}"
    if forecast is not None and forecast.crossing is not None and trend.first is not None:
        around = f"Around {day_words(forecast.crossing, zone)}{_between(forecast, zone)}"
        return f"{around}: {percent(REACHED)} of the limit is then in use ({gives_out(trend.first)}). {peak}"
    if days := horizon_of(trend):
        return f"No limit is reached within the {days} days that the forecast can look ahead. {peak}"
    refused = fullest_of(trend).forecast
    return f"No date: {refused.reason} {peak}" if isinstance(refused, Absent) else peak


def _between(forecast: LimitForecast, zone: ZoneInfo) -> str:
    earliest = "" if forecast.earliest is None else f"not before {day_words(forecast.earliest, zone)}"
    latest = (
        "perhaps later than the forecast looks"
        if forecast.latest is None
        else f"by {day_words(forecast.latest, zone)} at the latest"
    )
    return f" ({', '.join(part for part in (earliest, latest) if part)})"


def _action(facts: Facts) -> str:
    wanted = [each for each in facts.recommendations if each.judgement in ("act", "plan")]
    if not wanted:
        return "Nothing now. Run this report again in a quarter of a year, or after a large change."
    more = f" Then see section 9: {counted(len(wanted) - 1, 'more recommendation')}." if len(wanted) > 1 else ""
    return f"{wanted[0].action}{more}"


def _first_forecast(trend: Trend | Absent) -> LimitForecast | None:
    if isinstance(trend, Absent) or trend.first is None:
        return None
    found = next(each.forecast for each in trend.limits if each.limit == trend.first)
    return found if isinstance(found, LimitForecast) else None
