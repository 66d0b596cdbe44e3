"""What samples show of single requests: when they began and ended, which were not seen, and which are known exactly."""

import random

import pytest

from tests.history.response_times.simulated_requests import NOTHING, worker
from tests.support.simulated_server import EPOCH, reading
from uwsgi_headroom.history.response_times.sightings import UNSEEN, Observer, Sighting, Sightings
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading

GAP = 0.25
IDLE = {}


def sample(at, read_seconds=0.0, ahead=0.0):
    """A reading. ahead: seconds by which the exporter's wall clock is ahead of uWSGI's."""
    made = reading(at, NOTHING, HostFacts(), read_seconds, 0.0)
    return Reading(made.at, made.time + ahead, made.read_seconds, 0.0, 1, NOTHING, made.host)


def observe(samples, *, ahead=0.0, read_seconds=0.0):
    """What samples of one worker show, a quarter of a second apart; the first is at 10 s."""
    observer, seen = Observer(), Sightings()
    for place, made in enumerate(samples):
        moment = sample(10 + GAP * place, read_seconds, ahead)
        if place:
            observer.follow(moment, (made,), seen)
        else:
            observer.restart(moment, (made,))
    return seen


def busy(start=EPOCH + 10):
    """Thread 0 serves a request."""
    return {0: start}


def only(seen):
    """The kind of the only request, which is not exact."""
    assert not seen.exact
    ((kind, number),) = seen.kinds.items()
    assert number == 1
    return kind


@pytest.mark.parametrize("samples", [1, 2, 3, 8])
def test_seen_by_some_samples(samples):
    """It took the time between the first and the last of them, and at most a gap more on each side."""
    seen = observe([worker((0,), IDLE), *[worker((0,), busy())] * samples, worker((1,), IDLE)])
    assert only(seen) == Sighting((samples - 1) * GAP, GAP)
    assert only(seen).sampled_seconds == samples * GAP


FREE, BUSY, DONE = worker((0,), IDLE), worker((0,), busy()), worker((1,), IDLE)
BOTH = {0: EPOCH + 10, 1: EPOCH + 10}
HELD = [worker((0, 0), IDLE, running_time=2.0), *[worker((0, 0), busy(), running_time=2.0)] * 4]
LOST = [worker((4,), busy())] * 2

