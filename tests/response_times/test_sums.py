"""Percentiles and the histogram beside the count and the sum of the response times, which are uWSGI's and exact: around
ends of workers, clients that send nothing, static files and slow logs."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.response_times.simulated_requests import Draw, Load, Outcome, simulate
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.response_times.bins import SHORTEST

_NEAR = 1.06
"""The sum of a division is within 5 % of uWSGI's, but for rounding."""


@st.composite
def draws(choose: st.DrawFn) -> Draw:
    """Response times of one kind, or of two."""
    mean, sigma = 10 ** choose(st.floats(-3, 0.7)), choose(st.sampled_from((0.0, 0.3, 1.0, 1.5)))
    rare, longer = choose(st.sampled_from((0.0, 0.02, 0.2))), 10 ** choose(st.floats(-1, 1.0))

    def draw(chance: random.Random) -> float:
        scale = longer if chance.random() < rare else mean
        return scale * chance.lognormvariate(-sigma * sigma / 2, sigma)

    return draw


loads = st.builds(
    Load,
    draws(),
    idle=st.sampled_from((0.02, 0.4, 5.0)),
    workers=st.sampled_from((1, 4)),
    threads=st.sampled_from((1, 8)),
    silent=st.sampled_from((0.0, 0.02, 0.3)),
    static=st.sampled_from((0.0, 0.02, 0.3)),
    held=st.sampled_from((0.3, 2.0, 20.0)),
    deaths=st.sampled_from((0.0, 0.02, 0.3)),
    respawn=st.sampled_from((0.1, 1.5, 3.0)),
    logged=st.sampled_from((0.0, 0.005, 0.5)),
)


@given(load=loads, seed=st.integers(0, 10), rate=st.sampled_from((1.0, 5.0, 20.0)))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_percentile_that_the_mean_makes_impossible(load: Load, seed: int, rate: float) -> None:
    """The requests that are no faster than a percentile took no longer than all of them; and what is estimated for all
    gives the sum that uWSGI counts."""
    outcome = simulate(load, seed, settle=5.0, seconds=30.0, rate=rate)
    _judge_percentiles(outcome)
    _judge_sums(outcome)


def _judge_percentiles(outcome: Outcome) -> None:
    figures = compute_percentiles(outcome.window)
    if not figures:
        return
    for share, percentile in figures.percentiles.items():
        no_faster = figures.requests - math.ceil(share * figures.requests) + 1
        assert percentile.high * no_faster <= 1.000001 * outcome.window.running
        assert percentile.low <= (percentile.seconds or percentile.under) <= percentile.high
    known = [percentile.seconds or 0.0 for percentile in figures.percentiles.values()]
    assert known == sorted(known)


def _judge_sums(outcome: Outcome) -> None:
    window, bins = outcome.window, outcome.window.bins
    if not window.requests:
        return
    edges = [bins.edges_of(place) for place in range(len(bins))]
    least = sum(count * low for count, (low, _) in zip(window.counts, edges, strict=True))
    most = sum(count * high for count, (_, high) in zip(window.counts, edges, strict=True) if count)
    assert least <= _NEAR * window.running + SHORTEST * window.requests
    assert window.running <= _NEAR * most
