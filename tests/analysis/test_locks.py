"""The limit that a lock of the application sets: by how long it is held, or by who waits for it."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import accumulate

import msgspec
import pytest

from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.locks import LEAST_USE, LockFigures, compute_lock
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.record import ServerRecord, WorkerRecord


def locked(number: int, requests: int, held: float | None, *, waited: float = 0.0, known: float = 60.0) -> WorkerWindow:
    """A worker of a minute whose lock was held and waited for in these parts of the time in which it was known."""
    return msgspec.structs.replace(
        worker(number, requests),
        up_seconds=60.0,
        lock_seconds=known,
        lock_waited_seconds=waited * known,
        lock_held_seconds=None if held is None else held * known,
    )


def lock_of(window_: Window) -> LockFigures:
    lock = compute_lock(window_)
    assert lock
    return lock


def test_each_worker_has_its_own() -> None:
    """A request holds it for 48 ms on average: four of them serve 83.3 a second, however unevenly they are used."""
    shares = (0.8, 0.5, 0.4, 0.1)
    lock = lock_of(window(60, *(locked(n, round(60 * use / 0.048), use) for n, use in enumerate(shares, 1))))
    assert lock.limit == pytest.approx(4 / 0.048, rel=0.001)
    assert (lock.least_limit, lock.most_limit) == (lock.limit, lock.limit)
    assert (lock.use, lock.hottest, lock.scope) == (pytest.approx(0.45, rel=0.001), 0.8, "worker")
    assert lock.is_known


def test_workers_whose_lock_is_not_known() -> None:
    """One that hardly serves anything never showed a waiter: its requests need the lock as those of the others do."""
    known = (locked(1, 600, 0.48), locked(2, 300, 0.24))
    lock = lock_of(
        window(60, *known, locked(3, 50, 0.9, known=2.0), msgspec.structs.replace(worker(4, 10), up_seconds=60.0))
    )
    assert lock.limit == pytest.approx(4 / 0.048)


@pytest.mark.parametrize("held", [0.0, 0.39])
def test_hardly_used(held: float) -> None:
    """Below 40 % in the worker that uses it most, the limit is not known."""
    lock = compute_lock(window(60, locked(1, 600, held)))
    assert lock is None or not lock.is_known
    assert (lock is None) == (held == 0)


def test_too_little_is_known() -> None:
    """A few requests, or a lock that was seen for a short part of the window, say nothing."""
    assert compute_lock(window(60, locked(1, 19, 0.9))) is None
    assert compute_lock(window(60, locked(1, 600, 0.9, known=29.0))) is None
    assert compute_lock(window(9, locked(1, 600, 0.9, known=9.0))) is None
    assert compute_lock(window(60, worker(1, 600))) is None
    assert compute_lock(window(60)) is None


def test_a_lock_of_a_file() -> None:
    """All processes share it."""
    lock = lock_of(
        replace(window(60, worker(1, 600), worker(2, 120)), file_lock_seconds=50.0, file_lock_held_seconds=30.0)
    )
    assert (lock.scope, lock.use, lock.limit) == ("file", 0.6, pytest.approx(20.0))
    none = replace(window(60, worker(1, 600)), file_lock_seconds=20.0, file_lock_held_seconds=20.0)
    assert compute_lock(none) is None


def test_the_lock_that_is_used_most() -> None:
    """Of a worker's and a file's lock, the one whose limit comes first counts."""
    both = replace(window(60, locked(1, 600, 0.5)), file_lock_seconds=60.0, file_lock_held_seconds=54.0)
    assert lock_of(both).scope == "file"
    assert lock_of(replace(both, file_lock_held_seconds=27.0)).scope == "worker"


def queue(use: float, *, spread: bool) -> tuple[float, float]:
    """The parts of the time in which a lock is held and waited for, if 200,000 requests come at random."""
    chance = random.Random(5)
    arrivals = accumulate(chance.expovariate(use) for _ in range(200_000))
    begins = released = held = waited = 0.0
    for at in arrivals:
        holds = chance.expovariate(1.0) if spread else 1.0
        # The request before waits until `begins`; from then on, this one does until the lock is free.
        waited += max(0.0, released - max(at, begins))
        begins = max(at, released)
        released = begins + holds
        held += holds
    return held / released, waited / released


@pytest.mark.parametrize("use", [0.4, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("spread", [False, True])
def test_a_range_from_those_who_wait(use: float, *, spread: bool) -> None:
    """If it may not be read that the lock is held, the true limit is in the range, and near its middle."""
    held, waited = queue(use, spread=spread)
    lock = lock_of(window(60, locked(1, 600, None, waited=waited)))
    true = 10.0 / held
    assert lock.least_limit * 0.97 <= true <= lock.most_limit * 1.03
    assert lock.limit == pytest.approx(true, rel=0.25)


@pytest.mark.parametrize("waited", [0.0, 1.0])
def test_nobody_or_always_someone_waits(waited: float) -> None:
    """Without a waiter nothing is known; with one all the time, the lock is at its limit."""
    lock = compute_lock(window(60, locked(1, 600, None, waited=waited)))
    assert lock is None if not waited else lock is not None and lock.limit == pytest.approx(10.0)


def test_figures_have_it() -> None:
    """Headroom names the lock as a limit; or says that there is one, if requests wait for one of unknown use."""
    server = ServerRecord(workers=(WorkerRecord(1, "accepting", 8),))
    figures = compute_figures(window(60, locked(1, 600, 0.8), waits={"lock": 2.0, "sleep": 1.0}), server)
    assert (figures.headroom.first, figures.headroom.by_limit["lock"]) == ("lock", pytest.approx(1.25))
    assert figures.headroom.unknown == ()
    for share, unknown in ((0.04, ()), (0.06, ("lock",))):
        waits = {"lock": share, "sleep": 1 - share}
        assert compute_figures(window(60, worker(1, 600), waits=waits), server).headroom.unknown == unknown  # type: ignore[arg-type]
    assert compute_figures(window(60, locked(1, 600, LEAST_USE / 2)), server).headroom.unknown == ("lock",)
