"""Explains a deploy, and writes the sentence: in which parts of a request time was spent before and after, and what the
load explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, copysign

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.deploys.judgement import (
    DAYS,
    DeployChange,
    Judgement,
    Outcome,
    Subject,
    UsualTime,
    is_usual,
)
from uwsgi_headroom.analysis.littles_law import compute_flow, ratio
from uwsgi_headroom.analysis.percentiles import ResponseTimes
from uwsgi_headroom.analysis.routes import RouteFigures
from uwsgi_headroom.analysis.wait_states import compute_waits
from uwsgi_headroom.history.window import CodeWindow, Window
from uwsgi_headroom.record import State
from uwsgi_headroom.words.formats import duration, factor, percent, short_function, signed_duration
from uwsgi_headroom.words.states import WAITS
from uwsgi_headroom.words.template import Facts, fill

FULL = 0.2
"""The share of the time with every thread busy from which on a side is overloaded."""

_MOST_OF_PART = 0.5
"""The least share of a part's growth that a function makes which is named."""


class DeployPart(Struct, frozen=True):
    """Seconds of a mean request before and after: of what it waits for, of a backend, or of a route. function: the one
    with most of the change, function_growth: by how many seconds; empty and 0 where that is not known."""

    name: str
    before: float
    after: float
    function: str = ""
    function_growth: float = 0.0

    @property
    def growth(self) -> float:
        """Seconds by which it grew; negative if it shrank."""
        return self.after - self.before


class Side(Struct, frozen=True):
    """What explains one side. routes, code: of the same window, or of its end; None where they are off."""

    window: Window
    response_times: ResponseTimes | None = None
    routes: RouteFigures | None = None
    code: CodeWindow | None = None
    headroom: float | None = None
    """The factor by which the load can grow until a limit, and until requests wait."""
    usable: float | None = None

    @property
    def is_full(self) -> bool:
        """Whether the server was overloaded: every thread was busy for some time."""
        return (ratio(self.window.full_seconds, self.window.observed_seconds) or 0.0) >= FULL


def list_parts(before: Side, after: Side) -> tuple[DeployPart, ...]:
    """What a mean request spends its time on, the part that changed most first; empty if it is not known."""
    functions = _find_functions(before), _find_functions(after)
    return tuple(_name_function(part, *functions) for part in _compare(*map(_find_parts, (before, after))))


def list_routes(before: Side, after: Side) -> tuple[DeployPart, ...]:
    """By how much each route adds to the time of a mean request; empty where routes are off."""
    return _compare(*map(_find_routes, (before, after)))


def _find_routes(side: Side) -> dict[str, float]:
    time = compute_flow(side.window).response_time
    if side.routes is None or time is None:
        return {}
    return {route: time * side.routes.share(route) for route in side.routes.threads}


def _compare(before: dict[str, float], after: dict[str, float]) -> tuple[DeployPart, ...]:
    if not before or not after:
        return ()
    parts = [DeployPart(name, before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}]
    return tuple(sorted(parts, key=lambda part: -abs(part.growth)))


def _find_parts(side: Side) -> dict[str, float]:
    """Seconds of a mean request, by the name of what it waits for; of backends, by their own names."""
    waits = compute_waits(side.window, compute_flow(side.window))
    if waits is None or waits.per_request is None:
        return {}
    parts = {WAITS[state].name: seconds for state, seconds in waits.per_request.items()}
    backends = {each.name: each.per_request or 0.0 for each in waits.backends}
    rest = WAITS["backend"].name
    if rest in parts:
        parts[rest] = max(0.0, parts[rest] - sum(backends.values()))
    return {**parts, **backends}


def _find_functions(side: Side) -> dict[tuple[str, str], float]:
    """Seconds of a mean request, by the name of what it waits for and the function of the application."""
    code, time = side.code, compute_flow(side.window).response_time
    seconds: dict[tuple[str, str], float] = {}
    if code is None or code.off is not None or not code.threads or time is None:
        return seconds
    for use in code.lines:
        for state, looks in use.states.items():
            place = WAITS[state].name, use.line.function
            seconds[place] = seconds.get(place, 0.0) + time * looks / code.threads
    return seconds


def _name_function(
    part: DeployPart, before: Mapping[tuple[str, str], float], after: Mapping[tuple[str, str], float]
) -> DeployPart:
    """The part with the function in which most of its growth is; one that makes less than half of it is not named."""
    growths = {
        function: after.get((name, function), 0.0) - before.get((name, function), 0.0)
        for name, function in {**before, **after}
        if name == part.name and function
    }
    function = max(growths, key=lambda each: growths[each] * copysign(1.0, part.growth), default="")
    if not before or not after or not function or growths[function] / (part.growth or 1.0) < _MOST_OF_PART:
        return part
    return replace(part, function=function, function_growth=growths[function])


