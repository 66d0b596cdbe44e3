"""Who holds what threads wait for as for a lock."""

from __future__ import annotations

import random

import pytest

from uwsgi_headroom.kernel.waits.holders import LEAST_WAITS, Holders
from uwsgi_headroom.record import Holder

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
def test_who_holds_it(samples: list[Sample], found: Holder | None) -> None:
    """A request, if one is at work beside those that wait; a thread that serves none, if none is."""
    holders = Holders()
    for waiting, at_work, shared in samples:
        holders.note({1: [LOCK] * waiting} if waiting else {}, {1} if at_work else (), shared)
    assert holders.find() == found


def test_a_lock_that_changes_hands_all_the_time_is_held_by_requests() -> None:
    """Each thread of the sample is looked at in its turn, and may be the holder at that time: of eight threads, none is
    in a third of the samples."""
    holders, chance = Holders(), random.Random(1)
    for _ in range(500):
        seen = sum(chance.random() < 1 / 8 for _ in range(8))
        holders.note({1: [LOCK] * (8 - seen)}, {1} if seen else (), 0)
    assert holders.find() == "request"


def test_each_worker_has_its_own() -> None:
    """A request at work in one worker holds nothing that those of another one wait for."""
    holders = Holders()
    for _ in range(10):
        holders.note({1: [LOCK], 2: [LOCK] * 9}, {1}, 0)
    assert holders.find() == "thread"


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([1, 2, 3, 4], "nobody"),
        ([1, 2, 1, 4], "request"),
        ([None] * 4, "request"),  # from CPython 3.13 on, threads wait for a Lock on their own stacks
        ([1], "request"),  # nobody else waits, so nothing is known of a queue
    ],
)
def test_threads_that_do_not_queue_wait_for_no_lock(places: list[int | None], found: Holder) -> None:
    """Each waits at an address of its own, as in a condition variable, while another request is at work."""
    holders = Holders()
    for _ in range(200):
        holders.note({1: places}, {1}, 0)
    assert holders.find() == found
