"""Estimates the distribution of response times from what samples show of each request.

The nonparametric maximum-likelihood estimate for interval-censored data (B. W. Turnbull, Journal of the Royal
Statistical Society B 38 (3), 1976), by expectation and maximization: each request is divided among the bins in
proportion to the present estimate times the likelihood of what samples saw of it; the sums are the next estimate.

Within the shortest gap between two samples these likelihoods are linear in the response time: there the samples
determine only the mean. Response times that are known exactly give the shape, and uWSGI's running time gives the mean:
the estimate is tilted towards it. So is the division of a batch wherever its mean is not that of uWSGI: it then has no
percentile that the mean makes impossible. Of requests that ended while the master did not answer, the running time is
all that is known.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise, repeat
from operator import mul
from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.sightings import UNSEEN, Sighting, Sightings

MEMORY_SECONDS = 120.0
"""After this time, a request counts less in the estimate by a factor of e."""

_RENEWED = 0.02
"""The part of the estimate that each batch spreads anew, so that a response time that did not occur for a while can."""

_SMOOTHED = 0.15
"""The part of each bin that each batch moves to its neighbours. Maximum likelihood makes peaks of what is smooth
(B. W. Silverman et al., Journal of the Royal Statistical Society B 52 (2), 1990)."""

_MOST_VISITS = 4_000
"""Bins of groups that the iterations of one batch visit, about: 3 ms."""

_GROUP_VISITS = 8
"""The cost of a group beside that of its bins, in visits."""

_ITERATIONS = 2, 12
"""The fewest and the most of a batch."""

_MOST_GROUPS = 150
_COARSEST = 4.0
"""With more groups than that, lengths are rounded to twice as much, up to this factor."""

_FORGOTTEN = 0.02
"""A group of fewer requests is dropped."""

_TOLERATED = 0.05
"""By how much the mean of a batch's division may differ from that of its running time, as half a bin does."""

_STEPS = 30
"""The most steps of the search for a slope; three or four are usual."""

_ANOTHER = 0.1
"""The part of requests of another kind that is taken to be spread evenly, before they are fitted to their time."""


class Division(Struct):
    """The requests of a batch by bin: expected numbers, and the variance of the number of requests in the bin and all
    below it, given the estimate."""

    counts: Sequence[float]
    doubt: Sequence[float]


class _Memory(Struct):
    """Requests of the last minutes, the earlier ones with less weight. exact: by bin, those whose response time is
    known exactly; exact_seconds: the sum of their response times; seconds: that of all."""

    groups: dict[Sighting, tuple[float, Group]]
    exact: list[float]
    exact_seconds: float = 0.0
    seconds: float = 0.0


