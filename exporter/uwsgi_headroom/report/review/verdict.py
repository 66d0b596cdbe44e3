"""Section 1: the verdict on a service: whether there is a problem, what users feel, when, what to do, what that brings,
and how sure it is.

Each of the answers is a function of `Facts`: what the other sections found. The problem is the first block of section
8: a harm that users feel, and its cause, in the words of `check`; without a harm it is how full the first limit is.
How sure a verdict is follows from the days with a known peak and the share of the range that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.findings import first_act
from uwsgi_headroom.analysis.verdict import gives_out, usable_clause
from uwsgi_headroom.report.columns import STEP
from uwsgi_headroom.report.review.balance import WORTH_MENTION
from uwsgi_headroom.report.review.recommendations import is_short
from uwsgi_headroom.report.review.sections import (
    Absent,
    BalanceReview,
    Confidence,
    Judgement,
    LimitForecast,
    ObjectiveUse,
    Recommendation,
    ServerQuality,
    Trend,
    Users,
    Utilization,
    Verdict,
)
from uwsgi_headroom.report.review.trend import fullest_of
from uwsgi_headroom.report.review.utilization import is_nearly_full
from uwsgi_headroom.report.review.wording import quarter_words, short_day
from uwsgi_headroom.words.formats import chosen, counted, duration, factor, fine_percent, mean_count, percent
from uwsgi_headroom.words.states import JUDGEMENTS

_HARMS = ("clients_refused", "requests_lost", "harakiri", "objective_missed", "queue_wait")
"""Findings that say what users feel even if they explain no other; the rest say how full a limit is, which the verdict
words for itself."""

FEW_DAYS, MANY_DAYS = 7, 28
"""Days with a known peak: below the first, confidence is low; from the second on, it may be high."""

WELL_COVERED, HALF_COVERED = 0.9, 0.5
"""Share of the range with data: from the first on, confidence may be high; below the second, it is low."""


class Facts(Struct, frozen=True):
    """What a verdict is drawn from. quality: of the service's servers."""

    service: str
    utilization: Utilization
    balance: BalanceReview
    trend: Trend | Absent
    recommendations: Sequence[Recommendation]
    quality: Sequence[ServerQuality]
    partial: bool
    zone: ZoneInfo
    users: Users


def judge(facts: Facts) -> Verdict:
    """The verdict on a service with a known peak."""
    judgement = _judgement(facts)
    confidence, reasons = _confidence(facts.utilization, facts.trend, facts.quality, partial=facts.partial)
    return Verdict(
        judgement=judgement,
        sentence=_sentence(facts, judgement),
        problem=_problem(facts, judgement),
        users=_say_users(facts.users),
        when=_when(facts),
        action=_action(facts),
        gain=_gain(facts.recommendations),
        certainty=f"{confidence.capitalize()}: {'; '.join(reasons)}.",
        confidence=confidence,
    )


def unknown_verdict(service: str, reason: str) -> Verdict:
    """The verdict on a service without any data."""
    return Verdict(
        judgement="unknown",
        sentence=f"{service}: no verdict. {reason}",
        problem=f"Unknown. {reason}",
        users="Unknown.",
        when="Unknown.",
        action="Check that the exporter watches this service, and that its figures are kept.",
        gain="",
        certainty="Low: there is no data to judge.",
        confidence="low",
    )


def _judgement(facts: Facts) -> Judgement:
    used, forecast = facts.utilization, _first_forecast(facts.trend)
    urgencies = {each.judgement for each in facts.recommendations}
    if is_nearly_full(used.headroom) or (forecast is not None and forecast.reached) or "act" in urgencies:
        return "act"
    if is_short(used, facts.trend) or cannot_lose(used) or "plan" in urgencies:
        return "plan"
    return "ok" if (used.headroom is not None or used.limits) and not _is_too_early(used) else "unknown"


def cannot_lose(used: Utilization) -> bool:
    """Whether the others cannot carry the load at peak if one server is lost."""
    return used.one_lost is not None and used.one_lost < 1


def _is_too_early(used: Utilization) -> bool:
    """Whether less than a week is known, in which a busier day may still come: what is bad is known to be, but not what
    is well."""
    return used.days < FEW_DAYS


def _sentence(facts: Facts, judgement: Judgement) -> str:
    used = facts.utilization
    do = _short_action(facts.recommendations[0].action) if facts.recommendations else ""
    todo = f"; {do}" if judgement in ("act", "plan") and do else "; nothing to do" if judgement == "ok" else ""
    todo = "; too early to say more" if judgement == "unknown" and _is_too_early(used) else todo
    harm = _find_harm(facts.recommendations)
    room = _headroom(used, waits=bool(harm))
    return f"{f'{harm} ' if harm else ''}{room}{_threads(used)}; {_crossing_clause(facts)}{todo}."


