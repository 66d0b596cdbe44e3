"""The bins of response times, and the estimate at its limits, such as sums that contradict the samples."""

import math
import random
from collections import Counter

import pytest

from tests.history.response_times.simulated_requests import NOTHING, worker
from tests.support.simulated_server import EPOCH, reading
from uwsgi_headroom.history.response_times import estimator as module
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS, END, LONGEST, SHORTEST, Bins
from uwsgi_headroom.history.response_times.estimator import Estimator, make_group
from uwsgi_headroom.history.response_times.sightings import UNSEEN, Observer, Sighting, Sightings
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading

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
    estimator = Estimator(BINS)
    return [add(estimator, *batch) for _ in range(times)][-1]


def mean(division):
    return sum(map(lambda count, middle: count * middle, division.counts, BINS.middles)) / sum(division.counts)


def test_exact_requests_are_beyond_doubt():
    division = add(Estimator(BINS), Sightings([0.05, 0.05, 3.0]), 3.1)
    assert division.counts[BINS.find(0.05)] == 2
    assert division.counts[BINS.find(3.0)] == 1
    assert sum(division.doubt) == 0


def test_running_time_gives_the_mean_of_unseen_requests():
    """Where samples show only a mean, it is that of the running time, as far as chance explains the difference."""
    for seconds in (19.0, 20.0, 22.0):
        assert mean(repeat(10, kinds((UNSEEN, 900), (0.0, 100)), seconds)) == pytest.approx(seconds / 1000, rel=0.1)
    # Of ten requests of 20 ms, one is seen on average: that none was is no contradiction.
    assert 0.01 < mean(repeat(5, kinds((UNSEEN, 10)), 0.2)) < 0.02
    # Without it, the number of samples that saw requests gives the mean.
    assert mean(repeat(10, kinds((UNSEEN, 300), (0.0, 700)), None)) == pytest.approx(0.14, rel=0.2)


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
    # A race in uWSGI's counts: the number of requests counts.
    add(Estimator(BINS), kinds((0.4, 9), (1.0, 3)), 9.0, requests=10)


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e-300, 5.0, 1e6, 1e300])
@pytest.mark.parametrize("between", [UNSEEN, 0.0, 1.0, 3599.9, 10_000.0, 1.7e9])
def test_any_sum_of_response_times(seconds, between):
    """No running time, however absurd beside the samples, gives anything but numbers, and none moves long requests."""
    division = repeat(20, kinds((between, 50)), seconds)
    if between >= 1.0:
        low, _ = BINS.edges_of(BINS.find(between))
        assert sum(division.counts[BINS.find(low) :]) == pytest.approx(50)


@pytest.mark.parametrize(
    ("response_time", "place"),
    [(0.0, 0), (1e-9, 0), (0.002, 0), (LONGEST * 1.001, -1), (10_000.0, -1), (1e12, -1)],
)
def test_extreme_response_times(response_time, place):
    """The shortest are in the first bin, the longest in the last one, which has no end."""
    division = add(Estimator(BINS), Sightings([response_time] * 3), 3 * response_time)
    assert division.counts[place] == 3


def test_one_request_an_hour():
    """Long after the last one, a request has its own response time, not that of the last one."""
    estimator = Estimator(BINS)
    estimator.add(kinds((0.0, 1)), 1, 0.1, 5.0, GAP)
    division = estimator.add(kinds((30.0, 1)), 1, 30.1, 3600.0, GAP)
    assert mean(division) == pytest.approx(30.2, rel=0.05)
    assert estimator.add(Sightings(), 1, None, 1e9, GAP).counts
    # A count that jumps by 2^60 is divided, and those after it as well.
    estimator = Estimator(BINS)
    assert sum(estimator.add(kinds((UNSEEN, 2**60)), 2**60, 1.0, 5.0, GAP).counts) == pytest.approx(2**60)
    add(estimator, kinds((0.0, 5), (2.0, 1)), 3.0)


def test_an_estimate_follows_a_change():
    estimator = Estimator(BINS)
    for _ in range(50):
        add(estimator, Sightings([0.01] * 1000), 10.0)
    division = add(estimator, kinds((20.0, 10)), 201.0)
    assert sum(division.counts[BINS.find(19.0) :]) == pytest.approx(10)


