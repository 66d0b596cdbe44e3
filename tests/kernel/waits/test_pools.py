"""Pools that are too small, from how many threads of a worker work while others wait."""

from __future__ import annotations

import random

import pytest

from tests.support.simulated_server import Server
from uwsgi_headroom.kernel.waits.pools import LEAST_SAMPLES, Pools


def sizes(samples: list[tuple[int, int]], *, same: bool = False) -> dict[int, int]:
    """The sizes after samples of worker 1: threads that wait for a backend, and for a lock. same: always the same
    threads, not the next ones in each sample."""
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
        ([(5, 9)] * LEAST_SAMPLES, {1: 5}),
        ([(5, 9)] * (LEAST_SAMPLES - 1), {}),
        ([(5, 9), (4, 10), (5, 8)] * 5, {1: 5}),  # one of five computes now and then
        ([(5, 9), (4, 10)] * 10, {}),
        ([(1, 7)] * 20, {}),  # a lock: one at a time
        ([(0, 7)] * 20, {}),
        ([(5, 0)] * 20, {}),  # nobody waits
        ([(3, 0), (5, 2)] * 20, {1: 5}),
    ],
)
def test_a_fixed_number_that_works(samples: list[tuple[float, float]], found: dict[int, int]) -> None:
    """The size is the number that is seen again and again while others wait."""
    assert sizes(samples) == found


def test_threads_that_never_change_are_no_pool() -> None:
    """Two requests that are stuck at a backend, beside others that wait for a lock."""
    assert sizes([(2, 5)] * 20, same=True) == {}


def test_threads_that_wait_at_one_address_wait_for_a_lock() -> None:
    """Where the holder of a lock sleeps, and one more request that has had it, their number is as steady as a pool's;
    those that wait for a pool wait at addresses of their own."""
    for places, found in (([0x70, 0x70, 0x70], {}), ([0x70, 0x80, None, None], {1: 2})):
        pools = Pools()
        for place in range(20):
            pools.note({1: {place % 8, (place + 1) % 8}}, {1: places})
        assert pools.sizes() == found


def test_requests_beside_a_lock_are_no_pool() -> None:
    """If some requests wait for a lock and others for a backend, how many of each is chance."""
    chance = random.Random(1)
    assert sizes([(sum(chance.random() < 0.4 for _ in range(8)), 3) for _ in range(200)]) == {}


def test_a_pool_that_was_changed_and_a_worker_that_is_gone() -> None:
    """Old samples count for less and less."""
    pools, chance = Pools(), random.Random(1)
    for size in (5, 10):
        for _ in range(200):
            pools.note({1: set(chance.sample(range(16), size))}, {1: [None], 2: [None]})
    assert pools.sizes() == {1: 10}
    pools.forget_ended([worker for worker in Server(processes=2).read(0.0).snapshot.workers if worker.worker_id == 2])
    assert pools.sizes() == {}
