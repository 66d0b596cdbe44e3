"""Writes down in one sentence what a deploy changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from uwsgi_headroom.analysis.deploys.explanation import DeployPart, Side, name_growth
from uwsgi_headroom.analysis.deploys.judgement import DeployChange, Judgement
from uwsgi_headroom.analysis.deploys.usual import DAYS, UsualTime, is_usual
from uwsgi_headroom.words.formats import duration, factor, percent, short_function, signed_duration
from uwsgi_headroom.words.states import WAITS
from uwsgi_headroom.words.template import Facts, fill

_NOTED = 0.01
"""The least part of a request's time by which the load alone is said to change it."""

_NOTED_ROOM = 0.1
"""The least change of the headroom that is named. Longer requests may also wait longer, so it need not shrink."""

_BOUNDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)

SINCE = "Since {since}[ago?  ({ago} ago)] "
UNKNOWN = "nothing can be said: {reason}."
SAME = "there is no change above {bound:percent} in the time or CPU time of a request."
EARLY = "it is too early: {early}."
NONE_DONE = "no request was completed since then"
NONE_COMPARED = "the first minute and the first 100 requests are not compared"
NEVER_KNOWN = "the requests before it differ too much from each other to compare {done:request}"
DIFFER = "so far, {done:request} differ too much from each other"
OF_ABOUT = "{done} of about {needed} requests"
ROOM = " Headroom {changed}."
MEMORY = "memory grows {growth:bytes} a minute in a mean worker"
ERRORS = "{after:fine_percent} of the requests fail or lose their answer, and {before:fine_percent} did before"
SPENT = (
    "a request takes {size:percent} {word} (likely {low} to {high:percent}; {before:duration} → {after:duration})"
    "[why? : {why}]"
)
PART = "{name} {growth}[function?  (`{function}` {of_function})]"
USUAL = (
    "At this hour of [whole? the last {days:plain} days][some? {days:plain} of the last {DAYS:plain} days] a request "
    "took {mean:duration} (between {low:duration} and {high:duration}).[usual?  The change is as on other days.]"
)

_LONGER, _SHORTER = {"time": "longer", "cpu": "more CPU time"}, {"time": "less", "cpu": "less CPU time"}


def describe(judgement: Judgement, since: str, ago: float | None, parts: Sequence[DeployPart] = ()) -> str:
    """What a deploy changed. since: such as `the reload at 14:02`; ago: seconds since then, or None."""
    opening = fill(SINCE, {"since": since, "ago": ago is not None and duration(max(1.0, ago))})
    if judgement.status == "unknown":
        return opening + fill(UNKNOWN, {"reason": judgement.reason})
    if judgement.status == "early":
        return opening + fill(EARLY, {"early": _too_early(judgement)})
    if judgement.status == "same":
        bound = judgement.bound or 0.0
        return opening + fill(SAME, {"bound": next((each for each in _BOUNDS if bound <= each), bound)})
    found = [change for change in judgement.changes if change.state == judgement.status]
    first, *rest = [_describe_change(change, judgement, parts) for change in found]
    return f"{opening}{first}." + "".join(f" {text[:1].upper()}{text[1:]}." for text in rest)


def describe_room(judgement: Judgement, before: Side | None, after: Side | None) -> str:
    """How the headroom changed with what was judged, as a sentence that begins with a space; empty if it did not."""
    if judgement.status not in ("worse", "better") or before is None or after is None:
        return ""
    rooms = ("until requests wait", before.usable, after.usable), ("until a limit", before.headroom, after.headroom)
    sign = -1 if judgement.status == "worse" else 1
    changed = [
        f"{factor(then)} → {factor(now)} {name}"
        for name, then, now in rooms
        if then and now and sign * (now / then - 1) >= _NOTED_ROOM
    ]
    return fill(ROOM, {"changed": ", ".join(changed)}) if changed else ""


def _too_early(judgement: Judgement) -> str:
    done, needed = judgement.requests[1], judgement.needed
    if not done:
        return NONE_DONE if judgement.seconds[1] else NONE_COMPARED
    if needed is None or done >= needed:
        return fill(NEVER_KNOWN if needed is None else DIFFER, {"done": done})
    unit = int(10.0 ** max(0, len(str(needed)) - 2))  # to two digits
    return fill(OF_ABOUT, {"done": done, "needed": ceil(needed / unit) * unit})


def _describe_change(change: DeployChange, judgement: Judgement, parts: Sequence[DeployPart]) -> str:
    facts: Facts = {"before": change.before, "after": change.after, "growth": 60 * change.after}
    if change.subject in ("memory", "errors"):
        return fill(MEMORY if change.subject == "memory" else ERRORS, facts)
    low, high = sorted((abs(change.low), abs(change.high)))
    why = _name_cpu if change.subject == "cpu" else _explain_time
    return fill(
        SPENT,
        {
            **facts,
            "size": abs(change.after / change.before - 1),
            "word": (_LONGER if change.state == "worse" else _SHORTER)[change.subject],
            "low": percent(low).removesuffix(" %"),
            "high": high,
            "why": why(change, judgement, parts),
        },
    )


def _explain_time(change: DeployChange, judgement: Judgement, parts: Sequence[DeployPart]) -> str:
    reasons = [", ".join(fill(PART, _describe(part)) for part in name_growth(parts, change.after - change.before))]
    if abs(judgement.expected - 1) >= _NOTED:
        reasons.append(f"load alone would make {signed_duration((judgement.expected - 1) * change.before)}")
    return "; ".join(filter(None, reasons))


def _describe(part: DeployPart) -> Facts:
    growths = {"growth": signed_duration(part.growth), "of_function": signed_duration(part.function_growth)}
    return {"name": part.name, "function": short_function(part.function), **growths}


def _name_cpu(change: DeployChange, judgement: Judgement, parts: Sequence[DeployPart]) -> str:
    """The function in which the CPU time changed; empty if it is not known, or the parts of the time name it."""
    if any(each.subject == "time" and each.state == change.state for each in judgement.changes):
        return ""
    grown = (part for part in parts if part.name == WAITS["cpu"].name and part.function)
    found = (part for part in grown if part.growth * (change.after - change.before) > 0)
    return "".join(fill("`{function}` {of_function}", _describe(part)) for part in found)


def describe_usual(usual: UsualTime, judgement: Judgement) -> str:
    """What is usual at this hour, and whether that explains the change, as a sentence or two."""
    days = {"whole": usual.whole, "some": not usual.whole, "DAYS": DAYS}
    return fill(USUAL, {**usual._asdict(), **days, "usual": is_usual(usual, judgement)})
