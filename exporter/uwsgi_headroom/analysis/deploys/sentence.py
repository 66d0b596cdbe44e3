"""Writes down in one sentence what a deploy changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from uwsgi_headroom.analysis.deploys.explanation import Part, Side, name_growth
from uwsgi_headroom.analysis.deploys.judgement import Change, Judgement
from uwsgi_headroom.words.formats import (
    byte_size,
    counted,
    duration,
    factor,
    fine_percent,
    percent,
    short_function,
    signed_duration,
)
from uwsgi_headroom.words.states import WAITS

_NOTED = 0.01
"""The least part of a request's time by which the load alone is said to change it."""

_NOTED_ROOM = 0.1
"""The least change of the headroom that is named. Longer requests may also wait longer, so it need not shrink."""

_BOUNDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def describe(judgement: Judgement, since: str, ago: float | None, parts: Sequence[Part] = ()) -> str:
    """What a deploy changed, as a sentence or two. since: what the deploy was, such as `the reload at 14:02`. ago:
    seconds since then, None where its time stands beside the sentence. parts: of a request, the one that changed most
    first."""
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
    """How the headroom changed with what was judged, as a sentence that begins with a space; empty if it did not, or is
    not known on both sides."""
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


def _describe_change(change: Change, judgement: Judgement, parts: Sequence[Part]) -> str:
    longer = change.state == "worse"
    match change.subject:
        case "memory":
            return f"memory grows {byte_size(60 * change.after)} a minute in a mean worker"
        case "errors":
            return (
                f"{fine_percent(change.after)} of the requests fail or lose their answer, and "
                f"{fine_percent(change.before)} did before"
            )
        case "cpu":
            word = "more" if longer else "less"
            text = f"a request takes {_size(change)} {word} CPU time ({_span(change)})"
            function = _name_cpu(change, judgement, parts)
            return f"{text}: {function}" if function else text
    word = "longer" if longer else "less"
    text = f"a request takes {_size(change)} {word} ({_span(change)})"
    growth = change.after - change.before
    reasons = [", ".join(map(_describe_part, name_growth(parts, growth)))]
    if abs(judgement.expected - 1) >= _NOTED:
        reasons.append(f"load alone would make {signed_duration((judgement.expected - 1) * change.before)}")
    why = "; ".join(filter(None, reasons))
    return f"{text}: {why}" if why else text


def _name_cpu(change: Change, judgement: Judgement, parts: Sequence[Part]) -> str:
    """The function in which the CPU time changed; empty if it is not known, or the parts of the time name it."""
    if any(each.subject == "time" and each.state == change.state for each in judgement.changes):
        return ""
    grown = (part for part in parts if part.name == WAITS["cpu"].name and part.function)
    return "".join(_describe_function(part) for part in grown if part.growth * (change.after - change.before) > 0)


def _describe_part(part: Part) -> str:
    text = f"{part.name} {signed_duration(part.growth)}"
    return f"{text} ({_describe_function(part)})" if part.function else text


def _describe_function(part: Part) -> str:
    return f"`{short_function(part.function)}` {signed_duration(part.function_growth)}"


def _size(change: Change) -> str:
    return percent(abs(change.after / change.before - 1))


def _span(change: Change) -> str:
    low, high = sorted((abs(change.low), abs(change.high)))
    likely = f"likely {percent(low).removesuffix(' %')} to {percent(high)}"
    return f"{likely}; {duration(change.before)} → {duration(change.after)}"
