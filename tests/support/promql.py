"""PromQL's own computations, in Python."""

from bisect import bisect_left
from collections.abc import Sequence


def histogram_quantile(share: float, bounds: Sequence[float], counts: Sequence[float], total: float) -> float:
    """PromQL's `histogram_quantile`: the requests of a bucket are spread evenly over it. counts: up to each of the
    finite bounds, ascending; total: of all requests. Of those above the last bound, nothing but the bound is known."""
    rank = share * total
    place = bisect_left(counts, rank)
    if place == len(counts):
        return bounds[-1]
    low, below = (bounds[place - 1], counts[place - 1]) if place else (0.0, 0.0)
    return low + (bounds[place] - low) * (rank - below) / (counts[place] - below)
