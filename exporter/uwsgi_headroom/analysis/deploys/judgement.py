"""Judges a deploy: each quantity beside what it was before, and whether it is known by now.

Time and CPU time per request, errors per request, and how fast the memory of a worker grows. Their permitted errors add
up to one false "worse" in 200 deploys (Bonferroni), for all looks at a deploy together (`spread`). What is usual, the
time of a request at the same hour of the days before, judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import expm1, fsum, inf, log, sqrt
from statistics import fmean, stdev
from typing import Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.deploys.spread import FEWEST_BATCHES, Amounts, Pair, compare, find_boundary, from_normal
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.words.template import Facts, fill


class Batch(NamedTuple):
    """The sums of some seconds of a server. None: not known."""

    seconds: float
    requests: float
    """Completed ones, without static files."""
    time: float | None
    """Seconds in service, of these requests."""
    cpu: float | None
    """CPU seconds of the workers."""
    errors: float
    """Exceptions, responses that could not be written, and requests that were lost."""
    grown: float | None
    """How many bytes the mean worker grew that was not replaced."""


Subject = Literal["time", "cpu", "errors", "memory"]
SUBJECTS: tuple[Subject, ...] = get_args(Subject)

_SPENT: tuple[Subject, ...] = ("time", "cpu")
"""What a request spends: changes of these are in parts of what it spent before."""

ERRORS: Mapping[Subject, float] = {"time": 0.0018, "cpu": 0.0018, "errors": 0.0007, "memory": 0.0007}
"""The probability of a false "worse", for each quantity over all looks. Together 0.005."""

_TUNED_REQUESTS, _TUNED_SECONDS = 75.0, 60.0
"""Where the boundary is tuned to: it is narrowest from some 10 to 50 times as much on, 1,000 to 4,000 requests."""

SMALLEST: Mapping[Subject, float] = {"time": 0.05, "cpu": 0.05, "errors": 0.001, "memory": 0.0}
"""Smaller changes are none, however certain: in parts of the amount before, and errors in parts of the requests."""

_MORE_ERRORS = 1.2
"""The least factor by which errors grow."""

LEAST_BEFORE, LEAST_AFTER, FEWEST_REQUESTS = 600.0, 120.0, 100
"""Seconds and requests from which on sides are compared. Loads drift over some ten seconds: a shorter time may lie
wholly in one such drift."""

MEMORY_SECONDS = 20.0
"""The least length of a batch in which memory grows: pages that come and go cancel out."""

_KNOWN = 0.9
"""The least share of a side's time in which a quantity has to be known."""

_FINE_SECONDS = 5.0
"""Batches of one second and more are compared as they are; if half of the time is in batches longer than this, as those
of a history file are, all are joined to that length: sides whose batches differ in length differ in their spread."""

_FILLS_SECONDS = 120.0
"""The memory of a new process is taken to fill up with the logarithm of its age plus a minute, from a minute on: half
of what it will take in ten minutes is there after two."""

_LEAST_GROWTH = 1e6 / 60
"""Bytes a second of a mean worker from which on memory grows: 1 MB a minute."""

LIKE_LOAD = 2.0
"""The greatest factor between the loads of both sides up to which times are compared."""

ENOUGH = 0.2
"""The smallest change that has to be excluded before a deploy counts as without one."""

Outcome = Literal["worse", "better", "unclear"]

Status = Literal["worse", "better", "same", "early", "unknown"]
"""same: changes above `Judgement.bound` are excluded. early: more requests are needed. unknown: see `reason`."""


class DeployChange(Struct, frozen=True):
    """One quantity before and after: seconds per request (time, cpu), errors per request, or bytes a second of a mean
    worker (memory). low, high: the bounds of the change, for time and cpu as a fraction of `before`, else in the same
    unit. state: whether it is certain."""

    subject: Subject
    before: float
    after: float
    low: float
    high: float
    state: Outcome


class Judgement(Struct, frozen=True):
    """What a deploy changed. requests, seconds: before and after. expected: the factor of time by the load alone."""

    status: Status
    changes: tuple[DeployChange, ...] = ()
    requests: tuple[int, int] = (0, 0)
    seconds: tuple[float, float] = (0.0, 0.0)
    expected: float = 1.0
    bound: float | None = None
    """The largest change for the worse of time or CPU time that is not excluded, in parts; None if none is."""
    needed: int | None = None
    """About how many requests after the deploy exclude a change of ENOUGH; None if no number does."""
    reason: str = ""

    def of(self, subject: Subject) -> DeployChange | None:
        """The change of a quantity; None if it is not known."""
        return next((change for change in self.changes if change.subject == subject), None)

    @property
    def worse(self) -> tuple[DeployChange, ...]:
        return tuple(change for change in self.changes if change.state == "worse")


_PAIRS: Mapping[Subject, Callable[[Batch], tuple[float | None, float]]] = {
    "time": lambda batch: (batch.time, batch.requests),
    "cpu": lambda batch: (batch.cpu, batch.requests),
    "errors": lambda batch: (batch.errors, batch.requests),
    "memory": lambda batch: (batch.grown, batch.seconds),
}
"""The amount in a batch, None if it is not known, and its weight."""


