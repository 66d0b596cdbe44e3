"""The bins in which response times are counted: 24 to a factor of ten, with given bounds among their edges."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

SHORTEST, LONGEST = 0.002, 3600.0
"""Seconds: the upper edge of the first bin, and the lower edge of the last one, which has no upper edge."""

END = 1.2 * LONGEST
"""What stands for the upper edge of the last bin where one is needed."""

BINS_PER_DECADE = 24

BUCKET_BOUNDS = (
    *(0.01, 0.025, 0.05),
    *(0.1, 0.125, 0.16, 0.2, 0.25, 0.315),
    *(0.4, 0.45, 0.5, 0.56, 0.63, 0.71, 0.8, 0.9, 1.0, 1.12, 1.25, 1.4, 1.6, 1.8, 2.0, 2.24, 2.5, 2.8, 3.15, 3.55),
    *(4.0, 4.5, 5.0, 5.6, 6.3, 7.1, 8.0, 9.0),
    *(10.0, 12.5, 16.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
"""Upper bounds of the exported histogram, in seconds: preferred numbers (ISO 3), twenty to a factor of ten from two
default sampling intervals to 10 s, and ten around that. PromQL spreads the requests of a bucket evenly over it: where a
distribution ends just above a bound, as at a timeout of 1 s, it is wrong by up to the bucket's width, 12 % of the bound
with twenty and 25 % with ten. Dashboards and objectives name those of version 1.0, which a test lists."""

_TOO_NEAR = 1.03
"""A grid edge whose ratio to a given bound is below this is left out."""


class Bins:
    """Bins of response times. edges: their upper edges in seconds, ascending, but for the last bin, which has none;
    middles: the middle of each bin; widths: its width."""

    def __init__(self, bounds: Iterable[float] = ()) -> None:
        wanted = sorted({*BUCKET_BOUNDS, *bounds})
        steps = round(BINS_PER_DECADE * math.log10(LONGEST / SHORTEST))
        grid = [SHORTEST * (LONGEST / SHORTEST) ** (step / steps) for step in range(steps + 1)]
        free = [edge for edge in grid if all(max(edge / bound, bound / edge) >= _TOO_NEAR for bound in wanted)]
        self.edges = tuple(sorted([*free, *wanted]))
        pairs = list(pairwise((0.0, *self.edges, END)))
        self.middles = tuple((low + high) / 2 for low, high in pairs)
        self.widths = tuple(high - low for low, high in pairs)

    def __len__(self) -> int:
        return len(self.middles)

    def find(self, seconds: float) -> int:
        """The number of the bin that contains a response time; an edge belongs to the bin below it."""
        place = bisect_right(self.edges, seconds)
        return place - 1 if place and self.edges[place - 1] == seconds else place

    def edges_of(self, number: int) -> tuple[float, float]:
        """The edges of a bin in seconds; the last one's upper edge is infinite."""
        low = self.edges[number - 1] if number else 0.0
        return low, self.edges[number] if number < len(self.edges) else math.inf


@lru_cache(maxsize=64)
def share_bins(bounds: tuple[float, ...] = ()) -> Bins:
    """Return the bins with these bounds: one object for all servers, because each takes 15 kB."""
    return Bins(bounds)