def _find_harm(recommendations: Sequence[Recommendation]) -> str:
    """The title of the most urgent block that users feel; empty without one."""
    felt = (each for each in recommendations if each.judgement != "ok" and (each.harms or each.code in _HARMS))
    return next((each.title for each in felt), "")


def _headroom(used: Utilization, *, waits: bool = False) -> str:
    """The headroom at peak and its first limit, as the start of a sentence, as `check` words it. waits: whether what
    users feel is said before."""
    if used.unknown and (used.headroom is None or not is_nearly_full(used.headroom)):
        return f"Headroom at peak is not known: {used.unknown}"
    if used.headroom is None or used.first is None:
        return "Nearly idle at peak: headroom over 100x" if used.limits else "Headroom at peak is not known"
    most = "at most " if used.upper_bound else ""
    until = "" if waits or is_nearly_full(used.headroom) else usable_clause(used.usable, used.headroom)
    hard = f"{factor(used.headroom)} until {gives_out(used.first)}"
    if not until:
        return f"Headroom {most}{factor(used.headroom)} at peak: {gives_out(used.first)} first"
    if used.usable is not None and used.usable <= 1:
        return f"Requests begin to wait at peak; headroom {most}{hard}"
    return f"Headroom {most}{until} at peak; {hard}"


def _threads(used: Utilization) -> str:
    if used.in_service is None or not used.available:
        return ""
    return f", with {_number(used.in_service)} of {used.available:.0f} threads in service"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}".removesuffix(".0")


def _short_action(action: str) -> str:
    """The first act of an advice, to follow a semicolon."""
    first = first_act(action)
    return first[:1].lower() + first[1:]


def _crossing_clause(facts: Facts) -> str:
    if is_nearly_full(facts.utilization.headroom):
        return f"over {percent(REACHED)} of that limit is in use"
    forecast = _first_forecast(facts.trend)
    if forecast is not None and forecast.reached:
        return "that limit was reached in the last week"
    if forecast is not None and forecast.crossing is not None:
        return f"that limit is reached around {short_day(forecast.crossing, facts.zone)}"
    if isinstance(facts.trend, Trend) and (days := _horizon(facts.trend)):
        return f"no limit is reached within {days} days"
    return "no date can be given yet"


def _problem(facts: Facts, judgement: Judgement) -> str:
    used = facts.utilization
    start = JUDGEMENTS[judgement].answer
    if judgement == "unknown" and _is_too_early(used):
        known = f"{counted(used.days, 'day')} with a known peak" if used.days else "no day is complete"
        start = f"Too early to say: {known}, and a week is needed, since another day may be busier"
    harm = _find_harm(facts.recommendations)
    lost = ""
    if used.lone_server:
        lost = " It has one server: if that is lost, the service is down."
    elif cannot_lose(used):
        lost = f" If one of its {len(used.servers)} servers is lost at peak, the others cannot carry its load."
    return f"{start}. {' '.join(filter(None, [harm, _use(used)]))}{_cost(facts.balance)}{lost}"


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
        case "lock":
            return f"At peak a lock of the application is held for {full} of the time{threads}."
    return f"At peak {full} of the threads of the fullest server are in use{threads}."


def _cost(balance: BalanceReview) -> str:
    """What uneven workers cost, where it is worth a word."""
    if balance.cost_servers is None or balance.cost_servers < WORTH_MENTION or not balance.cost_seconds:
        return ""
    return (
        f" Uneven workers cost {duration(balance.cost_seconds)} of each response and the capacity of "
        f"{mean_count(balance.cost_servers)} of {len(balance.servers)} servers."
    )


def _say_users(users: Users) -> str:
    """What users feel at peak, and what was lost to them over the range."""
    served, wait = users.mean_at_peak, users.queue_wait_at_peak
    p95 = users.percentiles_at_peak.get("p95")
    slow = "" if p95 is None else f" (95 of 100 at most {duration(p95)})"
    parts = []
    if served is not None:
        service = f"{duration(served)} in service{slow}"
        if wait is None:
            parts.append(f"At peak users wait {service}, and before that in the listen queue, which is not known.")
        elif wait >= NOTICED:
            queue = f"{duration(wait)} in the listen queue"
            parts.append(f"At peak users wait {duration(served + wait)}: {queue}, then {service}.")
        else:
            parts.append(f"At peak users wait {service}; the listen queue is empty.")
    if users.queue_full:
        parts.append(f"Clients were turned away for {fine_percent(users.queue_full)} of the range.")
    if users.lost and users.lost >= 1:
        parts.append(f"At least {counted(round(users.lost), 'request')} were lost.")
    if isinstance(users.objective, ObjectiveUse):
        objective = users.objective
        parts.append(
            f"The objective ({fine_percent(objective.objective, 5)} within {chosen(objective.threshold)}) was "
            f"{'kept' if objective.budget <= 1 else 'missed'}."
        )
    return " ".join(filter(None, parts)) or "Unknown: response times are not known."


