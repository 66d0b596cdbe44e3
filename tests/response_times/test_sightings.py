"""What samples show of single requests: when they began and ended, which were not seen, and which are known exactly."""

import random

import pytest

from tests.response_times.simulated_requests import NOTHING, worker
from tests.support.simulated_server import EPOCH, reading
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.response_times.sightings import UNSEEN, Kind, Observer, Sightings

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
    assert only(seen) == Kind((samples - 1) * GAP, GAP)
    assert only(seen).sampled_seconds == samples * GAP


def test_two_in_a_row_on_one_thread():
    """The thread's count tells a request from the next one, which is in service when the first is no more."""
    seen = observe([worker((0,), IDLE), *[worker((0,), busy())] * 3, *[worker((1,), busy())] * 2, worker((2,), IDLE)])
    assert seen.kinds == {Kind(2 * GAP, GAP): 1, Kind(GAP, GAP): 1}


def test_unseen():
    """Requests that began and ended between two samples are only counted, also on a thread that was busy before."""
    assert observe([worker((0, 0), IDLE), worker((3, 2), IDLE)]).kinds == {Kind(UNSEEN, GAP): 5}
    seen = observe([worker((0,), IDLE), worker((0,), busy()), worker((3,), IDLE)])
    assert seen.kinds == {Kind(0.0, GAP): 1, Kind(UNSEEN, GAP): 2}


def test_the_only_one_is_exact():
    """The growth of its worker's running time is the response time, whether or not samples saw it."""
    unseen = observe([worker((0, 5), IDLE, running_time=2.0), worker((0, 6), IDLE, running_time=2.125)])
    assert (unseen.exact, unseen.kinds) == ([0.125], {})
    seen = observe(
        [
            worker((0,), IDLE, running_time=2.0),
            *[worker((0,), busy(), running_time=2.0)] * 3,
            worker((1,), IDLE, running_time=2.75),
        ]
    )
    assert (seen.exact, seen.kinds) == ([0.75], {})


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
    assert only(seen) == Kind(2 * GAP, GAP)


def test_a_thread_that_was_held_before():
    """The running time says how long its request took, alone or with the worker's other requests."""
    held = [worker((0, 0), IDLE, running_time=2.0), *[worker((0, 0), busy(), running_time=2.0)] * 4]
    alone = observe([*held, worker((1, 0), IDLE, running_time=2.001)])
    assert (alone.exact, alone.kinds) == ([0.001], {})
    both = observe([*held, worker((1, 7), IDLE, running_time=2.3)])
    assert both.kinds == {Kind(UNSEEN, 5 * GAP): 1, Kind(UNSEEN, GAP): 7}
    long = observe([*held, worker((1, 7), IDLE, running_time=2.9)])
    assert long.kinds == {Kind(3 * GAP, GAP): 1, Kind(UNSEEN, GAP): 7}


def test_no_running_time():
    """Without it, after uWSGI's clock was set back during a request, nothing is exact."""
    seen = observe([worker((0,), IDLE, running_time=2.0), worker((1,), IDLE), worker((2,), IDLE)])
    assert seen.kinds == {Kind(UNSEEN, GAP): 2}


def test_static_requests_are_left_out():
    """Of requests of both kinds, those that samples saw longest are not static."""
    assert observe([worker((0,), IDLE), worker((1,), IDLE, static=1)]) == Sightings()
    seen = observe([worker((0, 0), IDLE), worker((0, 0), busy()), worker((1, 2), IDLE, static=2)])
    assert only(seen) == Kind(0.0, GAP)
    both = {0: EPOCH + 10, 1: EPOCH + 10}
    seen = observe(
        [
            worker((0, 0), IDLE),
            *[worker((0, 0), busy())] * 2,
            worker((0, 0), both),
            worker((1, 1), IDLE, static=1),
        ]
    )
    assert only(seen) == Kind(2 * GAP, GAP)


def test_static_requests_are_not_exact():
    """A running time beside a static request is that of another one, which is counted later."""
    seen = observe([worker((0,), IDLE, running_time=1.0), worker((1,), IDLE, running_time=1.2, static=1)])
    assert seen == Sightings()


def test_a_killed_worker():
    """Requests in service that ended with their process are left out: they were lost."""
    killed = [worker((4,), busy()), worker((4,), busy()), worker((4,), IDLE, pid=None)]
    assert observe([*killed, worker((4,), IDLE, pid=8), worker((5,), IDLE, pid=8, since_spawn=1)]).kinds == {
        Kind(UNSEEN, GAP): 1
    }


def test_a_successor_whose_thread_is_busy():
    """The request of the next process on the same thread is another one, and its end is not that of the lost one."""
    lost = [worker((4,), busy()), worker((4,), busy()), worker((4,), busy(), pid=8)]
    assert observe([*lost, worker((5,), IDLE, pid=8, since_spawn=1)]).kinds == {Kind(0.0, GAP): 1}
    at_once = observe([*lost[:2], worker((5,), IDLE, pid=8, since_spawn=1)])
    assert at_once.kinds == {Kind(UNSEEN, GAP): 1}


def test_completed_before_its_process_ended():
    """A worker that ends after a request, as with `max-requests`, has completed it."""
    seen = observe([worker((4,), IDLE), worker((4,), busy()), worker((5,), IDLE, pid=8, since_spawn=0)])
    assert only(seen) == Kind(0.0, GAP)


