"""Response times from samples to totals: gaps, reloads, lost requests, and what never decreases."""

import math
import random
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.history.response_times.simulated_requests import worker
from tests.support.simulated_server import EPOCH, Server, reading
from tests.support.windows import by_share
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS, Bins
from uwsgi_headroom.history.response_times.estimator import Division
from uwsgi_headroom.history.response_times.totals import BatchHistory, MissCounter, Misses
from uwsgi_headroom.history.totals import copy_totals
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.stats import Snapshot

STEP = 0.25


class Recorded:
    """A server that is sampled every quarter of a second. threshold: seconds of its objective."""

    def __init__(self, server=None, threshold=0.8):
        self.server = server or Server(2, 4)
        self.integrals = Integrals(threshold)
        self.at = 0.0
        self.sample()

    def sample(self, steps=1, pause=STEP, each=0):
        for _ in range(steps):
            self.at += pause
            if each:
                self.serve(each)
            self.integrals.add(self.server.read(self.at), longest_step=1.0)
        return self

    def serve(self, requests, each=0.1, worker_id=1):
        self.server.serve(worker_id, requests, each)
        return self

    @property
    def missed(self):
        totals = self.integrals.totals
        return totals.missed_slow, totals.missed_waited, totals.missed_lost, totals.missed_refused

    @property
    def totals(self):
        assert self.integrals.totals.response_times
        return self.integrals.totals.response_times


def test_a_batch_ends_within_five_seconds():
    recorded = Recorded().serve(10).sample(18)
    assert (recorded.totals.requests, recorded.totals.seconds) == (0, 0.0)
    recorded.sample(3)
    assert recorded.totals.requests == 10
    assert recorded.totals.seconds == pytest.approx(1.0)
    assert recorded.totals.count_up_to(3600.0) == 10
    # With four seconds between samples, a batch has two of them.
    recorded = Recorded()
    recorded.integrals.add(recorded.server.read(4.0), longest_step=5.0)
    recorded.serve(3)
    recorded.integrals.add(recorded.server.read(8.0), longest_step=5.0)
    assert recorded.totals.requests == 3
    window = recorded.integrals.response_times.history.window(0.0, 8.0)
    assert window.interval == pytest.approx(4.0, rel=0.1)


def test_partial_samples_show_shorter_times():
    """They show how long a request of 100 ms took; every other figure is as without them."""
    totals, windows = [], []
    for between in (0, 9):
        recorded = Recorded(Server(2, 2))
        slot = recorded.server[1]
        for _ in range(24):
            began = recorded.at
            for place in range(1, between + 1):
                at = began + STEP * place / (between + 1)
                slot.request_starts = (EPOCH + int(began),) * 2 if 0.04 < at - began < 0.14 else ()
                slot.busy = len(slot.request_starts)
                if place == 6:
                    recorded.serve(2)
                recorded.integrals.add_partial(replace(recorded.server.read(at), partial=True))
            if not between:
                recorded.serve(2)
            recorded.sample()
        totals.append(replace(recorded.integrals.totals, response_times=None))
        windows.append(recorded.integrals.response_times.history.window(0.0, recorded.at))
    assert totals[0] == totals[1]
    without, beside = map(compute_percentiles, windows)
    assert by_share(without)[0.5].seconds is None
    assert beside.interval == pytest.approx(STEP / 10)
    assert by_share(beside)[0.5].seconds == pytest.approx(0.1, rel=0.2)


def test_partial_samples_that_follow_no_other_add_nothing():
    recorded = Recorded().serve(8).sample(4)
    before = copy_totals(recorded.integrals.totals)
    recorded.integrals.miss(recorded.at + 0.01)
    recorded.serve(3)
    recorded.integrals.add_partial(replace(recorded.server.read(recorded.at + 0.1), partial=True))
    assert recorded.integrals.totals.response_times == before.response_times
    reloaded = Recorded().serve(8).sample(4)
    reloaded.server.reload(reloaded.at)
    reloaded.integrals.add_partial(replace(reloaded.server.read(reloaded.at + 0.1), partial=True))
    assert reloaded.serve(5).sample(24).totals.requests == 13


