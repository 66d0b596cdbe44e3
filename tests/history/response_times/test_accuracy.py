"""Percentiles, shares and sums against the truth of simulated servers."""

import math
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.history.response_times.simulated_requests import Load, simulate
from tests.support.windows import by_share
from tools.bench.accuracy.percentiles import histogram_quantile
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS, SHORTEST

INTERVAL = 0.2
SEEDS = range(3)


def lognormal(mean, sigma):
    return lambda chance: chance.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)


def two_kinds(chance):
    return (0.05 if chance.random() < 0.92 else 1.5) * chance.uniform(0.8, 1.2)


LOADS = {
    "lognormal": Load(lognormal(0.146, 1.05)),
    "two kinds, 92 to 8": Load(two_kinds),
    "always 300 ms": Load(lambda _: 0.3),
    "Pareto, 1.5": Load(lambda chance: min(60.0, 0.05 * chance.paretovariate(1.5))),
    "exponential, below the interval": Load(lambda chance: chance.expovariate(1 / 0.031), idle=0.23),
    "one thread each, nearly saturated": Load(lognormal(0.2, 0.8), idle=0.005, workers=8, threads=1),
    "low load": Load(lognormal(0.3, 1.05), idle=8.0),
    "workers that end": Load(lognormal(0.146, 1.05), deaths=0.1),
    "long, workers that end, a silent master": Load(lognormal(2.0, 0.5), idle=0.1, deaths=0.1, respawn=2.5),
    "short, beside clients that send nothing": Load(lognormal(0.0012, 0.5), silent=0.05),
    "beside clients that send nothing": Load(lognormal(0.146, 1.05), silent=0.1),
    "beside long static files": Load(lognormal(0.146, 1.05), static=0.1),
    "short, a slow log": Load(lognormal(0.0012, 0.5), logged=0.5),
    "everything at once": Load(lognormal(0.146, 1.05), silent=0.05, static=0.05, deaths=0.03, logged=0.01),
}


@pytest.mark.parametrize("name", LOADS)
def test_estimates_are_true(name):
    """Over runs, percentiles of two intervals within 10 %, of one within 30 %; 19 of 20 intervals contain the truth."""
    outcomes = [simulate(LOADS[name], seed) for seed in SEEDS]
    contained = intervals = 0
    for share in (0.5, 0.9, 0.95, 0.99):
        errors, truths = [], []
        for outcome in outcomes:
            figures = compute_percentiles(outcome.window)
            truth, percentile = outcome.percentile(share), by_share(figures)[share]
            intervals += 1
            contained += percentile.low <= truth <= percentile.high
            if percentile.seconds is None:
                assert percentile.under == percentile.high
                assert truth < INTERVAL
            else:
                errors.append(percentile.seconds / truth - 1)
                truths.append(truth)
        if errors and min(truths) >= INTERVAL:
            assert abs(sum(errors) / len(errors)) < (0.1 if min(truths) >= 2 * INTERVAL else 0.3)
    assert contained >= 0.95 * intervals
    for bound in (0.5, 0.75, 1.0, 2.5):
        pairs = [outcome.share_slower(bound) for outcome in outcomes]
        truth, estimated = (sum(shares) / len(pairs) for shares in zip(*pairs, strict=True))
        assert abs(estimated - truth) < max(0.1 * truth, 0.005)


SMOOTH = {
    "lognormal, wide": Load(lognormal(0.146, 1.05)),
    "lognormal": Load(lognormal(0.6, 0.5)),
    "lognormal, narrow": Load(lognormal(2.0, 0.2)),
    "exponential": Load(lambda chance: chance.expovariate(1 / 0.3)),
    "exponential, long": Load(lambda chance: chance.expovariate(1 / 4.0)),
    "uniform": Load(lambda chance: chance.uniform(0.2, 0.6)),
    "uniform, wide": Load(lambda chance: chance.uniform(0.1, 2.05)),
    "uniform, until just above a bound": Load(lambda chance: chance.uniform(0.5, 1.03)),
}
JUMPS = {
    "two kinds, 92 to 8": LOADS["two kinds, 92 to 8"],
    "a timeout of a second": Load(lambda chance: min(1.01, chance.expovariate(1 / 0.8))),
}


def quantile(share, outcome):
    counts = [outcome.increase(bound) for bound in BUCKET_BOUNDS]
    return histogram_quantile(share, BUCKET_BOUNDS, counts, outcome.totals.requests - outcome.before.requests)


