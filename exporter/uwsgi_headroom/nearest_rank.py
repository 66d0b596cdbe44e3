"""Percentiles by nearest rank: of values that were all measured, so that each percentile is one of them.

It stands alone because the analysis, the report, `tune` and the benchmarks share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of these ascending values that at least this share of them does not exceed."""
    return ordered[rank(len(ordered), share)]


def rank(count: int, share: float) -> int:
    """The place of that value among `count` ascending ones, from 0."""
    return max(0, ceil(round(share * count, 6)) - 1)  # rounded: 0.07 * 100 is above 7