def test_requests_of_a_gap_are_counted():
    recorded = Recorded().serve(8).sample(24).serve(5).sample(1, pause=60.0).sample(24)
    assert recorded.totals.requests == 13
    assert recorded.totals.seconds == pytest.approx(1.3)
    window = recorded.integrals.response_times.history.window(0.0, recorded.at)
    assert window.interval == pytest.approx(STEP)


def test_counters_go_on_after_a_reload():
    recorded = Recorded(Server(4, 4)).serve(7, worker_id=4).sample(24)
    expected = 7
    for processes in (4, 2, 3):
        recorded.server.reload(recorded.at, processes)
        recorded.sample(4).serve(6, worker_id=2).sample(24)
        expected += 6
        assert recorded.totals.requests == expected
        assert recorded.totals.seconds == pytest.approx(0.1 * expected)
        assert recorded.totals.lost == 0


def test_lost_requests_are_counted_apart():
    recorded = Recorded()
    recorded.server.busy(0, 2)
    recorded.sample(4)
    recorded.server.respawn(2, recorded.at)
    recorded.sample(24)
    assert (recorded.totals.requests, recorded.totals.lost) == (0, 2)
    recorded.server.reload(recorded.at, 1)
    recorded.sample(48)
    assert recorded.totals.lost == 2


def test_static_requests_are_left_out():
    """uWSGI may count a request as static a moment before it counts the request: no other one is counted twice."""
    recorded = Recorded().serve(4).sample(24)
    slot = recorded.server[1]
    slot.static_requests += 1
    recorded.sample(24)
    slot.requests += 1
    recorded.sample(24)
    assert recorded.totals.requests == 4
    slot.requests, slot.static_requests = slot.requests + 50, slot.static_requests + 80
    recorded.sample(24).serve(31).sample(24)
    assert recorded.totals.requests == 5


def test_a_document_without_workers():
    """While uWSGI starts, it lists none: totals stay."""
    recorded = Recorded().serve(9).sample(24)
    assert isinstance(recorded.server.read(recorded.at + 0.1).snapshot, Snapshot)
    recorded.server.slots, kept = [], recorded.server.slots
    recorded.sample(4)
    assert recorded.totals.requests == 9
    recorded.server.slots = kept
    recorded.sample(24).serve(3).sample(24)
    assert recorded.totals.requests >= 12
    # Without cores nothing is known.
    assert Recorded(Server(cores=False)).serve(9).sample(24).integrals.totals.response_times is None


def hostile(seed):
    """Yields readings of a server that writes whatever it likes: counts, threads, times and workers that jump."""
    chance, at, snapshot = random.Random(seed), 100.0, Server().read(0.0).snapshot
    numbers = (0, 1, 5, 1000, 2**31, 2**60)
    for _ in range(60):
        at += chance.choice((0.05, 0.2, 0.2, 4.0, 5.0, 30.0, -1.0))
        workers = []
        for number in range(chance.choice((2, 2, 2, 0, 3))):
            threads = chance.choice((2, 2, 2, 1, 64))
            counts = tuple(chance.choice(numbers) for _ in range(threads))
            starts = (None, 0, 1, 1_700_000_090, 2**62)
            serving = {thread: chance.choice(starts) for thread in range(chance.randint(0, threads))}
            figures = {"running_time": chance.choice((None, 0.0, 0.3, 1e3, 1e12)), "static": chance.choice(numbers)}
            process = {"pid": chance.choice((7, 7, 7, 8, None)), "since_spawn": chance.choice(numbers)}
            workers.append(worker(counts, serving, worker_id=number + 1, **figures, **process))
        yield reading(at, replace(snapshot, workers=tuple(workers)), HostFacts(off="test"))


