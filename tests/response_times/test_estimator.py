"""The estimate at its limits: nothing seen, all in one bin, contradicting sums, very many and very long requests."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from uwsgi_headroom.response_times import estimator as module
from uwsgi_headroom.response_times.bins import LONGEST, Bins
from uwsgi_headroom.response_times.estimator import Division, Estimator
from uwsgi_headroom.response_times.sightings import UNSEEN, Kind, Sightings

BINS = Bins()
GAP = 0.2


def kinds(*pairs: tuple[float, int], gap: float = GAP) -> Sightings:
    """Requests by the time between the first and the last sample that saw them."""
    return Sightings([], Counter({Kind(between, gap): number for between, number in pairs}))


def add(estimator: Estimator, seen: Sightings, seconds: float | None = None, requests: int | None = None) -> Division:
    """Adds a batch of 5 s, and checks that it is divided wholly and into numbers."""
    number = len(seen.exact) + sum(seen.kinds.values()) if requests is None else requests
    division = estimator.add(seen, number, seconds, 5.0, GAP)
    assert sum(division.counts) == pytest.approx(number)
    assert min(division.counts) >= 0
    assert min(division.doubt) >= 0
    assert all(map(math.isfinite, (*division.counts, *division.doubt, *estimator.shares)))
    assert min(estimator.shares, default=0.0) >= 0
    return division


def mean(division: Division) -> float:
    return sum(map(lambda count, middle: count * middle, division.counts, BINS.middles)) / sum(division.counts)


def test_exact_requests_are_beyond_doubt() -> None:
    """They are in their bins, with a variance of 0."""
    division = add(Estimator(BINS), Sightings([0.05, 0.05, 3.0]), 3.1)
    assert division.counts[BINS.find(0.05)] == 2
    assert division.counts[BINS.find(3.0)] == 1
    assert sum(division.doubt) == 0


def test_running_time_gives_the_mean_of_unseen_requests() -> None:
    """Where samples show only a mean, it is that of the running time, as far as chance explains the difference."""
    for seconds in (19.0, 20.0, 22.0):
        estimator = Estimator(BINS)
        for _ in range(10):
            division = add(estimator, kinds((UNSEEN, 900), (0.0, 100)), seconds)
        assert mean(division) == pytest.approx(seconds / 1000, rel=0.1)


def test_few_requests_that_no_sample_saw() -> None:
    """Of ten requests of 20 ms, one is seen on average: that none was is no contradiction."""
    estimator = Estimator(BINS)
    for _ in range(5):
        division = add(estimator, kinds((UNSEEN, 10)), 0.2)
    assert 0.01 < mean(division) < 0.02


def test_a_running_time_outvotes_samples() -> None:
    """If threads are in service much longer than uWSGI's running time, as with a slow log, the requests are as short as
    uWSGI says, or as samples permit."""
    estimator = Estimator(BINS)
    for _ in range(10):
        division = add(estimator, kinds((UNSEEN, 300), (0.0, 700)), 1.0)
    assert mean(division) < 0.0015
    for _ in range(10):
        division = add(estimator, kinds((UNSEEN, 300), (1.0, 100)), 1.0)
    assert sum(division.counts[BINS.find(1.0) :]) == pytest.approx(100)
    assert sum(division.counts[BINS.find(1.13) :]) < 10


def test_unknown_running_time() -> None:
    """Without it, the number of samples that saw requests gives the mean."""
    estimator = Estimator(BINS)
    for _ in range(10):
        division = add(estimator, kinds((UNSEEN, 300), (0.0, 700)), None)
    assert mean(division) == pytest.approx(0.14, rel=0.2)


def test_requests_without_a_sighting_are_divided_like_the_others() -> None:
    """Those of a gap have the distribution of the estimate, if it gives the time that they took."""
    estimator = Estimator(BINS)
    add(estimator, Sightings([1.0] * 500), 500.0)
    for seconds in (None, 110.0):
        division = add(estimator, Sightings([1.0] * 10), seconds, requests=110)
        assert division.counts[BINS.find(1.0)] == pytest.approx(110, rel=0.05)


@pytest.mark.parametrize("each", [0.003, 0.3, 7.0, 90.0])
def test_requests_of_a_gap_that_were_of_another_kind(each: float) -> None:
    """If the estimate does not give the time that they took, they were longer, or shorter, than those before."""
    estimator = Estimator(BINS)
    add(estimator, Sightings([1.0] * 500), 500.0)
    division = add(estimator, Sightings([1.0] * 10), 10.0 + 100 * each, requests=110)
    assert mean(division) * 110 == pytest.approx(10 + 100 * each, rel=0.06)


def test_the_first_requests_without_a_sighting() -> None:
    """Before there is an estimate, they are divided nevertheless: nothing is known of them."""
    division = add(Estimator(BINS), Sightings(), None, requests=7)
    assert max(division.counts) < 1
    assert sum(division.doubt) > 7


def test_more_sightings_than_requests() -> None:
    """A race in uWSGI's counts: the number of requests counts."""
    add(Estimator(BINS), kinds((0.4, 9), (1.0, 3)), 9.0, requests=10)


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e-300, 5.0, 1e6, 1e300])
@pytest.mark.parametrize("between", [UNSEEN, 0.0, 1.0, 3599.9, 10_000.0, 1.7e9])
def test_any_sum_of_response_times(seconds: float, between: float) -> None:
    """No running time, however absurd beside the samples, gives anything but numbers, and none moves long requests."""
    estimator = Estimator(BINS)
    for _ in range(20):
        division = add(estimator, kinds((between, 50)), seconds)
    if between >= 1.0:
        low, _ = BINS.edges_of(BINS.find(between))
        assert sum(division.counts[BINS.find(low) :]) == pytest.approx(50)