CASES = {
    "the thread's count tells a request from the next one": (
        [FREE, *[BUSY] * 3, *[worker((1,), busy())] * 2, worker((2,), IDLE)],
        {Sighting(2 * GAP, GAP): 1, Sighting(GAP, GAP): 1},
    ),
    "requests between two samples are only counted": (
        [worker((0, 0), IDLE), worker((3, 2), IDLE)],
        {Sighting(UNSEEN, GAP): 5},
    ),
    "also on a thread that was busy before": (
        [FREE, BUSY, worker((3,), IDLE)],
        {Sighting(0.0, GAP): 1, Sighting(UNSEEN, GAP): 2},
    ),
    "requests of one time are of one kind": (
        [worker((0, 0), IDLE), worker((0, 0), BOTH), worker((1, 1), IDLE)],
        {Sighting(0.0, GAP): 2},
    ),
    "an unchanged document has the same objects": ([FREE, BUSY, BUSY, BUSY, DONE], {Sighting(2 * GAP, GAP): 1}),
    # The growth of its worker's running time is the response time of the only request.
    "the only one is exact, unseen": (
        [worker((0, 5), IDLE, running_time=2.0), worker((0, 6), IDLE, running_time=2.125)],
        {},
        0.125,
    ),
    "the only one is exact, seen": (
        [
            worker((0,), IDLE, running_time=2.0),
            *[worker((0,), busy(), running_time=2.0)] * 3,
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
        {Sighting(UNSEEN, 5 * GAP): 1, Sighting(UNSEEN, GAP): 7},
    ),
    "a thread that was held before, long": (
        [*HELD, worker((1, 7), IDLE, running_time=2.9)],
        {Sighting(3 * GAP, GAP): 1, Sighting(UNSEEN, GAP): 7},
    ),
    "a running time is unknown after uWSGI's clock was set back": (
        [worker((0,), IDLE, running_time=2.0), worker((1,), IDLE), worker((2,), IDLE)],
        {Sighting(UNSEEN, GAP): 2},
    ),
    "static requests are left out": ([FREE, worker((1,), IDLE, static=1)], {}),
    "the request that was seen longest is not static": (
        [worker((0, 0), IDLE), worker((0, 0), busy()), worker((1, 2), IDLE, static=2)],
        {Sighting(0.0, GAP): 1},
    ),
    "of two that were seen, the longer is not static": (
        [worker((0, 0), IDLE), *[worker((0, 0), busy())] * 2, worker((0, 0), BOTH), worker((1, 1), IDLE, static=1)],
        {Sighting(2 * GAP, GAP): 1},
    ),
    # The running time is that of another request, which is counted later.
    "a static request is not exact": (
        [worker((0,), IDLE, running_time=1.0), worker((1,), IDLE, running_time=1.2, static=1)],
        {},
    ),
    "a killed worker's requests are lost": (
        [*LOST, worker((4,), IDLE, pid=None), worker((4,), IDLE, pid=8), worker((5,), IDLE, pid=8, since_spawn=1)],
        {Sighting(UNSEEN, GAP): 1},
    ),
    "the request of a successor on the same thread is another one": (
        [*LOST, worker((4,), busy(), pid=8), worker((5,), IDLE, pid=8, since_spawn=1)],
        {Sighting(0.0, GAP): 1},
    ),
    "a successor that completes one at once": (
        [*LOST, worker((5,), IDLE, pid=8, since_spawn=1)],
        {Sighting(UNSEEN, GAP): 1},
    ),
    "a worker that ends after a request has completed it": (
        [worker((4,), IDLE), worker((4,), busy()), worker((5,), IDLE, pid=8, since_spawn=0)],
        {Sighting(0.0, GAP): 1},
    ),
    "a worker of cheaper mode that is stopped and spawned again adds nothing": (
        [
            worker((4, 2), IDLE),
            worker((4, 2), IDLE, pid=None),
            worker((4, 2), IDLE, pid=9),
            worker((5, 2), IDLE, pid=9, since_spawn=1),
        ],
        {Sighting(UNSEEN, GAP): 1},
    ),
    "without starts, before uWSGI 2.0.14, counts suffice": (
        [FREE, *[worker((0,), busy(None))] * 2, DONE],
        {Sighting(GAP, GAP): 1},
    ),
    # uWSGI counts a request before it writes the log.
    "a thread that still writes the log serves no second request": (
        [FREE, BUSY, worker((1,), busy()), DONE],
        {Sighting(0.0, GAP): 1},
    ),
    "a client that sends nothing is no request": ([FREE, *[BUSY] * 9, FREE], {}),
    "the time of a client that sends nothing is not that of the next request": (
        [FREE, *[BUSY] * 9, worker((0,), busy(EPOCH + 12)), DONE],
        {Sighting(0.0, GAP): 1},
    ),
    "gevent takes a slot before a request arrives": (
        [worker((0,) * 4, IDLE), worker((0,) * 4, {3: None}), worker((0,) * 4, IDLE)],
        {},
    ),
    "greenlets take slots from the top of a stack": (
        [
            worker((0,) * 4, IDLE),
            worker((0,) * 4, {3: EPOCH, 2: EPOCH}),
            worker((0, 0, 0, 1), {2: EPOCH}),
            worker((0, 0, 1, 9), IDLE),
        ],
        {Sighting(0.0, GAP): 1, Sighting(GAP, GAP): 1, Sighting(UNSEEN, GAP): 8},
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
    seen = observe(
        [
            worker((0,), IDLE, running_time=2.0),
            *[worker((0,), busy(), running_time=2.0)] * 3,
            worker((1,), IDLE, running_time=2.0 + grown),
        ]
    )
    assert only(seen) == Sighting(2 * GAP, GAP)


def test_a_gap_forgets_nothing_that_uwsgi_says():
    """After a gap, a request in service began when uWSGI says, to the second."""
    observer, seen = Observer(), Sightings()
    observer.restart(sample(10.0), (worker((0,), IDLE),))
    observer.restart(sample(20.0), (worker((7,), busy(EPOCH + 13)),))
    observer.follow(sample(20.25), (worker((8,), IDLE),), seen)
    assert only(seen) == Sighting(20 - 14, (1 + GAP) / 2).rounded()


def test_in_service_at_the_first_sample():
    """It began within the second that uWSGI names, and at the latest at the sample."""
    seen = only(observe([worker((0,), busy(EPOCH + 4)), worker((1,), IDLE)]))
    assert seen == Sighting(5.0, (1 + GAP) / 2).rounded()
    assert only(observe([worker((0,), busy(EPOCH + 10)), worker((1,), IDLE)])).between == 0


@pytest.mark.parametrize(("start", "ahead"), [(None, 0.0), (EPOCH + 10, -5.0), (2**62, 0.0)])
def test_a_start_that_is_not_known(start, ahead):
    """Before 2.0.14 there is none, and one in the future shows another clock: nothing is known of it."""
    assert observe([worker((0,), busy(start)), worker((0,), busy(start)), worker((1,), IDLE)], ahead=ahead) == (
        Sightings()
    )


def test_a_slow_master():
    """A document may have been written at any time in a second: requests are on average as long."""
    seen = observe([worker((0,), IDLE), *[worker((0,), busy())] * 9, worker((1,), IDLE)], read_seconds=1.0)
    assert only(seen) == Sighting(8 * GAP - 1.0, GAP + 1.0).rounded()
    assert only(seen).sampled_seconds == 9 * GAP


@pytest.mark.parametrize("now", [(0,), (5, 5, 5), (-4, 2**60), (2**60, 2**60), (-(2**60), 0)])
def test_counts_that_cannot_be(now):
    """Counts that decrease, jump, or change their number raise nothing, and add no negative number."""
    both = {0: EPOCH + 10, 1: EPOCH + 10}
    seen = observe(
        [worker((3, 3), both), worker(now, {0: EPOCH + 9, len(now) - 1: None}), worker((4, 4), IDLE, static=2**40)]
    )
    assert all(number > 0 for number in seen.kinds.values())
    assert all(kind.gap > 0 for kind in seen.kinds)


def test_times_that_go_backwards():
    """They raise nothing: the response time is then at least 0."""
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
            kind = Sighting(
                chance.choice((UNSEEN, chance.uniform(0, 0.5), chance.lognormvariate(1, 2))), 0.2 * chance.random()
            )
            rounded = kind.rounded(coarseness)
            grain = coarseness * max(kind.gap / 8, kind.between / 8)
            assert rounded.between == pytest.approx(kind.between, abs=grain)
            assert rounded.gap == pytest.approx(kind.gap, abs=coarseness * kind.gap / 8)