@given(seed=st.integers(0, 2**32))
@example(seed=116)
@settings(max_examples=12, derandomize=True)
def test_totals_never_decrease(seed):
    integrals = Integrals(0.75)
    bounds = sorted({*BUCKET_BOUNDS, 0.75})
    before = ()
    for sample in hostile(seed):
        integrals.add(sample, longest_step=5.0)
        totals = integrals.totals.response_times
        if totals is None:
            before = ()
            continue
        buckets = [totals.count_up_to(bound) for bound in bounds]
        assert all(isinstance(bucket, int) for bucket in buckets)
        assert buckets == sorted(buckets)
        assert buckets[-1] <= totals.requests
        slow = totals.requests - totals.count_up_to(0.75)
        every = integrals.totals
        missed = (every.missed_slow, every.missed_waited, every.missed_lost, every.missed_refused)
        counted = [number or 0 for number in (every.judged, *missed)]
        now = (*buckets, slow, totals.requests, totals.seconds, totals.lost, *counted)
        assert sum(counted[1:]) <= counted[0]
        assert all(map(math.isfinite, now))
        assert not before or all(later >= earlier for earlier, later in zip(before, now, strict=True))
        before = now


def test_a_copy_stays():
    recorded = Recorded().serve(10).sample(24)
    copy = replace(recorded.totals)
    recorded.serve(10).sample(24)
    assert (copy.requests, recorded.totals.requests) == (10, 20)
    assert (copy.count_up_to(3600.0), recorded.totals.count_up_to(3600.0)) == (10, 20)


def test_a_queue_that_takes_longer_than_the_threshold():
    """With 40 requests a second and 90 in the queue, each waits 2.2 s: all of them miss; none does once it is empty."""
    watched = Recorded(Server(2, 8, queue=90), 1.0).sample(82, each=10)
    judged = watched.integrals.totals.judged
    assert judged is not None
    assert judged > 600
    assert watched.missed == (0, judged, 0, 0)
    watched.server.queue = 0
    watched.sample(24, each=10)
    before = watched.missed
    assert watched.sample(120, each=10).missed == before


def test_a_request_that_hangs_is_one_miss():
    """It counts within a batch of getting there, for as long as it hangs, over a gap, and when it is lost at last."""
    server = Server(2, 4)
    watched = Recorded(server, 1.0).sample(8, each=5)
    server.busy(0, 1)
    server[2].request_starts = (1_700_000_000 + int(watched.at),)
    watched.sample(120, each=5)
    assert watched.missed == (1, 0, 0, 0)
    watched.sample(1, pause=60.0).sample(120, each=5)
    assert watched.missed == (1, 0, 0, 0)
    server.respawn(2, watched.at)
    server[2].request_starts = ()
    watched.sample(120, each=5)
    assert watched.missed == (1, 0, 0, 0)


def test_without_an_objective_nothing_is_judged():
    """Nor on one sample alone."""
    integrals = Integrals()
    server = Server(2, 4)
    for second in range(20):
        integrals.add(server.read(float(second)), longest_step=5.0)
    assert integrals.totals.judged is None
    assert Recorded(server, 1.0).missed == (0, 0, 0, 0)


BINS = Bins()


def division(*seconds, number=1.0):
    counts = [0.0] * len(BINS)
    for each in seconds:
        counts[BINS.find(each)] += number
    return Division(counts, [count / 2 for count in counts])


def filled(batches, *seconds):
    history = BatchHistory(BINS)
    for place in range(1, batches + 1):
        lost, slow = int(place % 10 == 0), sum(each > 1.0 for each in seconds)
        missed = Misses(len(seconds) + lost, slow, 0.0, lost)
        history.add(5.0 * place, 5.0, 0.2, len(seconds), lost, division(*seconds), missed)
    return history


