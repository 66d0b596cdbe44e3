"""The limit that a lock of the application sets: by how long it is held, or by who waits for it."""

import random
from itertools import accumulate

import pytest
from msgspec.structs import replace

from tests.analysis.judging import figures_of
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.locks import LEAST_USE, compute_lock
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.record import ServerRecord, WorkerRecord


def locked(number: int, requests: int, held: float | None, *, waited: float = 0.0, known: float = 60.0) -> WorkerWindow:
    """A worker of a minute whose lock was held and waited for in these parts of the time in which it was known."""
    return replace(
        worker(number, requests, up=60.0),
        lock_seconds=known,
        lock_waited_seconds=waited * known,
        lock_held_seconds=None if held is None else held * known,
    )


def of_file(*workers: WorkerWindow, known: float, held: float) -> Window:
    return replace(window(60, *workers), file_lock_seconds=known, file_lock_held_seconds=held)


def test_each_worker_has_its_own():
    """A request holds it for 48 ms on average: four of them serve 83.3 a second, however unevenly they are used."""
    uses = enumerate((0.8, 0.5, 0.4, 0.1), 1)
    lock = compute_lock(window(60, *(locked(number, round(60 * use / 0.048), use) for number, use in uses)))
    assert lock.least_limit == lock.most_limit == lock.limit == pytest.approx(4 / 0.048, rel=0.001)
    assert (lock.use, lock.hottest, lock.scope) == (pytest.approx(0.45, rel=0.001), 0.8, "worker")
    assert lock.is_known


def test_workers_whose_lock_is_not_known():
    """One that hardly serves anything never showed a waiter: its requests need the lock as those of the others do.
    Below 40 % in the worker that uses it most, the limit is not known; where someone always waits, it is reached."""
    known = (locked(1, 600, 0.48), locked(2, 300, 0.24), locked(3, 50, 0.9, known=2.0), worker(4, 10, up=60.0))
    assert compute_lock(window(60, *known)).limit == pytest.approx(4 / 0.048)
    assert not compute_lock(window(60, locked(1, 600, 0.39))).is_known
    assert compute_lock(window(60, locked(1, 600, None, waited=1.0))).limit == pytest.approx(10.0)


@pytest.mark.parametrize(
    "of",
    [
        window(60, locked(1, 600, 0.0)),
        window(60, locked(1, 19, 0.9)),
        window(60, locked(1, 600, 0.9, known=29.0)),
        window(9, locked(1, 600, 0.9, known=9.0)),
        window(60, worker(1, 600)),
        window(60),
        window(60, locked(1, 600, None, waited=0.0)),  # nobody waits
        of_file(worker(1, 600), known=20.0, held=20.0),
    ],
)
def test_too_little_is_known(of):
    """A few requests, or a lock that was seen for a short part of the window, say nothing."""
    assert compute_lock(of) is None


def test_a_lock_of_a_file():
    """All processes share it. Of a worker's and a file's lock, the one whose limit comes first counts."""
    lock = compute_lock(of_file(worker(1, 600), worker(2, 120), known=50.0, held=30.0))
    assert (lock.scope, lock.use, lock.limit) == ("file", 0.6, pytest.approx(20.0))
    both = [compute_lock(of_file(locked(1, 600, 0.5), known=60.0, held=held)).scope for held in (54.0, 27.0)]
    assert both == ["file", "worker"]


def queue(use: float, *, spread: bool) -> tuple[float, float]:
    """The parts of the time in which a lock is held and waited for, if 50,000 requests come at random."""
    chance = random.Random(5)
    arrivals = accumulate(chance.expovariate(use) for _ in range(50_000))
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
def test_a_range_from_those_who_wait(use, *, spread):
    """If it may not be read that the lock is held, the true limit is in the range, and near its middle."""
    held, waited = queue(use, spread=spread)
    lock = compute_lock(window(60, locked(1, 600, None, waited=waited)))
    true = 10.0 / held
    assert lock.least_limit * 0.97 <= true <= lock.most_limit * 1.03
    assert lock.limit == pytest.approx(true, rel=0.25)


@pytest.mark.parametrize(
    ("one", "waits", "unknown"),
    [
        (worker(1, 600), 0.04, ()),
        (worker(1, 600), 0.06, ("lock",)),  # requests wait for one of unknown use
        (locked(1, 600, LEAST_USE / 2), None, ("lock",)),
    ],
)
def test_figures_say_that_there_is_a_lock(one, waits, unknown):
    """Also where its limit is not known."""
    of = window(60, one, waits=waits and {"lock": waits, "sleep": 1 - waits})
    server = ServerRecord(workers=(WorkerRecord(1, "accepting", 8),))
    assert figures_of(of, server).headroom.unknown == unknown
    known = figures_of(window(60, locked(1, 600, 0.8), waits={"lock": 2.0, "sleep": 1.0}), server).headroom
    assert (known.first, known.by_limit["lock"], known.unknown) == ("lock", pytest.approx(1.25), ())