def test_work_is_bounded(monkeypatch):
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
    # There is a bin more than edges; the first begins at 0, the last has no end. Memory grows with their number.
    bins = OBJECTIVE_BINS
    assert len(bins) == len(bins.middles) == len(bins.widths) == len(bins.edges) + 1
    assert len(bins) < 200
    assert (bins.edges_of(0), bins.edges_of(len(bins) - 1)) == ((0.0, SHORTEST), (LONGEST, math.inf))
    assert bins.middles[-1] == (LONGEST + END) / 2


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.0020001, 0.25, 0.8, 1.0, 3.7, 60.0, 3600.0, 3600.1, 10_000.0, 1e12])
def test_a_time_is_in_its_bin(seconds):
    """An edge belongs to the bin below it, as `le` says."""
    low, high = OBJECTIVE_BINS.edges_of(OBJECTIVE_BINS.find(seconds))
    assert low < seconds <= high or seconds == low == 0


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
    group = make_group(Sighting(between, gap), OBJECTIVE_BINS)
    assert all(likelihood >= 0 for likelihood in group.likelihoods)
    assert sum(group.likelihoods) > 0
    assert len(group.likelihoods) == len(group.means)
    assert max(0.0, between) <= group.means[0] <= group.means[-1] <= max(0.0, between) + 2 * gap


PAUSE = 0.25
IDLE = {}


def sample(at, read_seconds=0.0, ahead=0.0):
    """A reading. ahead: seconds by which the exporter's wall clock is ahead of uWSGI's."""
    made = reading(at, NOTHING, HostFacts(), read_seconds, 0.0)
    return Reading(made.at, made.time + ahead, made.read_seconds, 0.0, 1, NOTHING, made.host)


def observe(samples, *, ahead=0.0, read_seconds=0.0):
    """What samples of one worker show, a quarter of a second apart; the first is at 10 s."""
    observer, seen = Observer(), Sightings()
    for place, made in enumerate(samples):
        moment = sample(10 + PAUSE * place, read_seconds, ahead)
        if place:
            observer.follow(moment, (made,), seen)
        else:
            observer.restart(moment, (made,))
    return seen


def busy(start=EPOCH + 10):
    return {0: start}


def only(seen):
    assert not seen.exact
    ((kind, number),) = seen.kinds.items()
    assert number == 1
    return kind


FREE, BUSY, DONE = worker((0,), IDLE), worker((0,), busy()), worker((1,), IDLE)


@pytest.mark.parametrize("samples", [1, 2, 3, 8])
def test_seen_by_some_samples(samples):
    """It took the time between the first and the last of them, and at most a gap more on each side."""
    seen = observe([FREE, *[BUSY] * samples, DONE])
    assert only(seen) == Sighting((samples - 1) * PAUSE, PAUSE)
    assert only(seen).sampled_seconds == samples * PAUSE


BOTH = {0: EPOCH + 10, 1: EPOCH + 10}
HELD = [worker((0, 0), IDLE, running_time=2.0), *[worker((0, 0), busy(), running_time=2.0)] * 4]
LOST = [worker((4,), busy())] * 2

NEVER, ONCE, TWICE, THRICE = (Sighting(between, PAUSE) for between in (UNSEEN, 0.0, PAUSE, 2 * PAUSE))
"""Requests by the samples that saw them."""