def test_a_window_has_the_batches_that_ended_in_it():
    window = filled(10, 0.1, 2.0, 2.0).window(10.0, 25.0)
    assert (window.requests, window.interval) == (9, pytest.approx(0.2))
    assert window.counts[BINS.find(2.0)] == 6
    assert window.doubt[BINS.find(0.1)] == 1.5


def test_no_batches_no_window():
    assert BatchHistory(BINS).window(0.0, 9e9) is None
    assert BatchHistory(BINS).slow_requests(0.0, 9e9) is None
    assert BatchHistory(BINS).ended == float("-inf")
    history = filled(3, 0.1)
    assert history.ended == 15.0
    assert history.window(15.0, 99.0) is None
    assert history.window(9.0, 1.0) is None
    history = BatchHistory(BINS)
    history.add(5.0, 5.0, 0.2, 0, 1, Division((), ()), Misses(1, 0.0, 0.0, 1))
    window, slow = history.window(0.0, 5.0), history.slow_requests(0.0, 5.0)
    assert slow
    assert (window.requests, sum(window.counts)) == (0, 0)
    assert slow == (5.0, 0, 0, 1, 0, 0)


def test_requests_that_took_as_long_as_the_bound_are_not_slower():
    assert filled(20, 0.99, 1.0, 1.2, 9.0).slow_requests(0.0, 50.0) == (50.0, 40, 20.0, 1, 0, 0)
    assert filled(20, 0.99, 1.0).slow_requests(0.0, 100.0) == (100.0, 40, 0.0, 2, 0, 0)
    # The count has one that is lost later once, as slow, from when it was in service beyond the threshold.
    history = BatchHistory(BINS)
    history.add(5.0, 5.0, 0.2, 0, 0, Division((), ()), Misses(3, 3.0))
    history.add(10.0, 5.0, 0.2, 0, 2, Division((), ()), Misses())
    assert history.slow_requests(0.0, 10.0) == (10.0, 1, 1.0, 2, 0, 0)


def test_an_hour_is_kept():
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


def counts(**by_time):
    """Requests by bin: `fast` of 0.1 s, `slow` of 3 s."""
    numbers = [0.0] * len(MISS_BINS)
    numbers[MISS_BINS.find(0.1)], numbers[MISS_BINS.find(3.0)] = by_time.get("fast", 0.0), by_time.get("slow", 0.0)
    return numbers


class Counted(MissCounter):
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
    counted = Counted()
    counted.batch(10, overdue=4)
    assert counted.batch(10, lost=6) == Misses(12, 0, 0, 2)
    assert counted.total == Misses(26, 4, 0, 2)
    # A client that sent nothing is in service and never counted: the next miss is that one.
    counted = Counted()
    counted.batch(10, overdue=2)
    assert counted.batch(10) == Misses(10)
    assert counted.batch(10, 3) == Misses(11, 1)
    assert counted.total == Misses(33, 3)
    # A reload leaves no debt.
    counted = Counted()
    counted.batch(10, overdue=2)
    assert counted.batch(10, joined=False) == Misses(10)
    assert counted.batch(10, 3) == Misses(13, 3)


TEN_TO_ONE = (*[True] * 9, False)


def test_it_never_decreases():
    chance = random.Random(7)
    counted, before = Counted(), Misses()
    for _ in range(3000):
        batch = {"lost": (0, 0, 0, 2, 8), "refused": (0, 0, 500), "overdue": (0, 0, 1, 8, 64), "joined": TEN_TO_ONE}
        waits = [(chance.choice((0.0, 0.95, 1e9)), 0.25), (chance.choice((0.0, 0.5)), 0.75)]
        drawn = {name: chance.choice(values) for name, values in batch.items()}
        counted.batch(chance.choice((0, 0, 1, 40)), chance.choice((0, 0, 1, 9)), waits=waits, **drawn)
        now = counted.total
        assert all(later >= earlier for earlier, later in zip(before, now, strict=True))
        assert now.missed <= now.requests + 1e-6
        before = now
