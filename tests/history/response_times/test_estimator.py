"""The bins of response times, and the estimate at its limits, such as sums that contradict the samples."""

import math
import random
from collections import Counter

import pytest

from uwsgi_headroom.history.response_times import estimator as module
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS, END, LONGEST, SHORTEST, Bins
from uwsgi_headroom.history.response_times.estimator import Estimator, make_group
from uwsgi_headroom.history.response_times.sightings import UNSEEN, Sighting, Sightings

BINS = Bins()
GAP = 0.2


def kinds(*pairs, gap=GAP):
    """Requests by the time between the first and the last sample that saw them."""
    return Sightings([], Counter({Sighting(between, gap): number for between, number in pairs}))


def add(estimator, seen, seconds=None, requests=None):
    """Adds a batch of 5 s, and checks that it is divided wholly and into numbers."""
    number = len(seen.exact) + sum(seen.kinds.values()) if requests is None else requests
    division = estimator.add(seen, number, seconds, 5.0, GAP)
    assert sum(division.counts) == pytest.approx(number)
    assert min(division.counts) >= 0
    assert min(division.doubt) >= 0
    assert all(map(math.isfinite, (*division.counts, *division.doubt, *estimator.shares)))
    assert min(estimator.shares, default=0.0) >= 0
    return division


def repeat(times, *batch):
    """The division of the last of some equal batches."""
    estimator = Estimator(BINS)
    return [add(estimator, *batch) for _ in range(times)][-1]


def mean(division):
    return sum(map(lambda count, middle: count * middle, division.counts, BINS.middles)) / sum(division.counts)


def test_exact_requests_are_beyond_doubt():
    """They are in their bins, with a variance of 0."""
    division = add(Estimator(BINS), Sightings([0.05, 0.05, 3.0]), 3.1)
    assert division.counts[BINS.find(0.05)] == 2
    assert division.counts[BINS.find(3.0)] == 1
    assert sum(division.doubt) == 0


def test_running_time_gives_the_mean_of_unseen_requests():
    """Where samples show only a mean, it is that of the running time, as far as chance explains the difference."""
    for seconds in (19.0, 20.0, 22.0):
        assert mean(repeat(10, kinds((UNSEEN, 900), (0.0, 100)), seconds)) == pytest.approx(seconds / 1000, rel=0.1)


def test_few_requests_that_no_sample_saw():
    """Of ten requests of 20 ms, one is seen on average: that none was is no contradiction."""
    assert 0.01 < mean(repeat(5, kinds((UNSEEN, 10)), 0.2)) < 0.02


def test_a_running_time_outvotes_samples():
    """Where threads are in service longer than that, requests are as short as uWSGI says, or samples permit."""
    estimator = Estimator(BINS)
    for _ in range(10):
        division = add(estimator, kinds((UNSEEN, 300), (0.0, 700)), 1.0)
    assert mean(division) < 0.0015
    for _ in range(10):
        division = add(estimator, kinds((UNSEEN, 300), (1.0, 100)), 1.0)
    assert sum(division.counts[BINS.find(1.0) :]) == pytest.approx(100)
    assert sum(division.counts[BINS.find(1.13) :]) < 10


def test_unknown_running_time():
    """Without it, the number of samples that saw requests gives the mean."""
    assert mean(repeat(10, kinds((UNSEEN, 300), (0.0, 700)), None)) == pytest.approx(0.14, rel=0.2)


def test_requests_without_a_sighting_are_divided_like_the_others():
    """Those of a gap have the distribution of the estimate, if it gives the time that they took."""
    estimator = Estimator(BINS)
    add(estimator, Sightings([1.0] * 500), 500.0)
    for seconds in (None, 110.0):
        division = add(estimator, Sightings([1.0] * 10), seconds, requests=110)
        assert division.counts[BINS.find(1.0)] == pytest.approx(110, rel=0.05)


@pytest.mark.parametrize("each", [0.003, 0.3, 7.0, 90.0])
def test_requests_of_a_gap_that_were_of_another_kind(each):
    """If the estimate does not give the time that they took, they were longer, or shorter, than those before."""
    estimator = Estimator(BINS)
    add(estimator, Sightings([1.0] * 500), 500.0)
    division = add(estimator, Sightings([1.0] * 10), 10.0 + 100 * each, requests=110)
    assert mean(division) * 110 == pytest.approx(10 + 100 * each, rel=0.06)