REST, NEXT = worker((0, 0), IDLE), worker((2,), IDLE)
CASES = {
    "the thread's count tells a request from the next one": (
        [FREE, *[BUSY] * 3, *[worker((1,), busy())] * 2, NEXT],
        {THRICE: 1, TWICE: 1},
    ),
    "requests between two samples are only counted": ([REST, worker((3, 2), IDLE)], {NEVER: 5}),
    "also on a thread that was busy before": ([FREE, BUSY, worker((3,), IDLE)], {ONCE: 1, NEVER: 2}),
    "requests of one time are of one kind": ([REST, worker((0, 0), BOTH), worker((1, 1), IDLE)], {ONCE: 2}),
    "an unchanged document has the same objects": ([FREE, BUSY, BUSY, BUSY, DONE], {THRICE: 1}),
    # The growth of its worker's running time is the response time of the only request.
    "the only one is exact, unseen": (
        [worker((0, 5), IDLE, running_time=2.0), worker((0, 6), IDLE, running_time=2.125)],
        {},
        0.125,
    ),
    "the only one is exact, seen": (
        [
            *[worker((0,), each, running_time=2.0) for each in (IDLE, *[busy()] * 3)],
            worker((1,), IDLE, running_time=2.75),
        ],
        {},
        0.75,
    ),
    "exact, although its start is not known": (
        [worker((0,), busy(None), running_time=1.0), worker((1,), IDLE, running_time=9.0)],
        {},
        8.0,
    ),
    # The running time says how long its request took, alone or with the worker's other requests.
    "a thread that was held before, alone": ([*HELD, worker((1, 0), IDLE, running_time=2.001)], {}, 0.001),
    "a thread that was held before, short": (
        [*HELD, worker((1, 7), IDLE, running_time=2.3)],
        {Sighting(UNSEEN, 5 * PAUSE): 1, NEVER: 7},
    ),
    "a thread that was held before, long": (
        [*HELD, worker((1, 7), IDLE, running_time=2.9)],
        {Sighting(3 * PAUSE, PAUSE): 1, NEVER: 7},
    ),
    "a running time is unknown after uWSGI's clock was set back": (
        [worker((0,), IDLE, running_time=2.0), DONE, NEXT],
        {NEVER: 2},
    ),
    "static requests are left out": ([FREE, worker((1,), IDLE, static=1)], {}),
    "the request that was seen longest is not static": (
        [REST, worker((0, 0), busy()), worker((1, 2), IDLE, static=2)],
        {ONCE: 1},
    ),
    "of two that were seen, the longer is not static": (
        [REST, *[worker((0, 0), busy())] * 2, worker((0, 0), BOTH), worker((1, 1), IDLE, static=1)],
        {THRICE: 1},
    ),
    # The running time is that of another request, which is counted later.
    "a static request is not exact": (
        [worker((0,), IDLE, running_time=1.0), worker((1,), IDLE, running_time=1.2, static=1)],
        {},
    ),
    "a killed worker's requests are lost": (
        [*LOST, worker((4,), IDLE, pid=None), worker((4,), IDLE, pid=8), worker((5,), IDLE, pid=8, since_spawn=1)],
        {NEVER: 1},
    ),
    "the request of a successor on the same thread is another one": (
        [*LOST, worker((4,), busy(), pid=8), worker((5,), IDLE, pid=8, since_spawn=1)],
        {ONCE: 1},
    ),
    "a successor that completes one at once": ([*LOST, worker((5,), IDLE, pid=8, since_spawn=1)], {NEVER: 1}),
    "a worker that ends after a request has completed it": (
        [worker((4,), IDLE), worker((4,), busy()), worker((5,), IDLE, pid=8, since_spawn=0)],
        {ONCE: 1},
    ),
    "a worker of cheaper mode that is stopped and spawned again adds nothing": (
        [*[worker((4, 2), IDLE, pid=pid) for pid in (7, None, 9)], worker((5, 2), IDLE, pid=9, since_spawn=1)],
        {NEVER: 1},
    ),
    "without starts, before uWSGI 2.0.14, counts suffice": ([FREE, *[worker((0,), busy(None))] * 2, DONE], {TWICE: 1}),
    # uWSGI counts a request before it writes the log.
    "a thread that still writes the log serves no second request": (
        [FREE, BUSY, worker((1,), busy()), DONE],
        {ONCE: 1},
    ),
    "a client that sends nothing is no request": ([FREE, *[BUSY] * 9, FREE], {}),
    "the time of a client that sends nothing is not that of the next request": (
        [FREE, *[BUSY] * 9, worker((0,), busy(EPOCH + 12)), DONE],
        {ONCE: 1},
    ),
    "gevent takes a slot before a request arrives": (
        [worker((0,) * 4, IDLE), worker((0,) * 4, {3: None}), worker((0,) * 4, IDLE)],
        {},
    ),
    "greenlets take slots from the top of a stack": (
        [
            *[worker((0,) * 4, each) for each in (IDLE, {3: EPOCH, 2: EPOCH})],
            *[worker((0, 0, 0, 1), {2: EPOCH}), worker((0, 0, 1, 9), IDLE)],
        ],
        {ONCE: 1, TWICE: 1, NEVER: 8},
    ),
}
"""By behaviour: the samples, the requests of each kind, and the response times that are exact."""