def test_all_in_the_last_bin() -> None:
    """Requests beyond an hour are in the bin that has no end."""
    estimator = Estimator(BINS)
    for exact in ([10_000.0], [1e12], [LONGEST * 1.001]):
        assert add(estimator, Sightings(exact), sum(exact)).counts[-1] == 1


@pytest.mark.parametrize("response_time", [0.0, 1e-9, 0.002, 10_000.0])
def test_extreme_response_times(response_time: float) -> None:
    """The shortest are in the first bin, the longest in the last one."""
    division = add(Estimator(BINS), Sightings([response_time] * 3), 3 * response_time)
    assert division.counts[0 if response_time < 1 else -1] == 3


def test_one_request_an_hour() -> None:
    """Long after the last one, a request has its own response time, not that of the last one."""
    estimator = Estimator(BINS)
    estimator.add(kinds((0.0, 1)), 1, 0.1, 5.0, GAP)
    division = estimator.add(kinds((30.0, 1)), 1, 30.1, 3600.0, GAP)
    assert mean(division) == pytest.approx(30.2, rel=0.05)
    assert estimator.add(Sightings(), 1, None, 1e9, GAP).counts


def test_a_count_that_jumps() -> None:
    """2^60 requests at once are divided, and those after them as well."""
    estimator = Estimator(BINS)
    assert sum(estimator.add(kinds((UNSEEN, 2**60)), 2**60, 1.0, 5.0, GAP).counts) == pytest.approx(2**60)
    add(estimator, kinds((0.0, 5), (2.0, 1)), 3.0)


def test_an_estimate_follows_a_change() -> None:
    """A response time that did not occur for a long time is found at once where samples show it."""
    estimator = Estimator(BINS)
    for _ in range(50):
        add(estimator, Sightings([0.01] * 1000), 10.0)
    division = add(estimator, kinds((20.0, 10)), 201.0)
    assert sum(division.counts[BINS.find(19.0) :]) == pytest.approx(10)


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many kinds of requests there are, the groups stay few by rounding, and iterations fewer."""
    iterations: list[int] = []
    original = Estimator._expect

    def expect(self: Estimator, groups: list[object], interval: float) -> object:
        iterations.append(len(groups))
        return original(self, groups, interval)  # type: ignore[arg-type]

    monkeypatch.setattr(Estimator, "_expect", expect)
    estimator, chance = Estimator(BINS), random.Random(1)
    for _ in range(12):
        seen = Sightings()
        for _ in range(4000):
            gap = chance.choice((0.2, 0.25, 0.3, 1.2))
            seen.kinds[Kind(math.exp(chance.uniform(-4, 8)), gap).rounded()] += 1
        before = len(iterations)
        add(estimator, seen)
        assert len(iterations) - before == module._ITERATIONS[0]
    # Rounding at its coarsest leaves 8 to 16 lengths to each doubling of the response time.
    assert max(iterations) < 4 * module._MOST_GROUPS


def test_memory_is_bounded() -> None:
    """Groups of which less than a part of a request is left are dropped."""
    estimator = Estimator(BINS)
    for step in range(400):
        add(estimator, kinds((0.25 * step, 1)), None)
    assert len(estimator._memory.groups) <= module._MOST_GROUPS