def test_the_first_requests_without_a_sighting():
    """Before there is an estimate, they are divided nevertheless: nothing is known of them."""
    division = add(Estimator(BINS), Sightings(), None, requests=7)
    assert max(division.counts) < 1
    assert sum(division.doubt) > 7


def test_more_sightings_than_requests():
    """A race in uWSGI's counts: the number of requests counts."""
    add(Estimator(BINS), kinds((0.4, 9), (1.0, 3)), 9.0, requests=10)


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e-300, 5.0, 1e6, 1e300])
@pytest.mark.parametrize("between", [UNSEEN, 0.0, 1.0, 3599.9, 10_000.0, 1.7e9])
def test_any_sum_of_response_times(seconds, between):
    """No running time, however absurd beside the samples, gives anything but numbers, and none moves long requests."""
    division = repeat(20, kinds((between, 50)), seconds)
    if between >= 1.0:
        low, _ = BINS.edges_of(BINS.find(between))
        assert sum(division.counts[BINS.find(low) :]) == pytest.approx(50)


def test_all_in_the_last_bin():
    """Requests beyond an hour are in the bin that has no end."""
    estimator = Estimator(BINS)
    for exact in ([10_000.0], [1e12], [LONGEST * 1.001]):
        assert add(estimator, Sightings(exact), sum(exact)).counts[-1] == 1


@pytest.mark.parametrize("response_time", [0.0, 1e-9, 0.002, 10_000.0])
def test_extreme_response_times(response_time):
    """The shortest are in the first bin, the longest in the last one."""
    division = add(Estimator(BINS), Sightings([response_time] * 3), 3 * response_time)
    assert division.counts[0 if response_time < 1 else -1] == 3


def test_one_request_an_hour():
    """Long after the last one, a request has its own response time, not that of the last one."""
    estimator = Estimator(BINS)
    estimator.add(kinds((0.0, 1)), 1, 0.1, 5.0, GAP)
    division = estimator.add(kinds((30.0, 1)), 1, 30.1, 3600.0, GAP)
    assert mean(division) == pytest.approx(30.2, rel=0.05)
    assert estimator.add(Sightings(), 1, None, 1e9, GAP).counts


def test_a_count_that_jumps():
    """2^60 requests at once are divided, and those after them as well."""
    estimator = Estimator(BINS)
    assert sum(estimator.add(kinds((UNSEEN, 2**60)), 2**60, 1.0, 5.0, GAP).counts) == pytest.approx(2**60)
    add(estimator, kinds((0.0, 5), (2.0, 1)), 3.0)


def test_an_estimate_follows_a_change():
    """A response time that did not occur for a long time is found at once where samples show it."""
    estimator = Estimator(BINS)
    for _ in range(50):
        add(estimator, Sightings([0.01] * 1000), 10.0)
    division = add(estimator, kinds((20.0, 10)), 201.0)
    assert sum(division.counts[BINS.find(19.0) :]) == pytest.approx(10)


def test_work_is_bounded(monkeypatch):
    """However many kinds of requests there are, the groups stay few by rounding, and iterations fewer."""
    iterations = []
    original = Estimator._expect

    def expect(self, groups, interval):
        iterations.append(len(groups))
        return original(self, groups, interval)

    monkeypatch.setattr(Estimator, "_expect", expect)
    estimator, chance = Estimator(BINS), random.Random(1)
    for _ in range(12):
        seen = Sightings()
        for _ in range(4000):
            gap = chance.choice((0.2, 0.25, 0.3, 1.2))
            seen.kinds[Sighting(math.exp(chance.uniform(-4, 8)), gap).rounded()] += 1
        before = len(iterations)
        add(estimator, seen)
        assert len(iterations) - before == module._ITERATIONS[0]
    # Rounding at its coarsest leaves 8 to 16 lengths to each doubling of the response time.
    assert max(iterations) < 4 * module._MOST_GROUPS


