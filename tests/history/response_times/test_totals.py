"""The batches of the last hour, the windows over them, and what missed an objective, each request once."""

import random
import tracemalloc

import pytest

from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.estimator import Division
from uwsgi_headroom.history.response_times.totals import BatchHistory, MissCounter, Misses

BINS = Bins()


def division(*seconds, number=1.0):
    counts = [0.0] * len(BINS)
    for each in seconds:
        counts[BINS.find(each)] += number
    return Division(counts, [count / 2 for count in counts])


def filled(batches, *seconds):
    """Batches of 5 s with a request of each length, and a lost one in every tenth."""
    history = BatchHistory(BINS)
    for place in range(1, batches + 1):
        lost, slow = int(place % 10 == 0), sum(each > 1.0 for each in seconds)
        missed = Misses(len(seconds) + lost, slow, 0.0, lost)
        history.add(5.0 * place, 5.0, 0.2, len(seconds), lost, division(*seconds), missed)
    return history


def test_a_window_has_the_batches_that_ended_in_it():
    """Not that which ended at its start, but that which ends at its end."""
    window = filled(10, 0.1, 2.0, 2.0).window(10.0, 25.0)
    assert (window.requests, window.interval) == (9, pytest.approx(0.2))
    assert window.counts[BINS.find(2.0)] == 6
    assert window.doubt[BINS.find(0.1)] == 1.5


def test_no_batches_no_window():
    """Before the first batch, and in times without one, there is no window."""
    assert BatchHistory(BINS).window(0.0, 9e9) is None
    assert BatchHistory(BINS).slow_requests(0.0, 9e9) is None
    assert BatchHistory(BINS).ended == float("-inf")
    history = filled(3, 0.1)
    assert history.ended == 15.0
    assert history.window(15.0, 99.0) is None
    assert history.window(9.0, 1.0) is None


def test_batches_without_requests():
    history = BatchHistory(BINS)
    history.add(5.0, 5.0, 0.2, 0, 1, Division((), ()), Misses(1, 0.0, 0.0, 1))
    window, slow = history.window(0.0, 5.0), history.slow_requests(0.0, 5.0)
    assert slow
    assert (window.requests, sum(window.counts)) == (0, 0)
    assert slow == (5.0, 0, 0, 1, 0, 0)


def test_slow_requests():
    """Requests that took as long as the bound are not slower."""
    assert filled(20, 0.99, 1.0, 1.2, 9.0).slow_requests(0.0, 50.0) == (50.0, 40, 20.0, 1, 0, 0)
    assert filled(20, 0.99, 1.0).slow_requests(0.0, 100.0) == (100.0, 40, 0.0, 2, 0, 0)


def test_a_slow_request_that_is_lost_later_is_lost():
    """The count has it once, as slow, from when it was in service beyond the threshold."""
    history = BatchHistory(BINS)
    history.add(5.0, 5.0, 0.2, 0, 0, Division((), ()), Misses(3, 3.0))
    history.add(10.0, 5.0, 0.2, 0, 2, Division((), ()), Misses())
    assert history.slow_requests(0.0, 10.0) == (10.0, 1, 1.0, 2, 0, 0)


def test_an_hour_is_kept():
    """Older batches are forgotten; a minute more at most is kept."""
    history = filled(2000, 0.1)
    window = history.window(0.0, 10_000.0)
    assert 3600 / 5 <= window.requests <= 3660 / 5


def test_memory_of_an_hour():
    """An hour of batches with requests in 40 bins takes less than a megabyte."""
    many = division(*BINS.edges[60:100])
    tracemalloc.start()
    try:
        history = BatchHistory(BINS)
        for place in range(800):
            history.add(5.0 * place, 5.0, 0.2, 40, 0, many)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 50_000 < size < 1_000_000


MISS_BINS = Bins((1.0,))
STEP = 0.25


