"""How much requests differ: the factors by which a single request is longer or shorter than the mean.

The shape is that of the observed response times. Queueing made these wider or narrower than what requests ask for, so
`scale_factors` stretches the shape until the model's 95th percentile agrees with the observed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import fsum, log

from uwsgi_headroom.analysis.what_if.measured import Observed

COUNT = 400
"""Factors in a deck: each request of a run takes one, and then none twice until all were taken."""

LEAST = 0.02
"""The smallest factor: a stretched shape must not make a request take no time."""

_FEWEST_KNOTS = 2


def exponential_factors(count: int = COUNT) -> tuple[float, ...]:
    """Factors of an exponential distribution: what queueing theory assumes where nothing is known."""
    return normalize([-log(1 - part) for part in _parts(count)])


def observed_factors(observed: Observed) -> tuple[float, ...]:
    """Factors with the shape of the observed percentiles, with straight lines between them and an exponential tail
    above the last. Without a median and a further percentile, the shape is exponential."""
    known = [(0.5, observed.p50), (0.9, observed.p90), (0.95, observed.p95), (0.99, observed.p99)]
    knots = [(share, seconds) for share, seconds in known if seconds is not None]
    if observed.p50 is None or observed.p50 <= 0 or len(knots) < _FEWEST_KNOTS:
        return exponential_factors()
    # The lower half lies as far below the median as the next known percentile lies above it, in proportion.
    (_, median), (next_share, following) = knots[:2]
    slope = (following - median) / (next_share - 0.5)
    knots.insert(0, (0.0, max(0.1 * median, median - 0.5 * slope)))
    return normalize([_quantile(knots, part) for part in _parts()])


def scale_factors(factors: Sequence[float], scale: float) -> tuple[float, ...]:
    """The same shape, stretched around its mean: 0 makes all requests alike, 1 leaves the shape."""
    return normalize([max(LEAST, 1 + scale * (factor - 1)) for factor in factors])


def normalize(values: Sequence[float]) -> tuple[float, ...]:
    """The values divided by their mean; all 1 if that is not positive."""
    mean = fsum(values) / len(values)
    return tuple(value / mean for value in values) if mean > 0 else tuple(1.0 for _ in values)


def _parts(count: int = COUNT) -> list[float]:
    return [(number + 0.5) / count for number in range(count)]


def _quantile(knots: Sequence[tuple[float, float]], share: float) -> float:
    for (start, low), (end, high) in pairwise(knots):
        if share <= end:
            return low + (high - low) * (share - start) / (end - start)
    (start, low), (end, high) = knots[-2:]
    # An exponential tail falls by a factor of 5 from the 95th percentile to the 99th.
    tail = (high - low) / log((1 - start) / (1 - end))
    return high + tail * log((1 - end) / (1 - share))
