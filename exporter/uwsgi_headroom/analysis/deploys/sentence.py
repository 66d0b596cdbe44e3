"""Writes down in one sentence what a deploy changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from uwsgi_headroom.analysis.deploys.explanation import Part, Side, name_growth
from uwsgi_headroom.analysis.deploys.judgement import Change, Judgement
from uwsgi_headroom.analysis.deploys.usual import DAYS, UsualTime, is_usual
from uwsgi_headroom.words.formats import (
    counted,
    duration,
    factor,
    percent,
    short_function,
    signed_duration,
)
from uwsgi_headroom.words.states import WAITS
from uwsgi_headroom.words.template import Facts, fill

_NOTED = 0.01
"""The least part of a request's time by which the load alone is said to change it."""

_NOTED_ROOM = 0.1
"""The least change of the headroom that is named. Longer requests may also wait longer, so it need not shrink."""

_BOUNDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def describe(judgement: Judgement, since: str, ago: float | None, parts: Sequence[Part] = ()) -> str:
    """What a deploy changed, as a sentence or two. since: what the deploy was, such as `the reload at 14:02`. ago:
    seconds since then, None where its time stands beside the sentence."""
    opening = f"Since {since}" + ("" if ago is None else f" ({duration(max(1.0, ago))} ago)")
    match judgement.status:
        case "unknown":
            return f"{opening} nothing can be said: {judgement.reason}."
        case "early":
            return f"{opening} it is too early: {_too_early(judgement)}."
        case "same":
            return f"{opening} there is no change above {_bound(judgement)} in the time or CPU time of a request."
    found = [change for change in judgement.changes if change.state == judgement.status]
    first, *rest = [_describe_change(change, judgement, parts) for change in found]
    return f"{opening} {first}." + "".join(f" {text[:1].upper()}{text[1:]}." for text in rest)


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
    return f" Headroom {', '.join(changed)}." if changed else ""


def _too_early(judgement: Judgement) -> str:
    done = judgement.requests[1]
    if not done and judgement.seconds[1]:
        return "no request was completed since then"
    if not done:
        return "the first minute and the first 100 requests are not compared"
    if judgement.needed is None:
        return f"the requests before it differ too much from each other to compare {counted(done, 'request')}"
    if done >= judgement.needed:
        return f"so far, {counted(done, 'request')} differ too much from each other"
    return f"{done:,} of about {_round_up(judgement.needed):,} requests"


def _round_up(number: int) -> int:
    """To two digits."""
    unit = int(10.0 ** max(0, len(str(number)) - 2))
    return ceil(number / unit) * unit


def _bound(judgement: Judgement) -> str:
    bound = judgement.bound or 0.0
    return percent(next((each for each in _BOUNDS if bound <= each), bound))


MEMORY = "memory grows {growth:bytes} a minute in a mean worker"
ERRORS = "{after:fine_percent} of the requests fail or lose their answer, and {before:fine_percent} did before"
SPENT = (
    "a request takes {size:percent} {word} (likely {low} to {high:percent}; {before:duration} → {after:duration})"
    "[why? : {why}]"
)

_LONGER, _SHORTER = {"time": "longer", "cpu": "more CPU time"}, {"time": "less", "cpu": "less CPU time"}


def _describe_change(change: Change, judgement: Judgement, parts: Sequence[Part]) -> str:
    facts: Facts = {"before": change.before, "after": change.after, "growth": 60 * change.after}
    if change.subject == "memory":
        return fill(MEMORY, facts)
    if change.subject == "errors":
        return fill(ERRORS, facts)
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


def _explain_time(change: Change, judgement: Judgement, parts: Sequence[Part]) -> str:
    """The parts in which a request takes longer, and what the load explains; empty if neither is known."""
    reasons = [", ".join(map(_describe_part, name_growth(parts, change.after - change.before)))]
    if abs(judgement.expected - 1) >= _NOTED:
        reasons.append(f"load alone would make {signed_duration((judgement.expected - 1) * change.before)}")
    return "; ".join(filter(None, reasons))


def _name_cpu(change: Change, judgement: Judgement, parts: Sequence[Part]) -> str:
    """The function in which the CPU time changed; empty if it is not known, or the parts of the time name it."""
    if any(each.subject == "time" and each.state == change.state for each in judgement.changes):
        return ""
    grown = (part for part in parts if part.name == WAITS["cpu"].name and part.function)
    return "".join(_describe_function(part) for part in grown if part.growth * (change.after - change.before) > 0)


def _describe_part(part: Part) -> str:
    return f"{part.name} {signed_duration(part.growth)}" + f" ({_describe_function(part)})" * bool(part.function)


def _describe_function(part: Part) -> str:
    return f"`{short_function(part.function)}` {signed_duration(part.function_growth)}"


USUAL = (
    "At this hour of [whole? the last {days:plain} days][some? {days:plain} of the last {DAYS:plain} days] a request "
    "took {mean:duration} (between {low:duration} and {high:duration}).[usual?  The change is as on other days.]"
)


def describe_usual(usual: UsualTime, judgement: Judgement) -> str:
    """What is usual at this hour, and whether that explains the change, as a sentence or two."""
    days = {"whole": usual.whole, "some": not usual.whole, "DAYS": DAYS}
    return fill(USUAL, {**usual._asdict(), **days, "usual": is_usual(usual, judgement)})
