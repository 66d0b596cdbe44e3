"""Whether a backend is saturated: only if its time grows with the load, and never because it is slow."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.analysis.simulated_backend import Backend, at_times_slow, constant, run, spread, steady, wave, windows
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.backends import ALL, SLICE_SECONDS, SLOWER_NOW, BackendSlices, find_saturated
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.wait_states import Backend as NamedBackend
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits
from uwsgi_headroom.history.window import Window

SWINGING = wave(12, 52, 10)
"""From 30 to 130 % of two servers that take 50 ms, and back."""

SATURATED = Backend(constant(0.05), servers=2)
PARTS = list(windows(SATURATED, SWINGING, 120, 1))
SEEDS = range(2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("draw", [constant(0.05), spread(0.05)])
def test_a_saturated_backend(draw, seed):
    """Two servers of 50 ms complete 40 requests a second, however many threads wait; it is known after two minutes."""
    found = run(Backend(draw, servers=2), SWINGING, 120, seed).find_saturation()
    assert (found.name, found.high) == (ALL, pytest.approx(40, rel=0.1))
    assert found.few < 5
    assert 10 < found.many <= 16
    assert 0.05 <= found.few_seconds < 0.2
    assert found.many_seconds > 0.25


def down_at_times(now: float, _chance: random.Random) -> float:
    """No request is completed for five seconds of each half minute, and all that waited are completed after that."""
    return 0.05 + max(0.0, 5 - now % 30)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("backend", "rate"),
    [
        # It has room for all, takes a constant time or a random one, and fills the threads.
        (Backend(constant(0.05)), SWINGING),
        (Backend(constant(0.3)), SWINGING),
        (Backend(constant(0.6)), SWINGING),  # all threads are in use much of the time
        (Backend(spread(0.3)), SWINGING),
        (Backend(spread(0.3, 3.0)), SWINGING),
        (Backend(spread(0.3, 3.0)), steady(35)),
        (Backend(spread(0.6)), wave(5, 50, 60)),
        # At 30 and 70 % of what it can do, it takes a little longer with more requests in it.
        (SATURATED, steady(12)),
        (SATURATED, steady(28)),
        (SATURATED, wave(4, 16, 10)),
        # If all threads wait all the time, a backend that is saturated looks like a slow one.
        (SATURATED, steady(60)),
        (Backend(constant(0.4)), steady(60)),
        (Backend(down_at_times), wave(12, 52, 10)),
    ],
)
def test_a_backend_that_is_only_slow(backend, rate, seed):
    """It is not called saturated."""
    assert run(backend, rate, 300, seed).find_saturation() is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [steady(30), wave(12, 40, 10), wave(12, 40, 60)])
@pytest.mark.parametrize("every", [3, 20, 60])
def test_a_backend_that_is_slow_at_times(rate, every, seed):
    """Six times as slow in phases of its own, it has many requests in it when it is slow, at any load."""
    assert run(Backend(at_times_slow(0.08, 6, every, seed)), rate, 300, seed).find_saturation() is None


@pytest.mark.parametrize(
    "slices",
    [
        # Once up and down is not enough: something else may have changed at the same time.
        run(SATURATED, wave(12, 52, 100), 100, 1),
        run(SATURATED, SWINGING, 20, 1),
        BackendSlices(),
        # A server with one thread never has two requests in a backend.
        run(Backend(constant(0.05), servers=1), wave(2, 30, 10), 300, 1, threads=1),
    ],
)
def test_too_little_is_no_evidence(slices):
    """Nothing is concluded."""
    assert slices.find_saturation() is None


def slices_of(*parts: Window) -> BackendSlices:
    slices = BackendSlices()
    for part in parts:
        slices.add(part)
    return slices


def known(seconds: float, **changes: Any) -> WaitFigures:
    """A minute of 16 threads, of which 15 wait for a backend, for so long in each request."""
    requests = round(60 * 15 / seconds)
    minute = window(60, worker(1, requests, each=16 * 60 / requests), waits={"backend": 15.0, "cpu": 1.0})
    found = compute_waits(minute, compute_flow(minute))
    if threads := changes.pop("threads", None):
        found = replace(found, states=(replace(found.states[0], threads=threads),))
    return replace(found, **changes)


FEW = {"threads": 1.4, "total": 1.5}


def named_backends(**threads: float) -> tuple[NamedBackend, ...]:
    rows = threads.items()
    return tuple(NamedBackend(name=name, address="", threads=each, per_request=each / 15) for name, each in rows)


@pytest.mark.parametrize(
    ("times", "changes", "is_found"),
    [
        (1.01 * SLOWER_NOW, {}, True),
        (0.99 * SLOWER_NOW, {}, False),
        (3, FEW, False),  # few threads wait for it
        (4, FEW, True),
        (20, {"total": 31.0}, False),
    ],
)
def test_only_a_window_in_which_it_is_slow_counts(times, changes, is_found):
    """A backend that was saturated half an hour ago, and is fast now, is not."""
    slices = slices_of(*PARTS)
    found = slices.find_saturation()
    assert find_saturated(known(times * found.few_seconds, **changes), slices) == (found if is_found else None)
    assert find_saturated(None, slices) is find_saturated(known(1.0), None) is None


def test_backends_with_names_are_judged_by_themselves():
    """The one for which most of these threads wait counts. Two without a name are one: which of them, nobody knows."""
    slices = BackendSlices()
    for slow, fast in zip(PARTS, windows(Backend(constant(0.01)), SWINGING, 120, 2), strict=True):
        means = (part.waits.seconds.get("backend", 0.0) / part.waits.observed_seconds for part in (slow, fast))
        numbers = dict(zip(("postgres", "redis"), means, strict=True))
        slices.add(window(SLICE_SECONDS, *slow.workers, waits={"backend": sum(numbers.values())}, backends=numbers))
    found = slices.find_saturation("postgres")
    assert found.name == "postgres"
    assert [bool(slices.find_saturation(name)) for name in (ALL, "redis", "mysql")] == [True, False, False]
    named = known(1.0, backends=named_backends(postgres=14.0, redis=1.0))
    assert find_saturated(named, slices) == found
    assert find_saturated(replace(named, backends=named_backends(postgres=1.0, redis=14.0)), slices) is None


def test_reloads_and_gaps_are_left_out():
    """A slice counts only if it is known, and has no reload. New names of backends begin anew."""
    slices = BackendSlices()
    for part in PARTS:
        slices.add(replace(part, reloads=1))
        slices.add(replace(part, observed_seconds=0.9))
        slices.add(replace(part, waits=None))
        slices.add(replace(part, waits=replace(part.waits, seconds={**part.waits.seconds, "unknown": 8.0})))
    assert slices.find_saturation() is None
    slices = slices_of(*PARTS)
    assert slices.find_saturation()
    slices.add(window(SLICE_SECONDS, worker(1, 1), waits={"backend": 1.0}, backends={"postgres": 1.0}))
    assert slices.find_saturation() is None


def test_an_hour_is_kept():
    """What is older than an hour is forgotten: an hour of rest after a saturated backend shows none."""
    slices = slices_of(*PARTS, *windows(Backend(constant(0.05)), steady(2), 3700, 1))
    assert slices.find_saturation() is None