class Sides:
    """The batches of one side, by quantity. least: the length in seconds to which batches are joined."""

    def __init__(self, batches: Sequence[Batch], least: float = 0.0) -> None:
        self.batches = batches
        self.least = least
        self.seconds = sum([batch.seconds for batch in batches])
        self.requests = sum([batch.requests for batch in batches])
        self._sides: dict[Subject, Amounts | None] = {}

    @property
    def load(self) -> float:
        """Requests a second."""
        return ratio(self.requests, self.seconds) or 0.0

    def of(self, subject: Subject) -> Amounts | None:
        """The amounts of a quantity; None if that is not known for nearly all of the time."""
        if subject not in self._sides:
            pairs = [(batch.seconds, *_PAIRS[subject](batch)) for batch in self.batches]
            known = [(seconds, (amount, weight)) for seconds, amount, weight in pairs if amount is not None]
            # Just replaced workers have no growth, nor has an exporter's first minute other quantities.
            is_known = sum([seconds for seconds, _ in known]) >= _KNOWN * self.seconds or subject == "memory"
            joined = _join_to(max(self.least, MEMORY_SECONDS * (subject == "memory")), known)
            self._sides[subject] = Amounts(joined, relative=subject in _SPENT) if joined and is_known else None
        return self._sides[subject]

    @property
    def step(self) -> float:
        """The length in seconds of the batches, or of longer ones, in which half of the time is."""
        passed = 0.0
        for seconds in sorted([batch.seconds for batch in self.batches], reverse=True):
            passed += seconds
            if 2 * passed >= self.seconds:
                return seconds
        return 0.0


def _join_to(least: float, pairs: Sequence[tuple[float, Pair]]) -> list[Pair]:
    """Neighbouring pairs, each with its seconds, joined to such a length; a shorter rest is left out."""
    joined: list[Pair] = []
    length = amount = weight = 0.0
    for seconds, (more, heavier) in pairs:
        length, amount, weight = length + seconds, amount + more, weight + heavier
        if length >= least:
            joined.append((amount, weight))
            length = amount = weight = 0.0
    return joined


def judge(before: Sides, after: Sides, expected: float = 1.0, *, overloaded: bool = False) -> Judgement:
    """Judge what is after a deploy by what was before. expected: see `expect_time`. overloaded: before."""
    step = max(before.step, after.step)
    if step > _FINE_SECONDS:  # both sides get batches of one length; a minute of a history file may be a second short
        before, after = Sides(before.batches, 0.8 * step), Sides(after.batches, 0.8 * step)
    requests, seconds = (round(before.requests), round(after.requests)), (before.seconds, after.seconds)
    judgement = Judgement("early", requests=requests, seconds=seconds, expected=expected)
    if before.seconds < LEAST_BEFORE or before.requests < FEWEST_REQUESTS:
        minutes: Facts = {"minutes": f"{before.seconds / 60:.0f}", "of": f"{LEAST_BEFORE / 60:.0f}"}
        is_short = before.seconds < LEAST_BEFORE
        known = minutes | {"short": is_short, "number": f"{before.requests:.0f}", "least": FEWEST_REQUESTS}
        return replace(judgement, status="unknown", reason=fill(TOO_LITTLE, known))
    changes = [change for subject in SUBJECTS if (change := _judge_subject(subject, before, after, expected))]
    for place, change in enumerate(changes):
        if overloaded and (change.subject, change.state) == ("time", "better"):  # the end of an overload brings it
            changes[place] = replace(change, state="unclear")
    judgement = replace(judgement, changes=tuple(changes))
    if judgement.worse:
        return replace(judgement, status="worse")
    spent = [subject for subject in _SPENT if before.of(subject)]
    bounds = [change.high for change in changes if change.subject in spent]
    bound = max(bounds, default=None) if len(bounds) == len(spent) else None
    needed = max([_find_needed(subject, before, after) for subject in spent], default=inf)
    judgement = replace(judgement, bound=bound, needed=None if needed == inf else round(needed))
    if not is_like_load(before, after) and after.requests >= FEWEST_REQUESTS and after.seconds >= LEAST_AFTER:
        factor = ratio(after.load, before.load) or inf
        facts: Facts = {"less": factor < 1 and f"{100 * factor:.0f} %", "times": f"{factor:.1f}"}
        return replace(judgement, status="unknown", reason=fill(UNLIKE, facts | {"most": f"{LIKE_LOAD:g}"}))
    if bound is not None and any(change.state == "better" for change in changes):
        return replace(judgement, status="better")
    if bound is not None and bound <= ENOUGH:
        return replace(judgement, status="same")
    return judgement


TOO_LITTLE = (
    "[short? only {minutes} of the {of} min before this time are known]"
    "[not short? there were only {number} requests before this time, and {least} are needed]"
)
UNLIKE = (
    "the load is [less? {less}][not less? {times} times] the load before, and times are compared up to a factor of "
    "{most}"
)


