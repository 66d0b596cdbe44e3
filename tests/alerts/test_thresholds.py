"""A threshold that `check` and the alerts share is the same in both."""

from __future__ import annotations

import dataclasses

import pytest

from alerts.thresholds import Thresholds
from uwsgi_headroom.analysis import capacity, littles_law, objective, shortages, wait_states, worker_states
from uwsgi_headroom.analysis.findings import (
    clients,
    evenness,
    health,
    limits,
    load,
    log,
    memory,
    queue,
    recycling,
    setup,
    waits,
    workers,
)

MINUTES = 5
"""Length of `respawn_range`."""

SHARED = {
    "queue_filling": queue.FILLING,
    "lock_threads": waits.LEAST_THREADS,
    "clients_slow": waits.SLOW_CLIENTS[1],
    "queue_full": queue.FULL[0],
    "queue_wait_seconds": littles_law.MOST_WAIT,
    "queue_wait_least_seconds": littles_law.LEAST_WAIT,
    "queue_wait_ratio": littles_law.WAIT_RATIO,
    "queue_wait_severe_seconds": littles_law.SEVERE[0],
    "queue_wait_severe_ratio": littles_law.SEVERE[1],
    "burn_page_1h": objective.FAST_BURN,
    "burn_requests": objective.FEWEST_REQUESTS,
    "stuck_many": worker_states.MANY_STUCK,
    "lost": workers.MANY_LOST[0],
    "lost_part": workers.MANY_LOST[1],
    "unanswered": log.MANY_REFUSED[0],
    "unanswered_part": log.MANY_REFUSED[1],
    "respawns": max(workers.LOOP[0], workers.LOOP[1] * MINUTES),
    "respawns_cheaper": max(workers.LOOP_CHEAPER[0], workers.LOOP_CHEAPER[1] * MINUTES),
    "respawn_served": recycling.SERVED,
    "exceptions": clients.EXCEPTIONS[1],
    "memory_growth": health.GROWTH[0],
    "memory_growth_bytes": health.GROWTH[1],
    "uneven_interpreter": evenness.LOADED[0],
    "hot_worker_slower": evenness.SLOWER[1],
    "interpreter_full": load.INTERPRETER_FULL,
    "near_capacity": limits.THREADS_FULL,
    "cpu_full": shortages.CPU_FULL,
    "cpu_least": capacity.LEAST_OWN,
    "cpu_throttled": load.THROTTLED[1],
    "rejected": log.MANY_REFUSED[0],
    "rejected_part": log.MANY_REFUSED[1],
    "connection_shared_threads": waits.LEAST_SHARED,
    "descriptors": memory.NEAR_DESCRIPTORS,
    "loop_held": wait_states.MOSTLY,
    "output_blocked_threads": waits.LEAST_BLOCKED,
    "shared_cpu_load": setup.BUSY,
}
"""Thresholds, and the corresponding constants of `check`'s findings."""


@pytest.mark.parametrize("threshold", SHARED)
def test_a_shared_threshold_is_equal(threshold: str) -> None:
    """The shipped value equals the constant of the findings."""
    assert getattr(Thresholds(), threshold) == SHARED[threshold]


def test_the_range_of_respawns_is_what_they_are_compared_for() -> None:
    """`check` counts respawns per minute, and the threshold counts them within this range."""
    assert Thresholds().respawn_range == f"{MINUTES}m"


def test_a_knob_that_is_shared_says_so() -> None:
    """The thresholds whose text names `check` are those that this test compares."""
    named = {field.name for field in dataclasses.fields(Thresholds) if "s in `check`" in field.metadata["why"]}
    assert named == SHARED.keys()