def test_a_gap_forgets_nothing_that_uwsgi_says():
    """After a gap, a request in service began when uWSGI says, to the second."""
    observer, seen = Observer(), Sightings()
    observer.restart(sample(10.0), (worker((0,), IDLE),))
    observer.restart(sample(20.0), (worker((7,), busy(EPOCH + 13)),))
    observer.follow(sample(20.25), (worker((8,), IDLE),), seen)
    assert only(seen) == Kind(20 - 14, (1 + GAP) / 2).rounded()


def test_in_service_at_the_first_sample():
    """It began within the second that uWSGI names, and at the latest at the sample."""
    assert only(observe([worker((0,), busy(EPOCH + 4)), worker((1,), IDLE)])) == Kind(5.0, (1 + GAP) / 2).rounded()
    assert only(observe([worker((0,), busy(EPOCH + 10)), worker((1,), IDLE)])).between == 0


@pytest.mark.parametrize(("start", "ahead"), [(None, 0.0), (EPOCH + 10, -5.0), (2**62, 0.0)])
def test_a_start_that_is_not_known(start, ahead):
    """Before 2.0.14 there is none, and one in the future shows another clock: nothing is known of it."""
    assert observe([worker((0,), busy(start)), worker((0,), busy(start)), worker((1,), IDLE)], ahead=ahead) == (
        Sightings()
    )


def test_exact_although_its_start_is_not_known():
    """Its running time says all."""
    seen = observe([worker((0,), busy(None), running_time=1.0), worker((1,), IDLE, running_time=9.0)])
    assert seen.exact == [8.0]


def test_without_starts_counts_suffice():
    """Before uWSGI 2.0.14, requests that begin between two samples are followed as well."""
    seen = observe([worker((0,), IDLE), *[worker((0,), busy(None))] * 2, worker((1,), IDLE)])
    assert only(seen) == Kind(GAP, GAP)


def test_a_slow_master():
    """A document may have been written at any time in a second: requests are on average as long."""
    seen = observe([worker((0,), IDLE), *[worker((0,), busy())] * 9, worker((1,), IDLE)], read_seconds=1.0)
    assert only(seen) == Kind(8 * GAP - 1.0, GAP + 1.0).rounded()
    assert only(seen).sampled_seconds == 9 * GAP


def test_counted_before_its_thread_is_idle():
    """uWSGI counts a request before it writes the log: the thread that still writes serves no second request."""
    seen = observe([worker((0,), IDLE), worker((0,), busy()), worker((1,), busy()), worker((1,), IDLE)])
    assert only(seen) == Kind(0.0, GAP)


def test_ended_uncounted():
    """A client that sends nothing occupies a thread, but is no request; nor is its time that of the next one."""
    silent = [worker((0,), IDLE), *[worker((0,), busy(EPOCH + 10))] * 9]
    assert observe([*silent, worker((0,), IDLE)]) == Sightings()
    seen = observe([*silent, worker((0,), busy(EPOCH + 12)), worker((1,), IDLE)])
    assert only(seen) == Kind(0.0, GAP)


def test_slots_of_gevent():
    """Greenlets take slots from the top of a stack; a slot that is taken before a request arrives adds none."""
    flicker = [worker((0,) * 4, IDLE), worker((0,) * 4, {3: None}), worker((0,) * 4, IDLE)]
    assert observe(flicker) == Sightings()
    top = [worker((0,) * 4, {3: EPOCH, 2: EPOCH}), worker((0, 0, 0, 1), {2: EPOCH})]
    assert observe([worker((0,) * 4, IDLE), *top, worker((0, 0, 1, 9), IDLE)]).kinds == {
        Kind(0.0, GAP): 1,
        Kind(GAP, GAP): 1,
        Kind(UNSEEN, GAP): 8,
    }


def test_cheaper():
    """A worker that is stopped and spawned again adds nothing; its requests afterwards count."""
    stopped = [worker((4, 2), IDLE), worker((4, 2), IDLE, pid=None)]
    seen = observe([*stopped, worker((4, 2), IDLE, pid=9), worker((5, 2), IDLE, pid=9, since_spawn=1)])
    assert only(seen) == Kind(UNSEEN, GAP)


def test_an_unchanged_document():
    """If the document did not change, workers are the same objects: the request goes on."""
    serving = worker((0,), busy())
    seen = observe([worker((0,), IDLE), serving, serving, serving, worker((1,), IDLE)])
    assert only(seen) == Kind(2 * GAP, GAP)


def test_requests_of_one_time_are_counted_together():
    """Requests that began and ended between the same samples are of one kind."""
    both = {0: EPOCH + 10, 1: EPOCH + 10}
    seen = observe([worker((0, 0), IDLE), worker((0, 0), both), worker((1, 1), IDLE)])
    assert seen.kinds == {Kind(0.0, GAP): 2}


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
            kind = Kind(
                chance.choice((UNSEEN, chance.uniform(0, 0.5), chance.lognormvariate(1, 2))), 0.2 * chance.random()
            )
            rounded = kind.rounded(coarseness)
            grain = coarseness * max(kind.gap / 8, kind.between / 8)
            assert rounded.between == pytest.approx(kind.between, abs=grain)
            assert rounded.gap == pytest.approx(kind.gap, abs=coarseness * kind.gap / 8)