def counts(**by_time):
    """Requests by bin: `fast` of 0.1 s, `slow` of 3 s."""
    numbers = [0.0] * len(MISS_BINS)
    numbers[MISS_BINS.find(0.1)], numbers[MISS_BINS.find(3.0)] = by_time.get("fast", 0.0), by_time.get("slow", 0.0)
    return numbers


class Counted(MissCounter):
    """A counter of what misses a second."""

    def __init__(self):
        super().__init__(1.0, MISS_BINS)

    def batch(self, fast=0, slow=0, **more):
        usual = {"lost": 0, "refused": 0, "waits": ((0.0, 1.0),), "overdue": 0, "joined": True}
        return self.add(fast + slow, counts(fast=fast, slow=slow) if fast + slow else [], **usual | more)


def test_slow_lost_and_refused():
    assert Counted().batch(90, 5, lost=3, refused=2) == Misses(100, 5, 0, 3, 2)
    assert Counted().batch(10) == Misses(10)
    assert Counted().batch() == Misses()


@pytest.mark.parametrize(("wait", "waited"), [(0.0, 0), (0.5, 0), (0.95, 90), (1.0, 90), (1.1, 90), (60.0, 90)])
def test_the_wait_in_the_queue_counts(wait, waited):
    """A wait near the threshold makes those misses that it takes beyond; a slow one counts once."""
    added = Counted().batch(90, 10, waits=[(wait, 1.0)])
    assert added == Misses(100, 10, waited)
    assert added.missed == 10 + waited


def test_each_waited_for_itself():
    """A fifth of the requests waited too long, which makes a fifth of the quick ones misses; their mean would not."""
    assert Counted().batch(90, 10, waits=[(0.0, 0.8), (2.0, 0.2)]).waited == pytest.approx(18)
    assert Counted().batch(90, 10, waits=[(0.4, 1.0)]).waited == 0


def test_in_service_beyond_the_threshold_has_missed():
    """It counts when it gets there, and not again when it is completed."""
    counted = Counted()
    assert counted.batch(50, overdue=4) == Misses(54, 4)
    assert counted.batch(50, overdue=4) == Misses(50)
    assert counted.batch(50, 4, overdue=0) == Misses(50)
    assert counted.batch(50, 3, overdue=2) == Misses(55, 5)
    assert counted.total == Misses(209, 9)


def test_overdue_and_then_lost_is_one_miss():
    """A worker that is killed with requests beyond the threshold loses those that have missed already."""
    counted = Counted()
    counted.batch(10, overdue=4)
    assert counted.batch(10, lost=6) == Misses(12, 0, 0, 2)
    assert counted.total == Misses(26, 4, 0, 2)


def test_what_was_no_request_is_owed():
    """A client that sent nothing is in service and never counted: the next miss is that one."""
    counted = Counted()
    counted.batch(10, overdue=2)
    assert counted.batch(10) == Misses(10)
    assert counted.batch(10, 3) == Misses(11, 1)
    assert counted.total == Misses(33, 3)


def test_a_reload_leaves_no_debt():
    """Requests that end with a reload have missed, and those after it count."""
    counted = Counted()
    counted.batch(10, overdue=2)
    assert counted.batch(10, joined=False) == Misses(10)
    assert counted.batch(10, 3) == Misses(13, 3)


def test_it_never_decreases():
    """Whatever comes, each number grows, and no more requests have missed than count."""
    chance = random.Random(7)
    counted, before = Counted(), Misses()
    for _ in range(3000):
        counted.batch(
            chance.choice((0, 0, 1, 40)),
            chance.choice((0, 0, 1, 9)),
            lost=chance.choice((0, 0, 0, 2, 8)),
            refused=chance.choice((0, 0, 500)),
            waits=[(chance.choice((0.0, 0.95, 1e9)), 0.25), (chance.choice((0.0, 0.5)), 0.75)],
            overdue=chance.choice((0, 0, 1, 8, 64)),
            joined=chance.random() < 0.9,
        )
        now = counted.total
        assert all(later >= earlier for earlier, later in zip(before, now, strict=True))
        assert now.missed <= now.requests + 1e-6
        before = now
