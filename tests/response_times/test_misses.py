"""What missed an objective: slow, waiting, lost and refused requests, each of them once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.support.simulated_server import Server
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.totals import MissCounter, Misses

BINS = Bins((1.0,))
STEP = 0.25


def counts(**by_time: float) -> list[float]:
    """Requests by bin: `fast` of 0.1 s, `slow` of 3 s."""
    numbers = [0.0] * len(BINS)
    numbers[BINS.find(0.1)], numbers[BINS.find(3.0)] = by_time.get("fast", 0.0), by_time.get("slow", 0.0)
    return numbers


class Counted:
    def __init__(self) -> None:
        self.counter = MissCounter(1.0, BINS)

    def batch(
        self,
        fast: int = 0,
        slow: int = 0,
        *,
        lost: int = 0,
        refused: int = 0,
        waits: Sequence[tuple[float, float]] = ((0.0, 1.0),),
        overdue: int = 0,
        joined: bool = True,
    ) -> Misses:
        return self.counter.add(
            fast + slow,
            counts(fast=fast, slow=slow) if fast + slow else [],
            lost=lost,
            refused=refused,
            waits=waits,
            overdue=overdue,
            joined=joined,
        )

    @property
    def total(self) -> Misses:
        return self.counter.total


def test_slow_lost_and_refused() -> None:
    """Each is a request, and a miss."""
    assert Counted().batch(90, 5, lost=3, refused=2) == Misses(100, 5, 0, 3, 2)
    assert Counted().batch(10) == Misses(10)
    assert Counted().batch() == Misses()


@pytest.mark.parametrize(("wait", "waited"), [(0.0, 0), (0.5, 0), (0.95, 90), (1.0, 90), (1.1, 90), (60.0, 90)])
def test_the_wait_in_the_queue_counts(wait: float, waited: float) -> None:
    """A wait beyond the threshold makes all requests misses, and one near it those that it takes beyond; a request
    that is slow in service is not counted again."""
    added = Counted().batch(90, 10, waits=[(wait, 1.0)])
    assert added == Misses(100, 10, waited)
    assert added.missed == 10 + waited


def test_each_waited_for_itself() -> None:
    """A fifth of the requests waited too long, which makes a fifth of the quick ones misses; their mean would not."""
    added = Counted().batch(90, 10, waits=[(0.0, 0.8), (2.0, 0.2)])
    assert added.waited == pytest.approx(18)
    assert Counted().batch(90, 10, waits=[(0.4, 1.0)]).waited == 0


def test_in_service_beyond_the_threshold_has_missed() -> None:
    """It counts when it gets there, and not again when it is completed."""
    counted = Counted()
    assert counted.batch(50, overdue=4) == Misses(54, 4)
    assert counted.batch(50, overdue=4) == Misses(50)
    assert counted.batch(50, 4, overdue=0) == Misses(50)
    assert counted.batch(50, 3, overdue=2) == Misses(55, 5)
    assert counted.total == Misses(209, 9)


def test_overdue_and_then_lost_is_one_miss() -> None:
    """A worker that is killed with requests beyond the threshold loses those that have missed already."""
    counted = Counted()
    counted.batch(10, overdue=4)
    assert counted.batch(10, lost=6) == Misses(12, 0, 0, 2)
    assert counted.total == Misses(26, 4, 0, 2)


def test_what_was_no_request_is_owed() -> None:
    """A client that sent nothing is in service and never counted: the next miss is that one."""
    counted = Counted()
    counted.batch(10, overdue=2)
    assert counted.batch(10) == Misses(10)
    assert counted.batch(10, 3) == Misses(11, 1)
    assert counted.total == Misses(33, 3)


def test_a_reload_leaves_no_debt() -> None:
    """Requests that end with a reload have missed, and those after it count."""
    counted = Counted()
    counted.batch(10, overdue=2)
    assert counted.batch(10, joined=False) == Misses(10)
    assert counted.batch(10, 3) == Misses(13, 3)


def test_it_never_decreases() -> None:
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


class Watched:
    """A server that is sampled every quarter of a second, with a threshold of a second."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.integrals = Integrals((1.0,), 1.0)
        self.at = 0.0

    def sample(self, seconds: float, *, pause: float = STEP, each: int = 0) -> Watched:
        """Samples for so long, with so many requests of 100 ms completed between two of them."""
        for _ in range(round(seconds / pause)):
            self.at += pause
            if each:
                self.server.serve(1, each, 0.1)
            self.integrals.add(self.server.read(self.at), longest_step=1.0)
        return self

    @property
    def missed(self) -> tuple[int | None, ...]:
        totals = self.integrals.totals
        return totals.missed_slow, totals.missed_waited, totals.missed_lost, totals.missed_refused


def test_a_queue_that_takes_longer_than_the_threshold() -> None:
    """With 40 requests a second and 90 in the queue, each waits 2.2 s: all of them miss; none does once it is empty."""
    watched = Watched(Server(2, 8, queue=90)).sample(20.5, each=10)
    judged = watched.integrals.totals.judged
    assert judged is not None
    assert judged > 600
    assert watched.missed == (0, judged, 0, 0)
    watched.server.queue = 0
    watched.sample(6, each=10)
    before = watched.missed
    assert watched.sample(30, each=10).missed == before


def test_a_request_that_hangs_is_one_miss() -> None:
    """It counts within a batch of getting there, for as long as it hangs, over a gap, and when it is lost at last."""
    server = Server(2, 4)
    watched = Watched(server).sample(2, each=5)
    server.busy(0, 1)
    server[2].request_starts = (1_700_000_000 + int(watched.at),)
    watched.sample(30, each=5)
    assert watched.missed == (1, 0, 0, 0)
    watched.sample(60, pause=60.0).sample(30, each=5)
    assert watched.missed == (1, 0, 0, 0)
    server.respawn(2, watched.at)
    server[2].request_starts = ()
    watched.sample(30, each=5)
    assert watched.missed == (1, 0, 0, 0)


def test_without_an_objective_nothing_is_judged() -> None:
    """Nor on one sample alone."""
    integrals = Integrals()
    server = Server(2, 4)
    for second in range(20):
        integrals.add(server.read(float(second)), longest_step=5.0)
    assert integrals.totals.judged is None
    first = Watched(server).sample(STEP)
    assert first.missed == (0, 0, 0, 0)