@pytest.mark.parametrize("name", SMOOTH)
def test_percentiles_by_promql_are_true(name):
    outcomes = [simulate(SMOOTH[name], seed) for seed in SEEDS]
    compared = 0
    for share in (0.5, 0.95, 0.99):
        truths = [outcome.percentile(share) for outcome in outcomes]
        if min(truths) >= 2 * INTERVAL:
            compared += 1
            found = [quantile(share, outcome) for outcome in outcomes]
            assert sum(found) == pytest.approx(sum(truths), rel=0.1)
    assert compared >= 2


@pytest.mark.parametrize("name", JUMPS)
def test_what_promql_makes_of_a_jump(name):
    """A percentile is in the bucket of the truth, or in the next one."""
    for seed in SEEDS:
        outcome = simulate(JUMPS[name], seed)
        for share in (0.95, 0.99):
            found, truth = (
                bisect_left(BUCKET_BOUNDS, seconds) for seconds in (quantile(share, outcome), outcome.percentile(share))
            )
            assert abs(found - truth) <= 1


@pytest.mark.parametrize("name", LOADS)
def test_count_and_sum_are_exact(name):
    outcome = simulate(LOADS[name], 7, settle=1.0, seconds=12.0)
    assert outcome.totals.requests == len(outcome.all_times)
    assert outcome.totals.seconds == pytest.approx(sum(outcome.all_times))
    assert outcome.totals.count_up_to(60.0) == outcome.totals.requests
    assert outcome.window.requests == len(outcome.times)


def test_most_are_exact_at_low_load():
    outcome = simulate(Load(lognormal(0.1, 1.0), idle=30.0), 1, seconds=200.0)
    figures = compute_percentiles(outcome.window)
    assert figures
    for share in (0.9, 0.95):
        assert by_share(figures)[share].seconds == pytest.approx(outcome.percentile(share), rel=0.11)


@pytest.mark.parametrize("rate", [0.25, 1.0, 20.0])
def test_long_response_times_are_found_at_any_rate_of_samples(rate):
    outcome = simulate(
        Load(lognormal(30.0, 0.5), idle=5.0), 3, settle=60.0, seconds=400.0 if rate < 1 else 150.0, rate=rate
    )
    figures = compute_percentiles(outcome.window)
    assert figures.interval == pytest.approx(1 / rate, rel=0.1)
    for share in (0.5, 0.9):
        assert by_share(figures)[share].seconds == pytest.approx(outcome.percentile(share), rel=0.1)


_NEAR = 1.06
"""The sum of a division is within 5 % of uWSGI's, but for rounding."""


@st.composite
def draws(choose):
    mean, sigma = 10 ** choose(st.floats(-3, 0.7)), choose(st.sampled_from((0.0, 0.3, 1.0, 1.5)))
    rare, longer = choose(st.sampled_from((0.0, 0.02, 0.2))), 10 ** choose(st.floats(-1, 1.0))

    def draw(chance):
        scale = longer if chance.random() < rare else mean
        return scale * chance.lognormvariate(-sigma * sigma / 2, sigma)

    return draw


DRAWN = {"idle": (0.02, 0.4, 5.0), "workers": (1, 4), "threads": (1, 8), "held": (0.3, 2.0, 20.0)}
DRAWN |= {"respawn": (0.1, 1.5, 3.0), "logged": (0.0, 0.005, 0.5)}
DRAWN |= dict.fromkeys(("silent", "static", "deaths"), (0.0, 0.02, 0.3))
loads = st.builds(Load, draws(), **{name: st.sampled_from(values) for name, values in DRAWN.items()})


@given(load=loads, seed=st.integers(0, 10), rate=st.sampled_from((1.0, 5.0, 20.0)))
@settings(max_examples=25, derandomize=True)
def test_no_percentile_that_the_mean_makes_impossible(load, seed, rate):
    outcome = simulate(load, seed, settle=5.0, seconds=30.0, rate=rate)
    _judge_percentiles(outcome)
    _judge_sums(outcome)


def _judge_percentiles(outcome):
    figures = compute_percentiles(outcome.window)
    if not figures:
        return
    for share, percentile in by_share(figures).items():
        no_faster = figures.requests - math.ceil(share * figures.requests) + 1
        assert percentile.high * no_faster <= 1.000001 * outcome.window.running
        assert percentile.low <= (percentile.seconds or percentile.under) <= percentile.high
    known = [percentile.seconds or 0.0 for percentile in by_share(figures).values()]
    assert known == sorted(known)


def _judge_sums(outcome):
    window, bins = outcome.window, outcome.window.bins
    if not window.requests:
        return
    edges = [bins.edges_of(place) for place in range(len(bins))]
    least = sum(count * low for count, (low, _) in zip(window.counts, edges, strict=True))
    most = sum(count * high for count, (_, high) in zip(window.counts, edges, strict=True) if count)
    assert least <= _NEAR * window.running + SHORTEST * window.requests
    assert window.running <= _NEAR * most