NOTICED = 0.001
"""Mean seconds in the listen queue below which the report calls it empty."""


def _gain(recommendations: Sequence[Recommendation]) -> str:
    """What the first thing to do brings; empty if nothing is to do."""
    return next((each.effect for each in recommendations if each.judgement in ("act", "plan")), "")


def _when(facts: Facts) -> str:
    used, trend, zone = facts.utilization, facts.trend, facts.zone
    peak = f"Peak: {quarter_words(used.until, zone)}."
    if is_nearly_full(used.headroom):
        return f"Now. {peak}"
    forecast = _first_forecast(trend)
    if isinstance(trend, Absent):
        return f"{peak} No date: {trend.reason}"
    if forecast is not None and forecast.reached:
        return f"Any day: the limit was reached in the last week. {peak}"
    if forecast is not None and forecast.crossing is not None and trend.first is not None:
        around = f"Around {short_day(forecast.crossing, zone)}{_between(forecast, zone)}"
        return f"{around}: the limit is then reached ({gives_out(trend.first)}). {peak}"
    if days := _horizon(trend):
        return f"No limit is reached within the {days} days that the forecast can look ahead. {peak}"
    refused = fullest_of(trend).forecast
    return f"No date: {refused.reason} {peak}" if isinstance(refused, Absent) else peak


def _between(forecast: LimitForecast, zone: ZoneInfo) -> str:
    earliest = "" if forecast.earliest is None else f"not before {short_day(forecast.earliest, zone)}"
    latest = (
        "perhaps later than the forecast looks"
        if forecast.latest is None
        else f"by {short_day(forecast.latest, zone)} at the latest"
    )
    return f" ({', '.join(part for part in (earliest, latest) if part)})"


def _first_forecast(trend: Trend | Absent) -> LimitForecast | None:
    if isinstance(trend, Absent) or trend.first is None:
        return None
    found = next(each.forecast for each in trend.limits if each.limit == trend.first)
    return found if isinstance(found, LimitForecast) else None


def _horizon(trend: Trend) -> int | None:
    """The days that all forecasts look ahead; None if that of the fullest limit is refused."""
    fullest = fullest_of(trend)
    known = [each.forecast.horizon_days for each in trend.limits if isinstance(each.forecast, LimitForecast)]
    return min(known) if isinstance(fullest.forecast, LimitForecast) else None


def _action(facts: Facts) -> str:
    wanted = [each for each in facts.recommendations if each.judgement in ("act", "plan")]
    if not wanted and _is_too_early(facts.utilization):
        return "Nothing now. Run this report again when a week is known."
    if not wanted:
        return "Nothing now. Run this report again in a quarter of a year, or after a large change."
    more = f" Then see section 8: {counted(len(wanted) - 1, 'more recommendation')}." if len(wanted) > 1 else ""
    return f"{wanted[0].action}{more}"


def _confidence(
    used: Utilization, trend: Trend | Absent, quality: Sequence[ServerQuality], *, partial: bool
) -> tuple[Confidence, list[str]]:
    """How sure, in a word, and why, as clauses. quality: of the service's servers; partial: the source failed."""
    covered = min((each.covered for each in quality), default=0.0)
    first = min((each.first for each in quality if each.first is not None), default=None)
    last = max((each.last for each in quality if each.last is not None), default=None)
    length = duration(max(STEP, (last or 0.0) - (first or 0.0))) if first is not None else "no data"
    days = f"{used.days} days with a known peak" if used.days else f"{length} of data, no complete day"
    reasons = [days, f"{percent(covered)} of the range measured"]
    is_forecast = isinstance(trend, Trend) and _horizon(trend) is not None
    if not is_forecast:
        reasons.append("no forecast")
    if used.upper_bound:
        reasons.append("CPU use is not known on every server, so headroom may be less")
    if partial:
        reasons.append("the source failed halfway")
    weak = used.days < FEW_DAYS or covered < HALF_COVERED or partial
    strong = used.days >= MANY_DAYS and covered >= WELL_COVERED and not used.upper_bound and is_forecast
    if weak:
        return "low", reasons
    return ("high" if strong else "medium"), reasons
