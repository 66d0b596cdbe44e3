"""Whether a backend is saturated: only if its time grows with the load, and never because it is slow."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.analysis.simulated_backend import (
    Backend,
    Draw,
    Rate,
    at_times_slow,
    constant,
    run,
    spread,
    steady,
    wave,
    windows,
)
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.backends import ALL, SLICE_SECONDS, SLOWER_NOW, BackendSlices, find_saturated
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits
from uwsgi_headroom.history.window import Window

SWINGING = wave(12, 52, 10)
"""From 30 to 130 % of two servers that take 50 ms, and back."""

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("draw", [constant(0.05), spread(0.05)])
def test_a_saturated_backend(draw: Draw, seed: int) -> None:
    """Two servers of 50 ms complete 40 requests a second, however many threads wait; it is known after two minutes."""
    found = run(Backend(draw, servers=2), SWINGING, 120, seed).find_saturation()
    assert found
    assert found.name == ALL
    assert found.high == pytest.approx(40, rel=0.1)
    assert found.few < 5
    assert 10 < found.many <= 16
    assert 0.05 <= found.few_seconds < 0.2
    assert found.many_seconds > 0.25


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("draw", "rate"),
    [
        (constant(0.05), SWINGING),
        (constant(0.3), SWINGING),
        (constant(0.6), SWINGING),  # all threads are in use much of the time
        (spread(0.3), SWINGING),
        (spread(0.3, 3.0), SWINGING),
        (spread(0.3, 3.0), steady(35)),
        (spread(0.6), wave(5, 50, 60)),
    ],
)
def test_a_backend_that_is_only_slow(draw: Draw, rate: Rate, seed: int) -> None:
    """It has room for all, takes a constant time or a random one, and fills the threads: not saturated."""
    assert run(Backend(draw), rate, 300, seed).find_saturation() is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [steady(30), wave(12, 40, 10), wave(12, 40, 60)])
@pytest.mark.parametrize("every", [3, 20, 60])
def test_a_backend_that_is_slow_at_times(rate: Rate, every: float, seed: int) -> None:
    """Six times as slow in phases of its own, it has many requests in it whenever it is slow, whatever the load."""
    backend = Backend(at_times_slow(0.08, 6, every, seed))
    assert run(backend, rate, 300, seed).find_saturation() is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [steady(12), steady(28), wave(4, 16, 10)])
def test_a_calm_backend(rate: Rate, seed: int) -> None:
    """At 30 and 70 % of what it can do, it takes a little longer with more requests in it: not saturated."""
    assert run(Backend(constant(0.05), servers=2), rate, 300, seed).find_saturation() is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_steady_overload_shows_nothing(seed: int) -> None:
    """If all threads wait all the time, a backend that is saturated looks like a slow one."""
    assert run(Backend(constant(0.05), servers=2), steady(60), 300, seed).find_saturation() is None
    assert run(Backend(constant(0.4)), steady(60), 300, seed).find_saturation() is None


def test_too_little_is_no_evidence() -> None:
    """Once up and down is not enough: something else may have changed at the same time."""
    assert run(Backend(constant(0.05), servers=2), wave(12, 52, 100), 100, 1).find_saturation() is None
    assert run(Backend(constant(0.05), servers=2), SWINGING, 20, 1).find_saturation() is None
    assert BackendSlices().find_saturation() is None


def test_one_thread_cannot_tell() -> None:
    """A server with one thread never has two requests in a backend."""
    assert run(Backend(constant(0.05), servers=1), wave(2, 30, 10), 300, 1, threads=1).find_saturation() is None


def known(seconds: float, **changes: Any) -> WaitFigures:
    """A minute of 16 threads, of which 15 wait for a backend, for so long in each request."""
    requests = round(60 * 15 / seconds)
    minute = window(60, worker(1, requests, each=16 * 60 / requests), waits={"backend": 15.0, "cpu": 1.0})
    waits = compute_waits(minute, compute_flow(minute))
    assert waits
    return replace(waits, **changes)


def test_only_a_window_in_which_it_is_slow_counts() -> None:
    """A backend that was saturated half an hour ago, and is fast now, is not; nor one that few threads wait for."""
    slices = run(Backend(constant(0.05), servers=2), SWINGING, 120, 1)
    found = slices.find_saturation()
    assert found
    assert find_saturated(known(1.01 * SLOWER_NOW * found.few_seconds), slices) == found
    assert find_saturated(known(0.99 * SLOWER_NOW * found.few_seconds), slices) is None
    few = {"backend": 1.4}
    assert find_saturated(known(3 * found.few_seconds, threads=few, total=1.5), slices) is None
    assert find_saturated(known(4 * found.few_seconds, threads=few, total=1.5), slices) == found
    assert find_saturated(known(1.0, total=31.0), slices) is None
    assert find_saturated(None, slices) is None
    assert find_saturated(known(1.0), None) is None


def test_backends_with_names_are_judged_by_themselves() -> None:
    """The one for which most of these threads wait counts. Two without a name are one: which of them, nobody knows."""
    slices = BackendSlices()
    both = zip(
        windows(Backend(constant(0.05), servers=2), SWINGING, 120, 1),
        windows(Backend(constant(0.01)), SWINGING, 120, 2),
        strict=True,
    )
    for slow, fast in both:
        numbers = {"postgres": _mean(slow), "redis": _mean(fast)}
        slices.add(window(SLICE_SECONDS, *slow.workers, waits={"backend": sum(numbers.values())}, backends=numbers))
    found = slices.find_saturation("postgres")
    assert found
    assert (found.name, slices.find_saturation("redis")) == ("postgres", None)
    assert slices.find_saturation(ALL)
    assert slices.find_saturation("mysql") is None
    named = known(1.0, backends={"postgres": 14.0, "redis": 1.0}, backends_per_request={"postgres": 0.9, "redis": 0.1})
    assert find_saturated(named, slices) == found
    assert find_saturated(replace(named, backends={"postgres": 1.0, "redis": 14.0}), slices) is None


def _mean(part: Window) -> float:
    assert part.waits
    return part.waits.seconds.get("backend", 0.0) / part.waits.observed_seconds


def test_reloads_and_gaps_are_left_out() -> None:
    """A slice counts only if it is known, and has no reload. New names of backends begin anew."""
    slices = BackendSlices()
    parts = list(windows(Backend(constant(0.05), servers=2), SWINGING, 120, 1))
    for part in parts:
        slices.add(replace(part, reloads=1))
        slices.add(replace(part, observed_seconds=0.9))
        slices.add(replace(part, waits=None))
        assert part.waits
        slices.add(replace(part, waits=replace(part.waits, seconds={**part.waits.seconds, "unknown": 8.0})))
    assert slices.find_saturation() is None
    for part in parts:
        slices.add(part)
    assert slices.find_saturation()
    slices.add(window(SLICE_SECONDS, worker(1, 1), waits={"backend": 1.0}, backends={"postgres": 1.0}))
    assert slices.find_saturation() is None


def test_an_hour_is_kept() -> None:
    """What is older than an hour is forgotten: an hour of rest after a saturated backend shows none."""
    slices = run(Backend(constant(0.05), servers=2), SWINGING, 120, 1)
    assert slices.find_saturation()
    for part in windows(Backend(constant(0.05)), steady(2), 3700, 1):
        slices.add(part)
    assert slices.find_saturation() is None


def test_a_backend_that_was_down() -> None:
    """No request is completed for five seconds of each half minute, and all that waited are completed after that: that
    is no saturation."""

    def down_at_times(now: float, _chance: random.Random) -> float:
        return 0.05 + max(0.0, 5 - now % 30)

    for seed in SEEDS:
        assert run(Backend(down_at_times), wave(12, 52, 10), 300, seed).find_saturation() is None
