"""Estimates how much an amount per request differs between two sides, and from which distance on that counts.

The spread comes from batches of a second and more. The amount per request is the ratio of two sums over the batches,
and its variance is that of the residuals (Cochran 1977, chapter 6). Batches are joined, two by two, until these are no
longer correlated (Fishman and Yarberry 1997); what is left of the correlation is added to the variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum, log, log1p, sqrt
from operator import mul

from msgspec import Struct

from uwsgi_headroom.analysis.littles_law import ratio


def find_boundary(information: float, tuned: float, error: float) -> float:
    """The number of standard errors that a difference stays below at all times with a probability of 1 - `error` if
    there is none. information: how much is known, in any unit; tuned: about 12 times that of the narrowest boundary. A
    deploy is looked at every few seconds: the mixture sequential probability ratio test errs once in so many deploys,
    whenever one stops (Robbins 1970; Johari et al. 2017; the one-sided form: Howard et al. 2021)."""
    if information <= 0:
        return float("inf")
    return sqrt((1 + tuned / information) * (log1p(information / tuned) - 2 * log(2 * error)))


def from_normal(z: float, freedom: float) -> float:
    """Student's t with so many degrees of freedom that is as improbable as `z` standard deviations (Wallace 1959)."""
    size = abs(z) * (8 * freedom + 3) / (8 * freedom + 1)
    if size * size / freedom > 500:
        return float("inf")
    t = sqrt(freedom * (exp(size * size / freedom) - 1))
    return t if z >= 0 else -t


Pair = tuple[float, float]
"""The amount in a batch, and its weight: its requests, or its seconds."""

FEWEST_BATCHES = 6
"""The fewest batches on a side, after neighbours were joined until they were not correlated."""

_CORRELATED, _STILL_CORRELATED = 1.0, 0.5
"""The correlation of neighbours from which on they are joined, in standard errors of none (1 / square root of the
batches): at first, and where they have been joined before. Where some was found, more is likely."""


class _Residuals:
    """The residuals of a side. squares: their sum of squares; correlation: of neighbours."""

    def __init__(self, residuals: Sequence[float]) -> None:
        self.count = len(residuals)
        self.squares = fsum([residual * residual for residual in residuals])
        self.correlation = ratio(fsum(map(mul, residuals, residuals[1:])), self.squares) or 0.0


class Amounts:
    """The batches of one side that have any weight. relative: whether their spread grows with the amount per weight."""

    def __init__(self, pairs: Sequence[Pair], *, relative: bool) -> None:
        pairs = [pair for pair in pairs if pair[1] > 0]
        self.relative = relative
        self.count = len(pairs)
        self.weight = fsum([weight for _, weight in pairs])
        self.ratio = ratio(fsum([amount for amount, _ in pairs]), self.weight) or 0.0
        unit = (relative and self.ratio) or 1.0
        self.residuals = [(amount - self.ratio * weight) / unit for amount, weight in pairs]


class Difference(Struct, frozen=True):
    """How much an amount per weight differs: the logarithm of the ratio if relative, else the difference."""

    before: Amounts
    after: Amounts
    estimate: float
    variances: tuple[float, float]
    freedom: float
    joined: int

    @property
    def error(self) -> float:
        return sqrt(fsum(self.variances))

    @property
    def information(self) -> float:
        """How much is known of it, in the unit of the weights."""
        return 1 / (1 / self.before.weight + 1 / self.after.weight)


def compare(before: Amounts | None, after: Amounts | None) -> Difference | None:
    """Compares two sides. None if a side is not known, has fewer than FEWEST_BATCHES that do not depend on each other,
    or, if they are relative, no amount. The side with fewer batches counts as spread no less than both together."""
    if before is None or after is None or (before.relative and min(before.ratio, after.ratio) <= 0):
        return None
    sides = before, after
    residuals, joined, correlation = _join(sides)
    counts = [each.count for each in residuals]
    if min(counts) < FEWEST_BATCHES:
        return None
    pooled = fsum([each.squares for each in residuals]) / (before.weight + after.weight)
    pooled *= sum(counts) / (sum(counts) - 2)
    variances = []
    for side, own in zip(sides, residuals, strict=True):
        square = own.squares / side.weight * own.count / (own.count - 1)
        if own.count < max(counts):
            square = max(square, pooled)
        variances.append((1 + 2 * correlation) * square / side.weight)
    # The degrees of freedom of a sum of variances (Satterthwaite 1946, Welch 1947).
    below = fsum([variance**2 / (count - 1) for variance, count in zip(variances, counts, strict=True)])
    estimate = after.ratio - before.ratio
    if before.relative:
        estimate = log(after.ratio / before.ratio)
    freedom = ratio(fsum(variances) ** 2, below) or sum(counts) - 2.0
    return Difference(before, after, estimate, (variances[0], variances[1]), freedom, joined)


def _join(sides: Sequence[Amounts]) -> tuple[list[_Residuals], int, float]:
    """The residuals of joined batches, of how many each is, and the correlation of neighbours that is left."""
    rows, joined = [side.residuals for side in sides], 1
    while True:
        residuals = list(map(_Residuals, rows))
        count = sum(each.count for each in residuals if each.squares)
        # Each side by its own variance, lest the one that is spread more decides alone.
        correlation = fsum([each.count * each.correlation for each in residuals]) / max(1, count)
        if correlation * sqrt(count) <= (_CORRELATED if joined == 1 else _STILL_CORRELATED):
            return residuals, joined, max(0.0, correlation)
        rows = [[one + other for one, other in zip(row[::2], row[1::2], strict=False)] for row in rows]
        joined *= 2