def test_memory_is_bounded():
    """Groups of which less than a part of a request is left are dropped."""
    estimator = Estimator(BINS)
    for step in range(250):
        add(estimator, kinds((0.25 * step, 1)), None)
    assert len(estimator._memory.groups) <= module._MOST_GROUPS


OBJECTIVE_BINS = Bins((0.8, 0.25, 59.999))


def test_bounds_are_edges():
    """The histogram's bounds and those that are given are edges; other edges keep a distance to them."""
    assert {*BUCKET_BOUNDS, 0.8, 59.999} <= set(OBJECTIVE_BINS.edges)
    assert list(OBJECTIVE_BINS.edges) == sorted(set(OBJECTIVE_BINS.edges))
    assert (OBJECTIVE_BINS.edges[0], OBJECTIVE_BINS.edges[-1]) == (SHORTEST, LONGEST)
    ratios = sorted(high / low for low, high in zip(OBJECTIVE_BINS.edges, OBJECTIVE_BINS.edges[1:], strict=False))
    assert ratios[-1] < 1.15
    assert [ratio for ratio in ratios if ratio < 1.03] == [pytest.approx(60 / 59.999)]


def test_each_bin_has_a_width_and_a_middle():
    """There is a bin more than edges; the history's memory grows with their number."""
    assert (
        len(OBJECTIVE_BINS)
        == len(OBJECTIVE_BINS.middles)
        == len(OBJECTIVE_BINS.widths)
        == len(OBJECTIVE_BINS.edges) + 1
    )
    assert len(OBJECTIVE_BINS) < 200


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.0020001, 0.25, 0.8, 1.0, 3.7, 60.0, 3600.0, 3600.1, 10_000.0, 1e12])
def test_a_time_is_in_its_bin(seconds):
    """An edge belongs to the bin below it, as `le` says."""
    low, high = OBJECTIVE_BINS.edges_of(OBJECTIVE_BINS.find(seconds))
    assert low < seconds <= high or seconds == low == 0


def test_the_first_and_the_last_bin():
    """They reach from 0 and without end."""
    assert OBJECTIVE_BINS.edges_of(0) == (0.0, SHORTEST)
    assert OBJECTIVE_BINS.edges_of(len(OBJECTIVE_BINS) - 1) == (LONGEST, math.inf)
    assert OBJECTIVE_BINS.middles[-1] == (LONGEST + END) / 2


@pytest.mark.parametrize("between", [UNSEEN, 0.0, 0.2, 1.0, 7.3])
@pytest.mark.parametrize("gap", [0.05, 0.2, 1.0, 4.0])
def test_likelihoods_are_those_of_a_simulation(between, gap):
    """They are proportional to how often requests of each bin, at random times, are seen so by samples at even gaps."""
    group = make_group(Sighting(between, gap), OBJECTIVE_BINS)
    chance, samples = random.Random(1), round(between / gap) + 1 if between != UNSEEN else 0
    for place, likelihood in enumerate(group.likelihoods):
        low, high = OBJECTIVE_BINS.edges_of(group.first + place)
        hits = 0
        for _ in range(400):
            start, seconds = gap * chance.random(), chance.uniform(low, high)
            hits += math.floor((start + seconds) / gap) == samples
        if between == UNSEEN or math.isclose(between, (samples - 1) * gap):
            assert likelihood / gap == pytest.approx(hits / 400, abs=0.1)


@pytest.mark.parametrize("between", [UNSEEN, 0.0, 0.31, 1.0, 59.9, 3599.99, 3600.0, 10_000.0, 1.7e9])
@pytest.mark.parametrize("gap", [0.001, 0.2, 5.0])
def test_every_group_has_a_likely_bin(between, gap):
    """Some bin is possible, whatever the length; and means are within the group's interval."""
    group = make_group(Sighting(between, gap), OBJECTIVE_BINS)
    assert all(likelihood >= 0 for likelihood in group.likelihoods)
    assert sum(group.likelihoods) > 0
    assert len(group.likelihoods) == len(group.means)
    assert max(0.0, between) <= group.means[0] <= group.means[-1] <= max(0.0, between) + 2 * gap