def is_like_load(before: Sides, after: Sides) -> bool:
    """Whether the loads of both sides are like enough to compare times."""
    return before.load <= LIKE_LOAD * after.load and after.load <= LIKE_LOAD * before.load


def _judge_subject(subject: Subject, before: Sides, after: Sides, expected: float) -> DeployChange | None:
    if subject == "memory":
        return _judge_memory(before, after)
    if after.seconds < LEAST_AFTER or after.requests < FEWEST_REQUESTS:
        return None
    difference = compare(before.of(subject), after.of(subject))
    if difference is None:
        return None
    one, other = difference.before, difference.after
    boundary = find_boundary(difference.information, _TUNED_REQUESTS, ERRORS[subject])
    margin = from_normal(boundary, difference.freedom) * difference.error  # of the estimate, at all looks together
    low, high = difference.estimate - margin, difference.estimate + margin
    write: Callable[[float], float] = expm1  # of a logarithm
    if subject == "errors":
        more, less, write = 0.0, 0.0, float
        least_worse, least_better = max(SMALLEST[subject], (_MORE_ERRORS - 1) * one.ratio), SMALLEST[subject]
    else:
        allowed = log(expected) * (subject == "time")
        more, less = max(0.0, allowed), min(0.0, allowed)
        least_worse = least_better = log(1 + SMALLEST[subject])
    state: Outcome = "unclear"
    if subject == "errors" or is_like_load(before, after):
        if low > more and difference.estimate - more >= least_worse:
            state = "worse"
        elif high < less and less - difference.estimate >= least_better:
            state = "better"
    return DeployChange(subject, one.ratio, other.ratio, write(low), write(high), state)


def _judge_memory(before: Sides, after: Sides) -> DeployChange | None:
    """The steady growth of a mean worker's memory, which besides fills up with the logarithm of its age."""
    middle = len(after.batches) // 2
    halves = after.batches[:middle], after.batches[middle:]
    first, later = (Sides(half, after.least).of("memory") for half in halves)
    difference = compare(before.of("memory"), later)
    if difference is None or first is None:
        return None
    was, now = difference.before.ratio, difference.after.ratio
    half_filled = _FILLS_SECONDS + after.seconds / 2
    part = log((_FILLS_SECONDS + after.seconds) / half_filled) / log(half_filled / _FILLS_SECONDS)
    steady = (now - part * first.ratio) / (1 - part)
    # The first half is about as uncertain as the second.
    error = sqrt(difference.variances[0] + difference.variances[1] * (1 + part**2) / (1 - part) ** 2)
    boundary = find_boundary(difference.information, _TUNED_SECONDS, ERRORS["memory"])
    margin = from_normal(boundary, difference.freedom) * error
    low, high = steady - was - margin, steady - was + margin
    is_worse = low > 0 and steady - was >= _LEAST_GROWTH
    return DeployChange("memory", was, steady, low, high, "worse" if is_worse else "unclear")


def _find_needed(subject: Subject, before: Sides, after: Sides) -> float:
    """About how many requests after a deploy exclude a change of ENOUGH; infinite if no number does."""
    one = before.of(subject)
    difference = compare(one, after.of(subject)) or compare(one, one)
    if difference is None or one is None:
        return inf
    unit = difference.variances[1] * difference.after.weight
    number = float(FEWEST_REQUESTS)
    while number < 1e6:
        boundary = find_boundary(1 / (1 / one.weight + 1 / number), _TUNED_REQUESTS, ERRORS[subject])
        if boundary * sqrt(difference.variances[0] + unit / number) <= log(1 + ENOUGH):
            seconds = max(LEAST_AFTER, FEWEST_BATCHES * difference.joined * before.seconds / max(1, one.count))
            return max(number, seconds * before.load)
        number *= 1.1
    return inf


DAYS = 14
"""Days whose same hour is usual: Prometheus keeps 15 unless it is set otherwise."""

_FEWEST_DAYS = 3

_USUAL = 1.96
"""Standard errors of a day's difference from the mean of the others that are usual, with any number of days. The
alert's are more: it looks at each hour of each day."""


class UsualTime(NamedTuple):
    """Seconds of a mean request at the same hour of other days, and of two of these. whole: whether all are known."""

    days: int
    mean: float
    low: float
    high: float
    whole: bool
    margin: float
    """How far a day without a change is from `mean`, nineteen times of twenty."""


def find_usual(days: Sequence[Sequence[Batch]]) -> UsualTime | None:
    """What is usual, from the batches of the same hour, yesterday's first; None with too few days."""
    means, last = [], 0
    for day, batches in enumerate(days, 1):
        pairs = [(batch.time, batch.requests) for batch in batches if batch.time is not None]
        requests = fsum([requests for _, requests in pairs])
        if requests >= FEWEST_REQUESTS:
            means.append(fsum([time for time, _ in pairs]) / requests)
            last = day
    if len(means) < _FEWEST_DAYS:
        return None
    number = len(means)
    margin = from_normal(_USUAL, number - 1) * sqrt(1 + 1 / number) * stdev(means)
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
