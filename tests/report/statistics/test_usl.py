"""The Universal Scalability Law fitted to curves with known parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from uwsgi_headroom.report.statistics import Refusal
from uwsgi_headroom.report.statistics.curve import Usl, fit_usl

SEEDS = range(6)
RATE, CONTENTION, COHERENCY = 10.0, 0.05, 0.001
PEAK = math.sqrt((1 - CONTENTION) / COHERENCY)


def law(concurrency: NDArray, contention: float = CONTENTION, coherency: float = COHERENCY) -> NDArray:
    spread = concurrency - 1
    return RATE * concurrency / (1 + contention * spread + coherency * concurrency * spread)


def load(seed: int, days: int = 14, greatest: float = 60.0) -> tuple[NDArray, np.random.Generator]:
    """Concurrency that rises and falls each day."""
    random = np.random.default_rng(seed)
    daily = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(96 * days) / 96)
    return 1 + (greatest - 1) * daily * random.uniform(0.7, 1, 96 * days), random


def noisy(random: np.random.Generator, values: NDArray, deviation: float = 0.05) -> NDArray:
    return values * np.exp(deviation * random.normal(size=len(values)))


def fitted(concurrency: NDArray, throughput: NDArray) -> Usl:
    result = fit_usl(concurrency, throughput)
    assert isinstance(result, Usl), result
    return result


def test_the_parameters() -> None:
    """Within 5 % of the true ones, and each inside its interval (90 %) in at least 4 of 6 series."""
    inside = np.zeros(3)
    for seed in SEEDS:
        concurrency, random = load(seed)
        usl = fitted(concurrency, noisy(random, law(concurrency)))
        estimates = (usl.rate, usl.contention, usl.coherency)
        truth = (RATE, CONTENTION, COHERENCY)
        assert [each.value for each in estimates] == pytest.approx(truth, rel=0.05)
        inside += [each.low <= true <= each.high for each, true in zip(estimates, truth, strict=True)]
    assert np.all(inside >= 4)


def test_the_peak_within_the_data() -> None:
    """Its place within 5 %, its height within 2 %, and no warning."""
    concurrency, random = load(1)
    usl = fitted(concurrency, noisy(random, law(concurrency)))
    assert usl.peak_concurrency is not None
    assert usl.most_throughput is not None
    assert usl.peak_concurrency.value == pytest.approx(PEAK, rel=0.05)
    assert usl.most_throughput.value == pytest.approx(law(np.array([PEAK]))[0], rel=0.02)
    assert not usl.beyond_data
    assert usl.notes == ()


def test_a_peak_beyond_the_data_is_marked() -> None:
    """From at most 20 in service the peak at 31 is an extrapolation, and is said to be one."""
    concurrency, random = load(1, greatest=20.0)
    usl = fitted(concurrency, noisy(random, law(concurrency)))
    assert usl.beyond_data
    assert usl.high <= 20.0
    assert usl.peak_concurrency is not None
    assert usl.peak_concurrency.low <= PEAK <= usl.peak_concurrency.high
    assert usl.notes[0].startswith("Extrapolated")


def test_contention_alone_has_a_ceiling_but_no_peak() -> None:
    """Without coherency throughput approaches lambda / sigma = 200; no peak is claimed within ten times the data."""
    for seed in SEEDS:
        concurrency, random = load(seed)
        usl = fitted(concurrency, noisy(random, law(concurrency, coherency=0.0)))
        assert usl.contention.value == pytest.approx(CONTENTION, rel=0.1)
        if usl.peak_concurrency is not None:
            assert usl.peak_concurrency.value > 120
        assert usl.beyond_data == (usl.most_throughput is not None)
        if usl.most_throughput is not None:
            assert usl.most_throughput.value == pytest.approx(200.0, rel=0.1)
        assert usl.notes


def test_residuals_and_errors() -> None:
    """They are those of the fitted law on the used quarters, by rising concurrency."""
    concurrency, random = load(2)
    throughput = noisy(random, law(concurrency))
    usl = fitted(concurrency, throughput)
    order = np.argsort(concurrency, kind="stable")
    assert usl.residual_concurrency == pytest.approx(concurrency[order])
    assert usl.residuals == pytest.approx(throughput[order] - usl.throughput(concurrency[order]))
    assert usl.error == pytest.approx(np.sqrt(np.mean(usl.residuals**2)) / throughput.mean())
    assert usl.error == pytest.approx(0.05, abs=0.01)
    assert usl.explained > 0.95


def test_a_line_is_refused() -> None:
    """Throughput in proportion to concurrency has no ceiling in the data."""
    for seed in SEEDS:
        concurrency, random = load(seed)
        refusal = fit_usl(concurrency, noisy(random, law(concurrency, 0.0, 0.0)))
        assert isinstance(refusal, Refusal)
        assert "does not clearly bend" in refusal.reason


@pytest.mark.parametrize("deviation", [0.2, 0.4])
def test_slow_requests_are_not_taken_for_contention(deviation: float) -> None:
    """Response times that vary for reasons of their own bend the curve, as N = X R, but load has no part in it."""
    for seed in SEEDS:
        concurrency, random = load(seed)
        slowed = noisy(random, concurrency, deviation)
        refusal = fit_usl(slowed, noisy(random, law(concurrency, 0.0, 0.0)))
        assert isinstance(refusal, Refusal)
        assert "slow requests" in refusal.reason or "does not clearly bend" in refusal.reason


def test_a_request_that_hangs_counts_little() -> None:
    """A quarter with one request in service and almost no throughput does not move the fit."""
    concurrency, random = load(3)
    throughput = noisy(random, law(concurrency))
    expected = fitted(concurrency, throughput)
    concurrency[0], throughput[0] = 1.0, 1 / 900
    usl = fitted(concurrency, throughput)
    assert usl.contention.value == pytest.approx(expected.contention.value, rel=0.1)


@pytest.mark.parametrize(
    ("concurrency", "reason"),
    [
        (np.empty(0), "there are 0"),
        (np.full(95, 5.0), "there are 95"),
        (np.full(500, np.nan), "there are 0"),
        (np.linspace(0.01, 0.99, 500), "there are 0"),
        (np.full(500, 5.0), "5 to 5 only"),
        (np.linspace(1, 1.9, 500), "1 to 1.9 only"),
        (np.linspace(10, 29, 500), "10 to 29 only"),
    ],
    ids=["none", "few", "nan", "idle", "constant", "low", "narrow"],
)
def test_too_little_data(concurrency: NDArray, reason: str) -> None:
    """The refusal says what is there."""
    refusal = fit_usl(concurrency, law(concurrency))
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason


def test_unknown_quarters_are_left_out() -> None:
    """nan, infinity, zero and idle quarters change nothing."""
    concurrency, random = load(4)
    throughput = noisy(random, law(concurrency))
    expected = fitted(concurrency, throughput)
    bad = np.array([np.nan, np.inf, 0.0, -1.0, 0.5])
    usl = fitted(np.r_[concurrency, bad, np.ones(5)], np.r_[throughput, np.ones(5), bad[:4], np.nan])
    assert usl.rate.value == pytest.approx(expected.rate.value)
    assert len(usl.residuals) == len(concurrency)


def test_one_value_of_throughput() -> None:
    """Constant throughput at rising concurrency is full contention, with that throughput as the ceiling."""
    usl = fitted(np.linspace(1, 60, 500), np.full(500, 40.0))
    assert usl.contention.value == pytest.approx(1.0, abs=0.01)
    assert usl.throughput(np.array([1.0, 60.0])) == pytest.approx([40.0, 40.0], rel=0.01)
    assert np.isnan(usl.explained)


def test_the_result_repeats() -> None:
    """The same data give the same intervals."""
    concurrency, random = load(5)
    throughput = noisy(random, law(concurrency))
    assert fitted(concurrency, throughput).rate == fitted(concurrency, throughput).rate
