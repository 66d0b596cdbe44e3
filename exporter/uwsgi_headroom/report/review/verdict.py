"""Page one about a service: what users feel, which limit comes first and when, what to do, and how sure that is.

A harm that users feel, and its cause, are in the words of `check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.littles_law import EMPTY
from uwsgi_headroom.analysis.verdict import WITH_MORE, gives_out, usable_clause
from uwsgi_headroom.report.quarters import STEP, Absent
from uwsgi_headroom.report.render import document as doc
from uwsgi_headroom.report.review.recommendations import Evidence, Judgement, Recommendation
from uwsgi_headroom.report.review.trend import Trend
from uwsgi_headroom.report.review.users import Users
from uwsgi_headroom.report.review.utilization import Utilization
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.words.formats import duration, percent
from uwsgi_headroom.words.template import Facts, fill

Confidence = Literal["high", "medium", "low"]

_HARMS = ("clients_refused", "requests_lost", "harakiri", "objective_missed", "queue_wait")
"""Findings that say what users feel even if they explain no other."""

FEW_DAYS, MANY_DAYS = 7, 28
"""Days with a known peak: below the first, confidence is low, and nothing is called enough, since a busier day may
come; from the second on, it may be high."""

WELL_COVERED, HALF_COVERED = 0.9, 0.5
"""Share of the range with data: from the first on, confidence may be high; below the second, it is low."""


class ServiceVerdict(Struct, frozen=True, kw_only=True):
    """sentence: what runs out, and when; users: what they feel; action: what to do, and what that brings; certainty:
    how sure, and why; confidence: the same in a word."""

    judgement: Judgement
    sentence: str
    users: str
    action: str
    certainty: str
    confidence: Confidence


def judge_service(evidence: Evidence, recommendations: Sequence[Recommendation]) -> ServiceVerdict:
    confidence, reasons = _find_confidence(evidence)
    judgement, used = _judge(evidence, recommendations), evidence.utilization
    felt = (each for each in recommendations if each.judgement != "ok" and (each.harms or each.code in _HARMS))
    harm = next((each.title for each in felt), "")
    facts: Facts = {
        "room": _say_room(used, is_said=bool(harm) or used.is_nearly_full),
        "full": used.is_nearly_full and percent(REACHED),
        "date": _say_date(evidence.trend),
        "peak": doc.quarter(used.until, evidence.peaks.zone),
        "loss": _say_loss(evidence),
        "early": _is_too_early(evidence) and judgement == "unknown",
    }
    return ServiceVerdict(
        judgement=judgement,
        sentence=fill(SENTENCE, facts),
        users=f"{harm} {_say_users(evidence.users)}".strip(),
        action=_say_action(evidence, recommendations),
        certainty=f"{confidence.capitalize()}: {'; '.join(reasons)}.",
        confidence=confidence,
    )


SENTENCE = (
    "{room}.[full?  Over {full} of that limit is in use.] {date} Peak: {peak}.{loss}[early?  Too early to say more: a "
    "week is needed, since another day may be busier.]"
)


def _is_too_early(evidence: Evidence) -> bool:
    return evidence.utilization.days < FEW_DAYS


def unknown_verdict(reason: str) -> ServiceVerdict:
    return ServiceVerdict(
        judgement="unknown",
        sentence=f"No verdict. {reason}",
        users="Unknown.",
        action="Check that the exporter watches this service, and that its figures are kept.",
        certainty="Low: there is no data to judge.",
        confidence="low",
    )


def _judge(evidence: Evidence, recommendations: Sequence[Recommendation]) -> Judgement:
    used, urgencies = evidence.utilization, {each.judgement for each in recommendations}
    is_reached = evidence.forecast is not None and evidence.forecast.reached
    if used.is_nearly_full or is_reached or "act" in urgencies:
        return "act"
    if evidence.is_short or used.cannot_lose or "plan" in urgencies:
        return "plan"
    is_known = used.headroom is not None or used.limits
    return "ok" if is_known and not _is_too_early(evidence) else "unknown"


NOT_KNOWN = "Headroom at peak is not known"
IDLE = "Nearly idle at peak: headroom over 100x"
THREADS = "[busy? , with {busy:threads} of {threads} threads in service]"
WAITS = "Requests begin to wait at peak; headroom [most? at most ]{hard:factor} until {outcome}"
UNTIL = "Headroom [most? at most ]{until} at peak; {hard:factor} until {outcome}"
FIRST = "Headroom [most? at most ]{hard:factor} at peak: {outcome} first"


def _say_room(used: Utilization, *, is_said: bool) -> str:
    """The headroom at peak and its first limit, as the start of a sentence, as `check` words it. is_said: that requests
    wait."""
    if used.unknown and not used.is_nearly_full:
        return f"{NOT_KNOWN}: {used.unknown}"
    threads = fill(THREADS, {"busy": used.in_service, "threads": used.available})
    if used.headroom is None or used.first is None:
        return (IDLE if used.limits else NOT_KNOWN) + threads
    facts: Facts = {"most": used.upper_bound, "hard": used.headroom, "outcome": gives_out(used.first)}
    until = usable_clause(used.usable, used.headroom) * (not is_said)
    template = {"": FIRST, WITH_MORE: WAITS}.get(until, UNTIL)
    return fill(template, {**facts, "until": until}) + threads


CROSSING = (
    "That limit is reached around {day} ([earliest? not before {earliest}, ][latest? by {latest}][not latest? by a day "
    "beyond the forecast] at the latest)."
)


def _say_date(trend: Trend | Absent) -> str:
    forecast = trend if isinstance(trend, Absent) else trend.shown.forecast
    if isinstance(forecast, Absent):
        return f"No date: {forecast.reason}"
    if forecast.reached:
        return "That limit was reached in the last week, so it may be any day again."
    if forecast.crossing is None:
        return f"No limit is reached within the {len(forecast.ahead)} days that the forecast looks ahead."
    days = {"day": forecast.crossing, "earliest": forecast.earliest, "latest": forecast.latest}
    return fill(CROSSING, {name: given(day, doc.day) for name, day in days.items()})


WORTH_MENTION = 0.1
"""The cost of uneven workers, in servers, from which on it is mentioned."""

LOSS = (
    "[is_worth?  Uneven workers cost {saved:duration} of each response and the capacity of {cost:mean} of "
    "{servers:server}.][alone?  The service has one server: if that is lost, it is down.][weak?  If one of its "
    "{servers:server} is lost at peak, the others cannot carry its load.]"
)


def _say_loss(evidence: Evidence) -> str:
    used, servers = evidence.utilization, len(evidence.peaks.service.servers)
    cost, saved = used.balance.cost_servers or 0.0, used.balance.cost_seconds
    is_worth = cost >= WORTH_MENTION and duration(saved or 0.0) != duration(0)
    facts: Facts = {"is_worth": is_worth, "saved": saved, "cost": cost, "servers": servers}
    return fill(LOSS, {**facts, "alone": servers == 1, "weak": servers > 1 and used.cannot_lose})


SERVED = "{mean:duration} in service[p95?  (95 of 100 at most {p95:duration})]"
WAIT = "At peak users wait {both:duration}: {wait:duration} in the listen queue, then {served}."
LOST = (
    "[full?  Clients were turned away for {full:fine_percent} of the range.][lost?  At least {lost:request} "
    "{lost:was|were} lost.]"
)
OBJECTIVE = " The objective ({objective} within {threshold:chosen}) was [kept? kept][not kept? missed]."


def _say_users(users: Users) -> str:
    felt, objective = users.at_peak, users.objective
    said = "The response times at peak are not known."
    if felt.mean is not None:
        served = fill(SERVED, {"mean": felt.mean, "p95": felt.percentiles.get("p95")})
        said = f"At peak users wait {served}; the listen queue is empty."
        if felt.queue_wait is None:
            said = f"At peak users wait {served}, and before that in the listen queue, which is not known."
        elif felt.queue_wait >= EMPTY:
            said = fill(WAIT, {"both": felt.mean + felt.queue_wait, "wait": felt.queue_wait, "served": served})
    said += fill(LOST, {"full": users.queue_full or None, "lost": users.lost or None})
    if isinstance(objective, Absent):
        return said
    facts: Facts = {"objective": f"{100 * objective.objective:g} %", "threshold": objective.threshold}
    return said + fill(OBJECTIVE, {**facts, "kept": objective.budget <= 1})


ACTION = "{action}[effect?  {effect}][more?  Then see section 5: {more:more recommendation}.]"


def _say_action(evidence: Evidence, recommendations: Sequence[Recommendation]) -> str:
    wanted = [each for each in recommendations if each.judgement in ("act", "plan")]
    if wanted:
        first, more = wanted[0], len(wanted) - 1
        return fill(ACTION, {"action": first.action, "effect": first.effect, "more": more or None})
    if _is_too_early(evidence):
        return "Nothing now. Run this report again when a week is known."
    return "Nothing now. Run this report again in a quarter of a year, or after a large change."


REASONS = (
    "[days? {days:day} with a known peak][not days? {length} of data, no complete day];{covered:percent} of the range "
    "measured[unseen? ;no forecast][bound? ;CPU use is not known on every server, so headroom may be less][partial? "
    ";the source failed halfway]"
)


def _find_confidence(evidence: Evidence) -> tuple[Confidence, list[str]]:
    used, is_forecast = evidence.utilization, evidence.forecast is not None
    covered, load = evidence.covered, evidence.peaks.service.load
    facts: Facts = {"days": used.days or None, "length": duration(max(load) - min(load) + STEP), "covered": covered}
    facts |= {"unseen": not is_forecast, "bound": used.upper_bound, "partial": evidence.partial}
    reasons = fill(REASONS, facts).split(";")
    if _is_too_early(evidence) or covered < HALF_COVERED or evidence.partial:
        return "low", reasons
    is_strong = used.days >= MANY_DAYS and covered >= WELL_COVERED and is_forecast and not used.upper_bound
    return "high" if is_strong else "medium", reasons
