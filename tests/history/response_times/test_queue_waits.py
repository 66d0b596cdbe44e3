"""Waits in listen queues from samples, against simulations in which each wait is known, and against odd samples."""

import random
from bisect import bisect_right

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct, field

from tests.support.windows import by_share
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.queue_waits import MOST_FOLLOWED, BatchWaits, Left, QueueFollower, count_all
from uwsgi_headroom.history.response_times.totals import BatchHistory
from uwsgi_headroom.record import Backlog, Waiting

INTERVAL = 0.2
BINS = Bins()


class Queue(Struct):
    """What a FIFO queue in front of some threads did: for each request, when it came and when a thread took it."""

    came: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)

    @property
    def waits(self):
        return [taken - came for came, taken in zip(self.came, self.taken, strict=True)]


def simulate(threads, load, serve, seconds, seed):
    """Random arrivals; load: of the threads, with a mean time in service of 0.1 s."""
    chance, queue, at = random.Random(seed), Queue(), 0.0
    free = [0.0] * threads
    while at < seconds:
        at += chance.expovariate(load * threads / 0.1)
        first = min(range(threads), key=free.__getitem__)
        taken = max(at, free[first])
        free[first] = taken + serve(chance)
        queue.came.append(at)
        queue.taken.append(taken)
    return queue


def look(queue, at, kind):
    """A sample of it: the backlog, the list of what waits, and how many were accepted by then. Both are in order."""
    accepted, come = bisect_right(queue.taken, at), bisect_right(queue.came, at)
    numbers = range(accepted, come)
    listed = Waiting(tuple((number + 1, at - queue.came[number] if kind == "tcp" else None) for number in numbers))
    return Backlog(len(numbers), 100, None), {} if kind == "counts" or not numbers else {"s": listed}, accepted


def follow(queue, kind, seconds, calm=False):
    """Yields the time of each sample, who left, and how many were accepted. calm: beside one without a queue."""
    chance, follower, at, before = random.Random(1), QueueFollower(), 0.0, 0
    while at < seconds:
        step = INTERVAL * chance.uniform(0.8, 1.2)
        at += step
        backlog, listed, accepted = look(queue, at, kind)
        new, before = accepted - before, accepted
        if calm:
            queues, mapped = {"s": backlog, "calm": Backlog(0, 100, None)}, {"s": new, "calm": new}
            yield at, follower.follow(at, step, queues, listed, 2 * new, mapped), accepted
        else:
            yield at, follower.follow(at, step, {"s": backlog}, listed, new), accepted


def mean_wait(left, accepted):
    return sum([(each.seconds or 0.0) * each.number for each in left]) / accepted


def true_waits(queue, at):
    return sorted(wait for wait, taken in zip(queue.waits, queue.taken, strict=True) if taken <= at)


def add_batch(history, at, left, accepted):
    batch = BatchWaits(BINS)
    batch.add(left, accepted)
    batch.end(history, at, at, INTERVAL)


@pytest.mark.parametrize("kind", ["tcp", "unix", "counts"])
@pytest.mark.parametrize(
    ("threads", "load", "serve"),
    [
        (1, 0.9, lambda chance: chance.expovariate(10)),
        (4, 0.95, lambda chance: chance.expovariate(10)),
        (2, 0.97, lambda _: 0.1),
        (2, 0.9, lambda chance: 0.9 if chance.random() < 0.1 else 1 / 90),
    ],
    ids=["1x1", "4 threads", "constant", "two kinds"],
)
def test_percentiles_of_simulated_queues(kind, threads, load, serve):
    """From two intervals on, a percentile is within 5 % of the truth, and the mean within 3 %."""
    queue = simulate(threads, load, serve, 120.0, seed=7)
    samples = list(follow(queue, kind, 120.0))
    left, (at, _, accepted) = [each for _, left, _ in samples for each in left], samples[-1]
    history, waits = BatchHistory(BINS), true_waits(queue, 120.0)
    add_batch(history, at, left, accepted)
    assert mean_wait(left, accepted) == pytest.approx(sum(waits) / len(waits), rel=0.03)
    for share, found in by_share(compute_percentiles(count_all(history, 0.0, at, accepted))).items():
        truth = waits[int(share * len(waits))]
        assert found.low <= truth <= found.high
        if truth >= 2 * INTERVAL:
            assert found.seconds == pytest.approx(truth, rel=0.05)


def test_requests_of_mapped_sockets_are_apart():
    queue = simulate(2, 0.97, lambda _: 0.1, 60.0, seed=5)
    samples = list(follow(queue, "unix", 60.0, calm=True))
    left, (at, _, accepted) = [each for _, left, _ in samples for each in left], samples[-1]
    waits, found = true_waits(queue, at), [each for each in left if each.seconds]
    assert sum([each.number for each in left]) <= 2 * accepted
    assert sum([each.number for each in found]) == pytest.approx(accepted, rel=0.03)
    assert mean_wait(found, accepted) == pytest.approx(sum(waits) / len(waits), rel=0.03)


