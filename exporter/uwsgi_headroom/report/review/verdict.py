"""Page one about a service: what users feel, which limit comes first and when, what to do, and how sure that is.

A harm that users feel, and its cause, are in the words of `check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.littles_law import EMPTY
from uwsgi_headroom.analysis.verdict import WITH_MORE, gives_out, usable_clause
from uwsgi_headroom.report.forecast import Forecast
from uwsgi_headroom.report.quarters import STEP
from uwsgi_headroom.report.render import document as doc
from uwsgi_headroom.report.render.document import Absent
from uwsgi_headroom.report.review.recommendations import Evidence, Judgement, Recommendation
from uwsgi_headroom.report.review.users import Users
from uwsgi_headroom.words.formats import duration, percent
from uwsgi_headroom.words.template import Facts as Words
from uwsgi_headroom.words.template import fill

Confidence = Literal["high", "medium", "low"]

_HARMS = ("clients_refused", "requests_lost", "harakiri", "objective_missed", "queue_wait")
"""Findings that say what users feel even if they explain no other."""

FEW_DAYS, MANY_DAYS = 7, 28
"""Days with a known peak: below the first, confidence is low, and nothing is called enough, since a busier day may
come; from the second on, it may be high."""

WELL_COVERED, HALF_COVERED = 0.9, 0.5
"""Share of the range with data: from the first on, confidence may be high; below the second, it is low."""


class Verdict(Struct, frozen=True, kw_only=True):
    """The answers."""

    judgement: Judgement
    sentence: str
    """What runs out, and when."""
    users: str
    """What they feel."""
    action: str
    """What to do, and what that brings."""
    certainty: str
    """How sure, and why."""
    confidence: Confidence
    """The same in a word."""


class Facts(Struct, frozen=True):
    """What a verdict is drawn from. covered: the smallest share of the range of which a server has data; partial: the
    source failed halfway."""

    evidence: Evidence
    recommendations: Sequence[Recommendation]
    covered: float
    partial: bool
    zone: ZoneInfo

    @property
    def is_too_early(self) -> bool:
        return self.evidence.utilization.days < FEW_DAYS

    @property
    def harm(self) -> str:
        """The title of the most urgent recommendation that is about what users feel; empty without one."""
        felt = (each for each in self.recommendations if each.judgement != "ok" and (each.harms or each.code in _HARMS))
        return next((each.title for each in felt), "")

    @property
    def forecast(self) -> Forecast | None:
        """That of the limit that is reached first, else of the fullest one; None if it is refused."""
        return None if isinstance(self.evidence.trend, Absent) else self.evidence.trend.forecast


def judge_service(facts: Facts) -> Verdict:
    """The verdict on a service with a known peak."""
    confidence, reasons = _find_confidence(facts)
    judgement = _judge(facts)
    is_early = facts.is_too_early and judgement == "unknown"
    early = " Too early to say more: a week is needed, since another day may be busier." * is_early
    full = f" Over {percent(REACHED)} of that limit is in use." * facts.evidence.utilization.is_nearly_full
    peak = f" Peak: {doc.quarter(facts.evidence.utilization.until, facts.zone)}."
    return Verdict(
        judgement=judgement,
        sentence=f"{_say_room(facts)}.{full} {_say_date(facts)}{peak}{_say_loss(facts)}{early}",
        users=f"{facts.harm} {_say_users(facts.evidence.users)}".strip(),
        action=_say_action(facts),
        certainty=f"{confidence.capitalize()}: {'; '.join(reasons)}.",
        confidence=confidence,
    )


def unknown_verdict(reason: str) -> Verdict:
    """The verdict on a service without any data."""
    return Verdict(
        judgement="unknown",
        sentence=f"No verdict. {reason}",
        users="Unknown.",
        action="Check that the exporter watches this service, and that its figures are kept.",
        certainty="Low: there is no data to judge.",
        confidence="low",
    )


def _judge(facts: Facts) -> Judgement:
    evidence, used = facts.evidence, facts.evidence.utilization
    urgencies = {each.judgement for each in facts.recommendations}
    is_reached = facts.forecast is not None and facts.forecast.reached
    if used.is_nearly_full or is_reached or "act" in urgencies:
        return "act"
    if evidence.is_short or used.cannot_lose or "plan" in urgencies:
        return "plan"
    return "ok" if (used.headroom is not None or used.limits) and not facts.is_too_early else "unknown"


THREADS = "[busy? , with {busy:threads} of {threads} threads in service]"
WAITS = "Requests begin to wait at peak; headroom {most}{hard:factor} until {outcome}"
UNTIL = "Headroom {most}{until} at peak; {hard:factor} until {outcome}"
FIRST = "Headroom {most}{hard:factor} at peak: {outcome} first"


def _say_room(facts: Facts) -> str:
    """The headroom at peak and its first limit, as the start of a sentence, as `check` words it."""
    used = facts.evidence.utilization
    if used.unknown and not used.is_nearly_full:
        return f"Headroom at peak is not known: {used.unknown}"
    threads = fill(THREADS, {"busy": used.in_service, "threads": used.available})
    if used.headroom is None or used.first is None:
        return ("Nearly idle at peak: headroom over 100x" if used.limits else "Headroom at peak is not known") + threads
    words: Words = {"most": "at most " * used.upper_bound, "hard": used.headroom, "outcome": gives_out(used.first)}
    is_said = facts.harm or used.is_nearly_full  # that requests wait
    words["until"] = "" if is_said else usable_clause(used.usable, used.headroom)
    template = {"": FIRST, WITH_MORE: WAITS}.get(str(words["until"]), UNTIL)
    return fill(template, words) + threads


CROSSING = "That limit is reached around {day} ([earliest? not before {earliest}, ]by {latest} at the latest)."


def _say_date(facts: Facts) -> str:
    """When the limit that comes first is reached."""
    trend, forecast = facts.evidence.trend, facts.forecast
    if isinstance(trend, Absent):
        return f"No date: {trend.reason}"
    if forecast is None:
        return f"No date: {getattr(trend.shown.forecast, 'reason', '')}"
    if forecast.reached:
        return "That limit was reached in the last week, so it may be any day again."
    if forecast.crossing is None:
        return f"No limit is reached within the {len(forecast.ahead)} days that the forecast looks ahead."
    latest = doc.day(forecast.latest) if forecast.latest else "a day beyond the forecast"
    earliest = doc.day(forecast.earliest) if forecast.earliest else ""
    return fill(CROSSING, {"day": doc.day(forecast.crossing), "earliest": earliest, "latest": latest})


WORTH_MENTION = 0.1
"""The cost of uneven workers, in servers, from which on it is mentioned."""

LOSS = (
    "[cost?  Uneven workers cost {saved:duration} of each response and the capacity of {cost:mean} of "
    "{servers:server}.][alone?  The service has one server: if that is lost, it is down.][weak?  If one of its "
    "{servers:server} is lost at peak, the others cannot carry its load.]"
)


def _say_loss(facts: Facts) -> str:
    evidence, balance = facts.evidence, facts.evidence.utilization.balance
    servers, cost = len(evidence.peaks.service.servers), balance.cost_servers or 0.0
    is_worth = cost >= WORTH_MENTION and balance.cost_seconds
    words: Words = {"saved": balance.cost_seconds, "cost": cost if is_worth else None, "servers": servers}
    return fill(LOSS, {**words, "alone": servers == 1, "weak": servers > 1 and evidence.utilization.cannot_lose})


SERVED = "{mean:duration} in service[p95?  (95 of 100 at most {p95:duration})]"
WAIT = "At peak users wait {both:duration}: {wait:duration} in the listen queue, then {served}."
LOST = (
    "[full?  Clients were turned away for {full:fine_percent} of the range.][lost?  At least {lost:request} "
    "{lost:was|were} lost.]"
)
OBJECTIVE = " The objective ({objective} within {threshold:chosen}) was [kept? kept][not kept? missed]."


def _say_users(users: Users) -> str:
    """What users feel at peak, and what was lost to them over the range."""
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
    words: Words = {"objective": f"{100 * objective.objective:g} %", "threshold": objective.threshold}
    return said + fill(OBJECTIVE, {**words, "kept": objective.budget <= 1})


ACTION = "{action}[effect?  {effect}][more?  Then see section 5: {more:more recommendation}.]"


def _say_action(facts: Facts) -> str:
    wanted = [each for each in facts.recommendations if each.judgement in ("act", "plan")]
    if wanted:
        first, more = wanted[0], len(wanted) - 1
        return fill(ACTION, {"action": first.action, "effect": first.effect, "more": more or None})
    if facts.is_too_early:
        return "Nothing now. Run this report again when a week is known."
    return "Nothing now. Run this report again in a quarter of a year, or after a large change."


REASONS = (
    "[days? {days:day} with a known peak][not days? {length} of data, no complete day];{covered:percent} of the range "
    "measured[unseen? ;no forecast][bound? ;CPU use is not known on every server, so headroom may be less][partial? "
    ";the source failed halfway]"
)


def _find_confidence(facts: Facts) -> tuple[Confidence, list[str]]:
    """How sure, in a word, and why, as clauses."""
    used, is_forecast = facts.evidence.utilization, facts.forecast is not None
    covered, load = facts.covered, facts.evidence.peaks.service.load
    words: Words = {"days": used.days or None, "length": duration(max(load) - min(load) + STEP), "covered": covered}
    words |= {"unseen": not is_forecast, "bound": used.upper_bound, "partial": facts.partial}
    reasons = fill(REASONS, words).split(";")
    if facts.is_too_early or covered < HALF_COVERED or facts.partial:
        return "low", reasons
    is_strong = used.days >= MANY_DAYS and covered >= WELL_COVERED and is_forecast and not used.upper_bound
    return ("high" if is_strong else "medium"), reasons
