"""Fits how a cost grows: the exponent of a power law, over the upper half of a range."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

MOST_EXPONENT = 1.1
"""A cost grows no faster than linearly if its exponent is at most this. The rest above 1 is for noise: a cost that is
25 % too high at one end of a range of 16 adds 0.1."""


def fit_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the exponent of the power law through the upper half of the sizes, by least squares of logarithms. Below,
    the cost that does not grow hides the part that does. sizes: ascending."""
    first = find_upper_half(sizes)
    logs = [math.log(size) for size in sizes[first:]]
    slope, _ = statistics.linear_regression(logs, [math.log(max(cost, 1e-9)) for cost in costs[first:]])
    return slope


def find_upper_half(sizes: Sequence[float]) -> int:
    """Return the place of the first size of the upper half on a logarithmic scale; at least three sizes are in it."""
    middle = math.sqrt(sizes[0] * sizes[-1])
    return min(next(place for place, size in enumerate(sizes) if size >= middle), len(sizes) - 3)
