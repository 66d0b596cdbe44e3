"""Groups of requests of which samples saw the same, and how likely each response time makes that.

Samples are taken at times that do not depend on the requests. A request of length d that was first seen within a gap of
a seconds between two samples, and last seen b seconds before a sample that did not see it, began in a part of the first
gap whose length is a trapezoid in d; its two gaps are taken as equal here, which makes it a triangle. A request between
two samples that are a gap apart began in the first gap - d seconds of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.sightings import UNSEEN, Kind


class Group(NamedTuple):
    """The bins that a kind allows: the first of them; for each the likelihood, and the mean response time there."""

    first: int
    likelihoods: Sequence[float]
    means: Sequence[float]


def make_group(kind: Kind, bins: Bins) -> Group:
    """The group of this kind."""
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