class Sampled:
    def __init__(self):
        self.follower = QueueFollower()
        self.at = 0.0

    def sample(self, length, *connections, accepted=0, step=0.5):
        self.at += 0.5
        listed = {"s": Waiting(connections, len(connections) == length)} if connections else {}
        return self.follower.follow(self.at, step, {"s": Backlog(length, 100, None)}, listed, accepted)

    @property
    def oldest(self):
        return self.follower.oldest().get("s")


def test_the_oldest_request():
    """Over TCP its age is the kernel's. A UNIX client's begins between two samples. An empty queue has none."""
    tcp, unix = Sampled(), Sampled()
    tcp.sample(2, (7, 3.0), (8, 0.1))
    assert tcp.oldest == 3.0
    tcp.sample(2, (8, 0.6), (7, 0.2))
    assert tcp.oldest == pytest.approx(3.5)
    unix.sample(0)
    unix.sample(1, (7, None))
    assert unix.oldest == pytest.approx(0.25)
    unix.sample(1, (7, None))
    assert unix.oldest == pytest.approx(0.75)
    assert unix.sample(0, accepted=1) == [Left(pytest.approx(1.0), 1.0)]
    assert unix.oldest == 0.0


def test_a_queue_that_was_there_before():
    """A UNIX client has waited at least since the first sample, or the gap; over TCP it is known."""
    unix, tcp = Sampled(), Sampled()
    unix.sample(1, (7, None), step=0.0)
    assert unix.oldest == 0.0
    unix.sample(2, (7, None), (8, None), step=0.0)
    assert unix.oldest == 0.5
    assert unix.sample(0, accepted=2) == [Left(None, 1.0), Left(None, 1.0)]
    tcp.sample(1, (7, 9.0), step=0.0)
    assert tcp.sample(0, accepted=1, step=0.0) == []
    tcp.sample(1, (8, 9.0), step=0.0)
    assert tcp.sample(0, accepted=1) == [Left(pytest.approx(9.25), 1.0)]


def test_lists_that_are_not_complete():
    """While only the length is known, as many left as uWSGI accepted; who stays keeps the age."""
    sampled = Sampled()
    sampled.sample(0)
    sampled.sample(3, (7, None), (8, None), (9, None))
    assert len(sampled.sample(4, accepted=1)) == 1
    sampled.sample(4, (8, None), (9, None), (10, None), (11, None))
    assert sampled.oldest == pytest.approx(1.25)
    sampled.sample(900, (8, 60.0))
    assert sampled.oldest == 60.0
    # What uWSGI did not count has left if the list lacks it, and a queue that shrinks lost at least so many.
    sampled = Sampled()
    sampled.sample(3, (7, None), (8, None), (9, None))
    assert len(sampled.sample(1, (9, None))) == 2
    assert len(sampled.sample(0)) == 1


def test_no_queue_is_too_long():
    sampled = Sampled()
    assert sampled.sample(2**60, accepted=2**60) == []
    assert sampled.oldest is None
    sampled.sample(MOST_FOLLOWED, accepted=2**60)
    assert sum(left.number for left in sampled.sample(1, accepted=2**60)) == pytest.approx(2**60)


def test_requests_that_nobody_saw_waiting():
    """They count as not having waited; those of which nothing is known do not count."""
    history = BatchHistory(BINS)
    assert count_all(history, 0.0, 10.0, 100) is None
    add_batch(history, 5.0, [Left(None, 20.0)], 20)
    assert count_all(history, 0.0, 10.0, 120) is None
    add_batch(history, 10.0, [Left(3.0, 2.0)], 50)
    found = compute_percentiles(count_all(history, 0.0, 10.0, 120))
    assert found.requests == 100
    assert by_share(found)[0.5].seconds is None
    assert by_share(found)[0.99].seconds == pytest.approx(3.0, rel=0.1)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.lists(st.tuples(st.integers(1, 8), st.none() | st.floats(0, 1e6)), max_size=6),
            st.integers(0, 50),
            st.sampled_from([0.0, 0.5, 30.0]),
        ),
        max_size=12,
    )
)
@example([(1, [], 0, 0.0), (5, [(1, None)] * 4 + [(1, 2.0)], 0, 0.0), (1, [], 0, 0.0)])
def test_no_wait_is_negative_whatever_the_samples_say(samples):
    sampled = Sampled()
    for length, connections, accepted, step in samples:
        left = sampled.sample(length, *connections, accepted=accepted, step=step)
        assert all((each.seconds or 0.0) >= 0 and each.number > 0 for each in left)
        assert sampled.oldest is not None
        assert sampled.oldest >= 0
