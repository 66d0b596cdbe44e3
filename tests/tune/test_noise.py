"""Which differences between variants count as noise."""

from __future__ import annotations

import random
from math import exp

import pytest

from uwsgi_headroom.tune.search.evidence import LEAST_MARGIN, USUAL, compare, find_spread, find_usual


def test_a_ratio_is_that_of_common_rounds() -> None:
    """A round in which only one of them ran says nothing."""
    found = compare("a", "b", {"a": {0: 20.0, 1: 22.0, 2: 900.0}, "b": {0: 10.0, 1: 11.0, 3: 1.0}})
    assert found is not None
    assert found.ratio == pytest.approx(2)
    assert found.rounds == 2
    assert found.is_better
    assert not found.is_worse
    assert compare("a", "b", {"a": {0: 1.0}, "b": {1: 1.0}}) is None
    assert compare("a", "b", {}) is None


def test_a_drift_of_the_machine_is_no_noise() -> None:
    """Both variants are half as fast in the second round, so their ratio is as sure as before."""
    steady = compare("a", "b", {"a": {0: 20.0, 1: 20.0}, "b": {0: 19.0, 1: 19.0}})
    drifting = compare("a", "b", {"a": {0: 20.0, 1: 10.0}, "b": {0: 19.0, 1: 9.5}})
    assert steady is not None
    assert drifting is not None
    assert drifting.margin == pytest.approx(steady.margin)


def test_more_rounds_make_it_surer() -> None:
    """And a difference of nothing is never better than nothing."""
    margins = []
    for rounds in (1, 2, 4, 16):
        found = compare("a", "b", {name: dict.fromkeys(range(rounds), 10.0) for name in "ab"})
        assert found is not None
        assert not found.is_better
        margins.append(found.margin)
    assert margins == sorted(margins, reverse=True)
    assert margins[-1] == LEAST_MARGIN


def test_noise_that_was_seen_counts() -> None:
    """Rounds that contradict each other widen the margin for all pairs."""
    quiet = {"a": {0: 10.0, 1: 10.0}, "b": {0: 10.0, 1: 10.0}}
    wild = {"a": {0: 10.0, 1: 20.0}, "b": {0: 20.0, 1: 10.0}}
    assert find_spread(quiet)[0] < USUAL < find_spread(wild)[0]
    found = compare("a", "b", wild)
    assert found is not None
    assert found.margin > 0.9


def test_busy_other_programs_widen_the_margin_from_the_first_run() -> None:
    """A single pair of runs beside busy programs proves little."""
    assert find_usual(0.0) == USUAL
    scores = {"a": {0: 12.0}, "b": {0: 10.0}}
    quiet, busy = compare("a", "b", scores), compare("a", "b", scores, find_usual(0.75))
    assert quiet is not None
    assert busy is not None
    assert quiet.is_better
    assert not busy.is_better


def test_equal_variants_are_rarely_called_different() -> None:
    """At the usual noise, at most one in ten of a thousand pairs, on both sides together."""
    chance = random.Random(1)
    wrong = 0
    for _ in range(1000):
        scores = {name: {number: exp(chance.gauss(0, USUAL / 2**0.5)) for number in range(3)} for name in "ab"}
        found = compare("a", "b", scores)
        assert found is not None
        wrong += found.is_better or found.is_worse
    assert wrong <= 100


@pytest.mark.parametrize(("ours", "theirs"), [(10.0, 15.4), (15.4, 10.0), (10.0, 10.5)])
def test_what_noise_explains_is_in_the_unit_of_the_difference(ours: float, theirs: float) -> None:
    """So a difference inside the noise is never said to be larger than what noise explains."""
    found = compare("a", "b", {"a": {0: ours}, "b": {0: theirs}}, usual=0.15)
    assert found is not None
    assert (abs(found.ratio - 1) > found.explained) == (found.is_better or found.is_worse)