_CONTENDED: tuple[State, ...] = ("cpu_wait", "interpreter_lock")
_FULLEST = 0.95


def expect_time(before: Window, after: Window) -> float:
    """The factor by which the load alone changes the time of a request; 1 if it is not known what requests wait for.
    Those that compute wait for each other in proportion to u / (1 - u), where u is the share of the CPUs, or of their
    interpreter, that is in use (the M/M/1 queue with processor sharing: Kleinrock 1976)."""
    then, now, cpu = compute_flow(before), compute_flow(after), before.cpu
    waits = compute_waits(before, then)
    if waits is None or not waits.total or not then.throughput or not now.throughput:
        return 1.0
    served = [worker for worker in before.workers if worker.requests and worker.cpu_seconds is not None]
    computed = sum((worker.cpu_seconds or 0.0) * worker.requests for worker in served)
    uses = [None, ratio(computed, before.seconds * sum(worker.requests for worker in served))]
    if cpu:
        taken = cpu.own_seconds + (cpu.others_seconds or 0.0)
        uses[0] = ratio(taken, taken + cpu.idle_seconds)
    load, factor = now.throughput / then.throughput, 1.0
    for state, use in zip(_CONTENDED, uses, strict=True):
        if use:
            used, later = min(use, _FULLEST), min(use * load, _FULLEST)
            factor += waits.share(state) * (later / (1 - later) * (1 - used) / used - 1)
    return max(0.1, factor)


_NAMED, _MOST_NAMED = 0.1, 3
"""The least share of a change that a part makes which is named, and how many are."""

_NOTED = 0.01
"""The least part of a request's time by which the load alone is said to change it."""

_NOTED_ROOM = 0.1
"""The least change of the headroom that is named. Longer requests may also wait longer, so it need not shrink."""

_BOUNDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)

SINCE = "Since {since}[ago?  ({ago} ago)] "
UNKNOWN = "nothing can be said: {reason}."
SAME = "there is no change above {bound:percent} in the time or CPU time of a request."
EARLY = "it is too early: {early}."
NONE = (
    "[seconds? no request was completed since then]"
    "[not seconds? the first minute and the first 100 requests are not compared]"
)
NOT_KNOWN = (
    "[ever? so far, {done:request} differ too much from each other]"
    "[not ever? the requests before it differ too much from each other to compare {done:request}]"
)
OF_ABOUT = "{done} of about {needed} requests"
ROOM = "[changed?  Headroom {changed}.]"
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

_PLAIN: Mapping[Subject, str] = {"memory": MEMORY, "errors": ERRORS}
_WORDS: Mapping[tuple[Outcome, Subject], str] = {
    ("worse", "time"): "longer",
    ("worse", "cpu"): "more CPU time",
    ("better", "time"): "less",
    ("better", "cpu"): "less CPU time",
}


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
    sign = {"worse": -1, "better": 1}[judgement.status]
    changed = [
        f"{factor(then)} → {factor(now)} {name}"
        for name, then, now in rooms
        if then and now and sign * (now / then - 1) >= _NOTED_ROOM
    ]
    return fill(ROOM, {"changed": ", ".join(changed)})


def _too_early(judgement: Judgement) -> str:
    done, needed = judgement.requests[1], judgement.needed
    if not done:
        return fill(NONE, {"seconds": judgement.seconds[1] > 0})
    if needed is None or done >= needed:
        return fill(NOT_KNOWN, {"done": done, "ever": needed is not None})
    unit = int(10.0 ** max(0, len(str(needed)) - 2))  # to two digits
    return fill(OF_ABOUT, {"done": done, "needed": ceil(needed / unit) * unit})


def _describe_change(change: DeployChange, judgement: Judgement, parts: Sequence[DeployPart]) -> str:
    facts: Facts = {"before": change.before, "after": change.after, "growth": 60 * change.after}
    if change.subject in _PLAIN:
        return fill(_PLAIN[change.subject], facts)
    low, high = sorted((abs(change.low), abs(change.high)))
    explain = {"time": _explain_time, "cpu": _name_cpu}[change.subject]
    facts |= {"size": abs(change.after / change.before - 1), "word": _WORDS[change.state, change.subject]}
    facts |= {"low": percent(low).removesuffix(" %"), "high": high, "why": explain(change, judgement, parts)}
    return fill(SPENT, facts)


def _explain_time(change: DeployChange, judgement: Judgement, parts: Sequence[DeployPart]) -> str:
    grown = change.after - change.before
    named = [part for part in parts if part.growth * grown > 0 and abs(part.growth) >= _NAMED * abs(grown)]
    reasons = [", ".join(fill(PART, _describe(part)) for part in named[:_MOST_NAMED])]
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
