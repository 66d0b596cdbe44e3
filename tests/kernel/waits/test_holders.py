"""Who holds what threads wait for: a request, another thread, a pool, or a mule."""

import random

import pytest

from tests.support.simulated_server import Server
from uwsgi_headroom.kernel.waits import holders
from uwsgi_headroom.kernel.waits.holders import LEAST_OF_A_POOL, LEAST_WAITS, Holders, Pools, UwsgiLocks
from uwsgi_headroom.record import LockHolder

LOCK = 0x7F00_1000

Sample = tuple[int, bool, int]
"""Threads of worker 1 that wait for a lock of it, whether another one is at work, and threads that wait for locks of
several processes."""


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ([(LEAST_WAITS - 1, False, 0)], None),
        ([(7, True, 0)] * 10, "request"),
        ([(7, False, 0)] * 10, "thread"),
        ([(7, False, 0)] * 9 + [(7, True, 0)], "thread"),  # one is about to begin, or to end
        ([(7, False, 0)] * 4 + [(7, True, 0)] * 6, "request"),  # the holder was missed now and then
        ([(0, True, 7)] * 10, "processes"),
        ([(2, True, 5)] * 10, "processes"),
        ([(5, True, 2)] * 10, "request"),
        ([(7, True, 0)] * 200 + [(7, False, 0)] * 400, "thread"),  # it changed
    ],
)
def test_who_holds_it(samples, found):
    """A request, if one is at work beside those that wait; a thread that serves none, if none is."""
    holders = Holders()
    for waiting, at_work, shared in samples:
        holders.note({1: [LOCK] * waiting} if waiting else {}, {1} if at_work else (), shared)
    assert holders.find() == found


def test_a_lock_that_changes_hands_all_the_time_is_held_by_requests():
    """Of eight threads, none holds it in a third of the samples. A worker's request holds nothing of another worker."""
    holders, chance = Holders(), random.Random(1)
    for _ in range(500):
        seen = sum(chance.random() < 1 / 8 for _ in range(8))
        holders.note({1: [LOCK] * (8 - seen)}, {1} if seen else (), 0)
    assert holders.find() == "request"
    holders = Holders()
    for _ in range(10):
        holders.note({1: [LOCK], 2: [LOCK] * 9}, {1}, 0)
    assert holders.find() == "thread"


@pytest.mark.parametrize(
    ("backends", "found"),
    [
        ([("db",)] * 20, "db"),
        ([("db",)] * 19, ""),  # too few samples
        ([("db",)] * 24 + [()] * 6, "db"),
        ([("db",)] * 20 + [()] * 10, ""),  # the holder mostly does something else
        ([("db", "db")] * 30, ""),  # these do not need the lock, or it is a pool
        ([("db",)] * 25 + [("mail",)] * 5, "db"),
    ],
)
def test_where_the_holder_waits(backends, found):
    """Whenever others wait for the lock, one thread of their worker waits for the same backend."""
    holders = Holders()
    for each in backends:
        holders.note({1: [LOCK]}, {1}, 0, {1: each, 2: ("cache",)})
    assert holders.behind == found


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([1, 2, 3, 4], "nobody"),
        ([1, 2, 1, 4], "request"),
        ([None] * 4, "request"),  # from CPython 3.13 on, threads wait for a Lock on their own stacks
        ([1], "request"),  # nobody else waits, so nothing is known of a queue
    ],
)
def test_threads_that_do_not_queue_wait_for_no_lock(places, found):
    holders = Holders()
    for _ in range(200):
        holders.note({1: places}, {1}, 0)
    assert holders.find() == found


def sizes(samples: list[tuple[int, int]], *, same: bool = False) -> dict[int, int]:
    """After samples of threads that wait for a backend, and for a lock. same: the same threads, not the next ones."""
    pools = Pools()
    for place, (backend, lock) in enumerate(samples):
        pools.note(
            {1: {(number + (0 if same else place)) % 16 for number in range(backend)}},
            {1: [None] * lock} if lock else {},
        )
    return pools.sizes()


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ([(5, 9)] * LEAST_OF_A_POOL, {1: 5}),
        ([(5, 9)] * (LEAST_OF_A_POOL - 1), {}),
        ([(5, 9), (4, 10), (5, 8)] * 5, {1: 5}),  # one of five computes now and then
        ([(5, 9), (4, 10)] * 10, {}),
        ([(1, 7)] * 20, {}),  # a lock: one at a time
        ([(0, 7)] * 20, {}),
        ([(5, 0)] * 20, {}),  # nobody waits
        ([(3, 0), (5, 2)] * 20, {1: 5}),
    ],
)
def test_a_fixed_number_that_works(samples, found):
    """The size is the number that is seen again and again while others wait."""
    assert sizes(samples) == found


