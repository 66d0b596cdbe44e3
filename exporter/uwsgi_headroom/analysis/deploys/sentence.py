"""Writes down in one sentence what a deploy changed, and what is usual at an hour: the time of a request at the same
hour of the days before.

What is usual explains a change, and judges nothing. The alert UwsgiSlowerThanUsual takes its days and fewest requests
from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, fsum, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from uwsgi_headroom.analysis.deploys.explanation import Part, Side, name_growth
from uwsgi_headroom.analysis.deploys.judgement import Batch, Change, Judgement
from uwsgi_headroom.analysis.deploys.spread import from_normal
from uwsgi_headroom.words.formats import byte_size, counted, duration, factor, fine_percent, percent, short_function

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
        return "there was no request since then"
    if not done:
        return "the start stands apart, a minute and 100 requests"
    if judgement.needed is None:
        return f"{counted(done, 'request')}, and those before it differ too much"
    if done >= judgement.needed:
        return f"{counted(done, 'request')}, which differ too much so far"
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
            return f"a request takes {_size(change)} {word} CPU time ({_span(change)})"
    word = "longer" if longer else "less"
    text = f"a request takes {_size(change)} {word} ({_span(change)})"
    growth = change.after - change.before
    reasons = [", ".join(map(_describe_part, name_growth(parts, growth)))]
    if abs(judgement.expected - 1) >= _NOTED:
        reasons.append(f"load alone would make {_signed((judgement.expected - 1) * change.before)}")
    why = "; ".join(filter(None, reasons))
    return f"{text}: {why}" if why else text


def _describe_part(part: Part) -> str:
    text = f"{part.name} {_signed(part.growth)}"
    return f"{text} (`{short_function(part.function)}` {_signed(part.function_growth)})" if part.function else text


def _size(change: Change) -> str:
    return percent(abs(change.after / change.before - 1))


def _span(change: Change) -> str:
    low, high = sorted((abs(change.low), abs(change.high)))
    return (
        f"{duration(change.before)} → {duration(change.after)}; between {percent(low).removesuffix(' %')} and "
        f"{percent(high)}"
    )


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{duration(abs(seconds))}"


DAYS = 14
"""Days whose same hour is usual: Prometheus keeps 15 unless it is set otherwise."""

FEWEST = 100
"""Requests in the hour of a day."""

_FEWEST_DAYS = 3

_ERRORS = 1.96
"""Standard errors of a day's difference from the mean of the others that are usual, with as many days as one likes. The
alert's are more: it looks at each hour of each day."""


class UsualTime(NamedTuple):
    """Seconds of a mean request at the same hour of other days. low, high: of the fastest day and of the slowest.
    whole: whether these are the last `days` days, without one between them that is not known."""

    days: int
    mean: float
    low: float
    high: float
    whole: bool
    margin: float
    """How far a day without a change is from `mean`, nineteen times of twenty."""


def find_usual(days: Sequence[Sequence[Batch]]) -> UsualTime | None:
    """What is usual: from the batches of the same hour, yesterday's first. None with fewer than 3 days that are known
    and had FEWEST requests."""
    means, last = [], 0
    for day, batches in enumerate(days, 1):
        pairs = [(batch.time, batch.requests) for batch in batches if batch.time is not None]
        requests = fsum([requests for _, requests in pairs])
        if requests >= FEWEST:
            means.append(fsum([time for time, _ in pairs]) / requests)
            last = day
    if len(means) < _FEWEST_DAYS:
        return None
    number = len(means)
    margin = from_normal(_ERRORS, number - 1) * sqrt(1 + 1 / number) * stdev(means)
    return UsualTime(number, fmean(means), min(means), max(means), last == number, margin)


def is_usual(usual: UsualTime, judgement: Judgement) -> bool:
    """Whether a change of the time of a request leads to what is usual now, from what is not."""
    change = judgement.of("time")
    if change is None or change.state == "unclear":
        return False
    before, after = change.before - usual.mean, change.after - usual.mean
    if change.state == "better":
        before, after = -before, -after
    return before < -usual.margin and after <= usual.margin


def describe_usual(usual: UsualTime, judgement: Judgement) -> str:
    """What is usual, and whether that explains the change, as a sentence or two."""
    days = f"the last {usual.days} days" if usual.whole else f"{usual.days} of the last {DAYS} days"
    text = (
        f"At this hour of {days} a request took {duration(usual.mean)} (between {duration(usual.low)} and "
        f"{duration(usual.high)})."
    )
    return f"{text} The change is as on other days." if is_usual(usual, judgement) else text
