"""The bins of response times, and how likely a response time makes what samples saw."""

from __future__ import annotations

import math
import random

import pytest

from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS, END, LONGEST, SHORTEST, Bins
from uwsgi_headroom.response_times.estimator import make_group
from uwsgi_headroom.response_times.sightings import UNSEEN, Kind

BINS = Bins((0.8, 0.25, 59.999))


def test_bounds_are_edges() -> None:
    """The histogram's bounds and those that are given are edges; other edges keep a distance to them."""
    assert {*BUCKET_BOUNDS, 0.8, 59.999} <= set(BINS.edges)
    assert list(BINS.edges) == sorted(set(BINS.edges))
    assert (BINS.edges[0], BINS.edges[-1]) == (SHORTEST, LONGEST)
    ratios = sorted(high / low for low, high in zip(BINS.edges, BINS.edges[1:], strict=False))
    assert ratios[-1] < 1.15
    assert [ratio for ratio in ratios if ratio < 1.03] == [pytest.approx(60 / 59.999)]


def test_each_bin_has_a_width_and_a_middle() -> None:
    """There is a bin more than edges; the history's memory grows with their number."""
    assert len(BINS) == len(BINS.middles) == len(BINS.widths) == len(BINS.edges) + 1
    assert len(BINS) < 200


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.0020001, 0.25, 0.8, 1.0, 3.7, 60.0, 3600.0, 3600.1, 10_000.0, 1e12])
def test_a_time_is_in_its_bin(seconds: float) -> None:
    """An edge belongs to the bin below it, as `le` says."""
    low, high = BINS.edges_of(BINS.find(seconds))
    assert low < seconds <= high or seconds == low == 0


def test_the_first_and_the_last_bin() -> None:
    """They reach from 0 and without end."""
    assert BINS.edges_of(0) == (0.0, SHORTEST)
    assert BINS.edges_of(len(BINS) - 1) == (LONGEST, math.inf)
    assert BINS.middles[-1] == (LONGEST + END) / 2


@pytest.mark.parametrize("between", [UNSEEN, 0.0, 0.2, 1.0, 7.3])
@pytest.mark.parametrize("gap", [0.05, 0.2, 1.0, 4.0])
def test_likelihoods_are_those_of_a_simulation(between: float, gap: float) -> None:
    """They are proportional to how often requests of each bin, at random times, are seen so by samples at even gaps."""
    group = make_group(Kind(between, gap), BINS)
    chance, samples = random.Random(1), round(between / gap) + 1 if between != UNSEEN else 0
    for place, likelihood in enumerate(group.likelihoods):
        low, high = BINS.edges_of(group.first + place)
        hits = 0
        for _ in range(400):
            start, seconds = gap * chance.random(), chance.uniform(low, high)
            hits += math.floor((start + seconds) / gap) == samples
        if between == UNSEEN or math.isclose(between, (samples - 1) * gap):
            assert likelihood / gap == pytest.approx(hits / 400, abs=0.1)


@pytest.mark.parametrize("between", [UNSEEN, 0.0, 0.31, 1.0, 59.9, 3599.99, 3600.0, 10_000.0, 1.7e9])
@pytest.mark.parametrize("gap", [0.001, 0.2, 5.0])
def test_every_group_has_a_likely_bin(between: float, gap: float) -> None:
    """Some bin is possible, whatever the length; and means are within the group's interval."""
    group = make_group(Kind(between, gap), BINS)
    assert all(likelihood >= 0 for likelihood in group.likelihoods)
    assert sum(group.likelihoods) > 0
    assert len(group.likelihoods) == len(group.means)
    assert max(0.0, between) <= group.means[0] <= group.means[-1] <= max(0.0, between) + 2 * gap