def test_requests_beside_a_lock_are_no_pool():
    """How many wait for a lock, and how many for a backend, is chance; threads that never change are stuck."""
    assert sizes([(2, 5)] * 20, same=True) == {}
    chance = random.Random(1)
    assert sizes([(sum(chance.random() < 0.4 for _ in range(8)), 3) for _ in range(200)]) == {}
    # Beside a lock's sleeping holder, their number is as steady as a pool's, whose waiters have addresses of their own.
    for places, found in (([0x70, 0x70, 0x70], {}), ([0x70, 0x80, None, None], {1: 2})):
        pools = Pools()
        for place in range(20):
            pools.note({1: {place % 8, (place + 1) % 8}}, {1: places})
        assert pools.sizes() == found


def test_a_pool_that_was_changed_and_a_worker_that_is_gone():
    """Old samples count for less and less."""
    pools, chance = Pools(), random.Random(1)
    for size in (5, 10):
        for _ in range(200):
            pools.note({1: set(chance.sample(range(16), size))}, {1: [None], 2: [None]})
    assert pools.sizes() == {1: 10}
    pools.forget_ended([worker for worker in Server(processes=2).read(0.0).snapshot.workers if worker.worker_id == 2])
    assert pools.sizes() == {}


MASTER, MULE = 99, 200


@pytest.fixture
def snapshot(monkeypatch):
    monkeypatch.setattr(holders, "list_children", lambda pid: [101, 102, MULE] if pid == MASTER else [])
    monkeypatch.setattr(holders, "read_pid_numbers", lambda pid: (pid,))
    return Server(processes=2).read(1.0).snapshot


@pytest.mark.parametrize(
    ("pids", "found"),
    [
        ([MULE] * 30, LockHolder(MULE, 0, 1.0)),
        ([MULE, MULE, 0] * 10, LockHolder(MULE, 0, 2 / 3)),  # it has just changed hands
        ([MULE, 101, 102, 0] * 10, None),
        ([101] * 30, None),
        ([7] * 30, None),  # no child of the master
        ([MULE] * int(holders.LEAST_SAMPLES - 1), None),
        ([0] * 200 + [MULE] * 200, LockHolder(MULE, 0, 150 / 200)),
    ],
)
def test_who_holds_a_lock_of_uwsgi(snapshot, pids, found):
    locks = UwsgiLocks()
    for pid in pids:
        locks.note({"user 0": pid, "user 1": 0, "signal": MULE, "thunder": 101})
    assert locks.find(MASTER, snapshot) == found


def test_a_mule_in_a_container(snapshot, monkeypatch):
    """The document has the PID that it has there."""
    monkeypatch.setattr(holders, "read_pid_numbers", lambda pid: {MULE: (MULE, 5), 101: (101, 7)}.get(pid, ()))
    locks, of_worker = UwsgiLocks(), UwsgiLocks()
    for _ in range(30):
        locks.note({"user 0": 5})
        of_worker.note({"user 0": 7})
    assert (locks.find(MASTER, snapshot), of_worker.find(MASTER, snapshot)) == (LockHolder(MULE, 0, 1.0), None)


def test_another_of_its_locks(snapshot):
    """There are as many as `locks` says. Others are none of `uwsgi.lock()`; a document without a list names none."""
    locks, none = UwsgiLocks(), UwsgiLocks()
    for _ in range(30):
        locks.note({"user 0": 0, "user 3": MULE, "user x": MULE})
        none.note({"cache-default": MULE})
        none.note(None)
    assert locks.find(MASTER, snapshot) == LockHolder(MULE, 3, 1.0)
    assert none.find(MASTER, snapshot) is None