class Estimator:
    """The estimate of one server's distribution. shares: of the requests in each bin; empty at first."""

    def __init__(self, bins: Bins) -> None:
        self.bins = bins
        self.shares: list[float] = []
        self._memory = _Memory({}, [0.0] * len(bins))
        self._coarseness = 1.0

    def add(
        self, sightings: Sightings, requests: int, seconds: float | None, elapsed: float, interval: float
    ) -> Division:
        """Add a batch to the estimate, then divide its requests among the bins.

        requests: how many were completed; those without a sighting, because of a gap, are divided like all others.
        seconds: the sum of their response times, None if unknown. elapsed: since the last batch. interval: the mean
        time between two samples.
        """
        kinds = self._round(sightings.kinds)
        exact = [0.0] * len(self.bins)
        for response_time in sightings.exact:
            exact[self.bins.find(response_time)] += 1
        exact_seconds = sum(sightings.exact)
        running = seconds
        if seconds is None or requests != len(sightings.exact) + sum(kinds.values()):
            seconds = exact_seconds + sum([kind.sampled_seconds * number for kind, number in kinds.items()])
        memory, kept = self._memory, math.exp(-elapsed / MEMORY_SECONDS)
        weights = {kind: weight * kept for kind, (weight, _) in memory.groups.items() if weight > _FORGOTTEN}
        for kind, number in kinds.items():
            weights[kind] = weights.get(kind, 0.0) + number
        self._regroup(weights)
        memory.exact = [old * kept + new for old, new in zip(memory.exact, exact, strict=True)]
        memory.exact_seconds = memory.exact_seconds * kept + exact_seconds
        memory.seconds = memory.seconds * kept + seconds
        self._estimate(interval)
        return self._divide(kinds, exact, requests, None if running is None else running - exact_seconds)

    def _round(self, kinds: Mapping[Sighting, float]) -> dict[Sighting, float]:
        """Round new kinds as those in memory: as finely as possible with few, more coarsely with too many."""
        weights = {kind: weight for kind, (weight, _) in self._memory.groups.items()}
        if len(weights) < _MOST_GROUPS // 8:
            self._coarseness = 1.0
        rounded = _round_kinds(kinds, self._coarseness)
        while len(weights.keys() | rounded.keys()) > _MOST_GROUPS and self._coarseness < _COARSEST:
            self._coarseness *= 2
            weights, rounded = _round_kinds(weights, self._coarseness), _round_kinds(rounded, self._coarseness)
            self._regroup(weights)
        return rounded

    def _regroup(self, weights: Mapping[Sighting, float]) -> None:
        """Remember the groups of these kinds, with these numbers of requests."""
        groups = self._memory.groups
        self._memory.groups = {
            kind: (weight, groups[kind][1] if kind in groups else make_group(kind, self.bins))
            for kind, weight in weights.items()
        }

    def _estimate(self, interval: float) -> None:
        memory = self._memory
        requests = sum(memory.exact) + sum([weight for weight, _ in memory.groups.values()])
        seconds = memory.seconds
        if not requests:
            return
        flat = _exponential(self.bins, max(self.bins.edges[0], seconds / requests))
        self.shares = _mix(_smooth(self.shares) if self.shares else flat, flat, _RENEWED)
        groups = list(memory.groups.values())
        fewest, most = _ITERATIONS
        visits = sum([_GROUP_VISITS + len(group.means) for _, group in groups])
        for _ in range(max(fewest, min(most, _MOST_VISITS // (visits + 1)))):
            counts, mean_seconds, variance = self._expect(groups, interval)
            self.shares = [count / requests for count in counts]
            if variance > 0:
                self._tilt((seconds - memory.exact_seconds - mean_seconds) / variance, interval)

    def _expect(self, groups: Sequence[tuple[float, Group]], interval: float) -> tuple[list[float], float, float]:
        """The expected number of requests in each bin; and of those that are not exact, the expected sum of the
        response times and its variance, to which long response times add little."""
        counts = list(self._memory.exact)
        seconds = variance = 0.0
        for weight, group in groups:
            first, likelihoods, means = group
            end = first + len(likelihoods)
            parts, total = self._weigh(group)
            factor = weight / total
            counts[first:end] = [count + factor * part for count, part in zip(counts[first:end], parts, strict=True)]
            if means[0] > 2 * interval:
                seconds += weight * means[len(means) // 2]
                continue
            moments = list(map(mul, parts, means))
            mean = sum(moments) / total
            seconds += weight * mean
            variance += weight * (sum(map(mul, moments, means)) / total - mean * mean)
        return counts, seconds, variance

    def _weigh(self, group: Group) -> tuple[list[float], float]:
        """In what proportions requests of this group are in each of its bins, and the sum of these."""
        first, likelihoods, _ = group
        parts = list(map(mul, likelihoods, self.shares[first : first + len(likelihoods)]))
        total = sum(parts)
        if total <= 0:  # the estimate has none of its bins
            return list(likelihoods), sum(likelihoods)
        return parts, total

    def _tilt(self, slope: float, interval: float) -> None:
        """Shift the estimate of short response times to longer ones, or to shorter ones if the slope is negative."""
        slope = max(-1.0, min(1.0, slope * interval)) / interval
        longest, middles = 2 * interval, self.bins.middles
        factors = [math.exp(slope * middle) for middle in middles[: bisect_left(middles, longest)]]
        factors += repeat(math.exp(slope * longest), len(middles) - len(factors))
        self.shares = list(map(mul, self.shares, factors))

    def _divide(
        self, kinds: dict[Sighting, float], exact: Sequence[float], requests: int, seconds: float | None
    ) -> Division:
        """Divide the requests of a batch. exact: those whose response time is known, by bin; seconds: the sum of the
        response times of the others, None if unknown."""
        divided = []
        for kind, number in kinds.items():
            _, group = self._memory.groups[kind]
            parts, total = self._weigh(group)
            divided.append(_Divided(number, group.first, [part / total for part in parts], group.means))
        missing = requests - sum(exact) - sum(kinds.values())
        if missing > 0.5:
            divided.append(self._divide_missing(missing, divided, seconds))
        if seconds is not None:
            _fit(divided, seconds)
        counts, doubt = list(exact), [0.0] * len(exact)
        for each in divided:
            add_parts(counts, doubt, each.first, each.parts, each.number)
        if missing < -0.5:
            counts = [count * requests / (requests - missing) for count in counts]
        return Division(counts, doubt)

    def _divide_missing(self, missing: float, others: Sequence[_Divided], seconds: float | None) -> _Divided:
        """Divide requests of which samples show nothing: like the others, if that gives them the time that is left for
        them. If not, they were of another kind, of which only this time is known."""
        shares = self.shares or _exponential(self.bins, 1.0)
        whole = sum(shares)
        divided = _Divided(missing, 0, [share / whole for share in shares], self.bins.middles)
        if seconds is not None:
            left = max(self.bins.edges[0], (seconds - sum([other.seconds for other in others])) / missing)
            if abs(divided.seconds / missing - left) > _TOLERATED * left:
                divided.parts = _mix(divided.parts, _exponential(self.bins, left, 0.0), _ANOTHER)
        return divided


class _Divided(Struct):
    """A number of requests alike, divided among the bins from the first one on in these parts, whose sum is 1. means:
    the mean response time in each bin."""

    number: float
    first: int
    parts: Sequence[float]
    means: Sequence[float]

    @property
    def seconds(self) -> float:
        """The expected sum of their response times."""
        return self.number * math.fsum(map(mul, self.parts, self.means))

    def tilted(self, slope: float) -> _Divided:
        """The same with the parts of longer response times raised, or lowered if the slope (per second) is negative."""
        possible = [mean for mean, part in zip(self.means, self.parts, strict=True) if part > 0]
        top = max(possible) if slope > 0 else min(possible)
        # Where a part is 0, the exponent may be positive.
        parts = [
            part * math.exp(slope * (mean - top)) if part > 0 else 0.0
            for mean, part in zip(self.means, self.parts, strict=True)
        ]
        total = sum(parts)
        return _Divided(self.number, self.first, [part / total for part in parts], self.means)


def _fit(divided: list[_Divided], seconds: float) -> None:
    """Tilt all parts alike, so that they give the sum of the response times, as nearly as their bins permit: the
    distribution that is nearest to the estimate among those with this sum."""
    expected = sum([each.seconds for each in divided])
    if abs(expected - seconds) <= _TOLERATED * seconds or not divided:
        return
    possible = [
        (each.number, [mean for mean, part in zip(each.means, each.parts, strict=True) if part > 0]) for each in divided
    ]
    least, most = (sum([number * end(means) for number, means in possible]) for end in (min, max))
    seconds = max(least, min(most, seconds))
    step = 1.0 / max(1e-9, seconds / sum([each.number for each in divided]))
    slope, below, above = 0.0, -math.inf, math.inf
    fitted = divided
    for _ in range(_STEPS):
        if abs(expected - seconds) <= _TOLERATED / 2 * seconds:
            break
        if expected < seconds:
            below, slope = slope, slope + step if above == math.inf else (slope + above) / 2
        else:
            above, slope = slope, slope - step if below == -math.inf else (slope + below) / 2
        step *= 2
        fitted = [each.tilted(slope) for each in divided]
        expected = sum([each.seconds for each in fitted])
    divided[:] = fitted


class Group(NamedTuple):
    """Requests of one kind, of which samples saw the same: the first bin that it allows; for each bin the likelihood of
    what they saw, and the mean response time there."""

    first: int
    likelihoods: Sequence[float]
    means: Sequence[float]


def make_group(kind: Sighting, bins: Bins) -> Group:
    """The group of this kind.

    Samples are taken at times that do not depend on the requests. A request of length d that was first seen within a
    gap of a seconds between two samples, and last seen b seconds before a sample that did not see it, began in a part
    of the first gap whose length is a trapezoid in d; its two gaps are taken as equal here, which makes it a triangle.
    A request between two samples that are a gap apart began in the first gap - d seconds of it.
    """
    between, gap = kind
    shortest, longest = (0.0, gap) if between == UNSEEN else (between, between + 2 * gap)
    first, last = bins.find(shortest), bins.find(longest)
    edges = [shortest, *bins.edges[first:last], longest]
    if between == UNSEEN:
        areas = [edge * (gap - edge / 2) for edge in edges]
    else:  # a triangle that rises until its peak and falls again, integrated up to each edge
        peak = between + gap
        areas = [(edge - shortest) ** 2 / 2 if edge < peak else gap * gap - (longest - edge) ** 2 / 2 for edge in edges]
    widths = bins.widths[first : last + 1]
    return Group(
        first,
        [max(0.0, high - low) / width for (low, high), width in zip(pairwise(areas), widths, strict=True)],
        [(low + high) / 2 for low, high in pairwise(edges)],
    )


def _round_kinds(kinds: Mapping[Sighting, float], coarseness: float) -> dict[Sighting, float]:
    rounded: dict[Sighting, float] = {}
    for kind, number in kinds.items():
        coarse = kind.rounded(coarseness)
        rounded[coarse] = rounded.get(coarse, 0.0) + number
    return rounded


def add_parts(counts: list[float], doubt: list[float], first: int, parts: Sequence[float], number: float) -> None:
    """Divide a number of requests in these proportions, from a bin on."""
    below = 0.0
    for place, part in enumerate(parts, first):
        below += part
        counts[place] += number * part
        doubt[place] += number * below * max(0.0, 1 - below)


def _mix(old: Sequence[float], new: Sequence[float], part: float) -> list[float]:
    return [(1 - part) * before + part * after for before, after in zip(old, new, strict=True)]


def _smooth(shares: Sequence[float]) -> list[float]:
    neighbours = zip(shares, [shares[0], *shares[:-1]], [*shares[1:], shares[-1]], strict=True)
    return [(1 - _SMOOTHED) * own + _SMOOTHED / 2 * (below + above) for own, below, above in neighbours]


def _exponential(bins: Bins, mean: float, rest: float = 0.02) -> list[float]:
    """An exponential distribution of this mean in seconds; rest: the part that is spread over all bins."""
    below = [1 - math.exp(-edge / mean) for edge in bins.edges]
    shares = [high - low for low, high in zip([0.0, *below], [*below, 1.0], strict=True)]
    return [(1 - rest) * share + rest / len(shares) for share in shares]