@pytest.mark.parametrize("case", CASES)
def test_what_samples_show(case):
    samples, kinds, *exact = CASES[case]
    assert observe(samples) == Sightings(exact, kinds)


@pytest.mark.parametrize("grown", [0.0, 1.5, -3.0, 1e9, float("nan")])
def test_a_running_time_that_samples_contradict(grown):
    """A running time that did not grow, or more than samples permit (a race, a stepped clock), is not believed."""
    held = [worker((0,), IDLE, running_time=2.0), *[worker((0,), busy(), running_time=2.0)] * 3]
    assert only(observe([*held, worker((1,), IDLE, running_time=2.0 + grown)])) == Sighting(2 * PAUSE, PAUSE)


def test_in_service_at_the_first_sample():
    """It began within the second that uWSGI names, and at the latest at the sample."""
    seen = only(observe([worker((0,), busy(EPOCH + 4)), worker((1,), IDLE)]))
    assert seen == Sighting(5.0, (1 + PAUSE) / 2).rounded()
    assert only(observe([worker((0,), busy(EPOCH + 10)), worker((1,), IDLE)])).between == 0
    # So it did if the first sample is one after a gap.
    observer, seen = Observer(), Sightings()
    observer.restart(sample(10.0), (worker((0,), IDLE),))
    observer.restart(sample(20.0), (worker((7,), busy(EPOCH + 13)),))
    observer.follow(sample(20.25), (worker((8,), IDLE),), seen)
    assert only(seen) == Sighting(20 - 14, (1 + PAUSE) / 2).rounded()


@pytest.mark.parametrize(("start", "ahead"), [(None, 0.0), (EPOCH + 10, -5.0), (2**62, 0.0)])
def test_a_start_that_is_not_known(start, ahead):
    """Before 2.0.14 there is none, and one in the future shows another clock: nothing is known of it."""
    assert observe([*[worker((0,), busy(start))] * 2, DONE], ahead=ahead) == Sightings()


def test_a_slow_master():
    """A document may have been written at any time in a second: requests are on average as long."""
    seen = observe([FREE, *[BUSY] * 9, DONE], read_seconds=1.0)
    assert only(seen) == Sighting(8 * PAUSE - 1.0, PAUSE + 1.0).rounded()
    assert only(seen).sampled_seconds == 9 * PAUSE


@pytest.mark.parametrize("now", [(0,), (5, 5, 5), (-4, 2**60), (2**60, 2**60), (-(2**60), 0)])
def test_counts_that_cannot_be(now):
    """Counts that decrease, jump, or change their number raise nothing, and add no negative number."""
    odd = worker(now, {0: EPOCH + 9, len(now) - 1: None})
    seen = observe([worker((3, 3), BOTH), odd, worker((4, 4), IDLE, static=2**40)])
    assert all(number > 0 for number in seen.kinds.values())
    assert all(kind.gap > 0 for kind in seen.kinds)


def test_times_that_go_backwards_raise_nothing():
    observer, seen = Observer(), Sightings()
    observer.restart(sample(10.0), (worker((0,), IDLE),))
    for at, made in ((9.0, worker((0,), busy())), (8.5, worker((0,), busy())), (8.0, worker((1,), IDLE))):
        observer.follow(sample(at), (made,), seen)
    assert only(seen).between >= 0
    assert only(seen).gap > 0


def test_rounding():
    """Lengths are rounded to an eighth of the gap at most, and to a sixteenth of a long time; the coarser, the more."""
    chance = random.Random(1)
    for coarseness in (1.0, 2.0, 4.0):
        for _ in range(500):
            between = chance.choice((UNSEEN, chance.uniform(0, 0.5), chance.lognormvariate(1, 2)))
            kind = Sighting(between, 0.2 * chance.random())
            rounded = kind.rounded(coarseness)
            grain = coarseness * max(kind.gap / 8, kind.between / 8)
            assert rounded.between == pytest.approx(kind.between, abs=grain)
            assert rounded.gap == pytest.approx(kind.gap, abs=coarseness * kind.gap / 8)
