"""Integrals of what threads wait for, and windows of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools.support.simulated_server import Server
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.rows import compare_rows, pack_row
from uwsgi_headroom.history.totals import Totals, WaitTotals
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import STATES, Waits

STEP = 1.0


def waiting(busy: int = 0, *, pg: float = 0.0, lock: dict[int, float] | None = None, **threads: float) -> Waits:
    return Waits(threads=threads, backends={"pg": pg}, interpreter_lock=lock or {}, busy=busy)  # type: ignore[arg-type]


def read(at: float, waits: Waits | None, server: Server | None = None) -> Reading:
    reading = (server or Server(processes=2)).read(at)
    return replace(reading, host=replace(reading.host, waits=waits))


def totals_of(*readings: Reading) -> Totals:
    integrals = Integrals()
    for reading in readings:
        integrals.add(reading, STEP)
    return integrals.totals


def seconds(totals: Totals, state: str) -> float:
    assert totals.waits
    return totals.waits.seconds[STATES.index(state)]  # type: ignore[arg-type]


def test_time_between_two_samples_is_linear() -> None:
    """Two threads that sleep become four within a second: three seconds of sleep."""
    totals = totals_of(read(10, waiting(sleep=2, pg=1, backend=1)), read(11, waiting(sleep=4, pg=2, backend=2)))
    assert totals.waits
    assert (seconds(totals, "sleep"), seconds(totals, "backend"), totals.waits.backends) == (3, 1.5, {"pg": 1.5})
    assert (totals.waits.observed_seconds, totals.waits.since) == (1, 10)


def test_disagreement_is_absolute() -> None:
    """Too many and too few threads do not cancel each other out."""
    totals = totals_of(read(10, waiting(1, sleep=3)), read(11, waiting(3, sleep=1)))
    assert totals.waits
    assert totals.waits.disagreement_seconds == 2


def test_a_gap_adds_nothing() -> None:
    """A pause longer than the longest step is not observed."""
    totals = totals_of(*(read(at, waiting(cpu=1)) for at in (10, 11, 60, 61)))
    assert totals.waits
    assert (totals.waits.observed_seconds, seconds(totals, "cpu")) == (2, 2)


def test_off_and_on_again() -> None:
    """While it is unknown what threads wait for, nothing is added, and it is known anew only since the next sample."""
    off = Waits(off="not permitted")
    totals = totals_of(*(read(at, off if at == 12 else waiting(cpu=1)) for at in (10, 11, 12, 13, 14)))
    assert totals.waits
    assert (totals.waits.observed_seconds, seconds(totals, "cpu"), totals.waits.since) == (2, 2, 13)
    unknown = totals_of(read(10, waiting(cpu=1)), read(11, None))
    assert unknown.waits
    assert unknown.waits.since is None
    assert totals_of(read(10, off), read(11, None)).waits is None


def test_waits_of_a_worker_that_is_no_more() -> None:
    """After a reload with fewer workers, the lock of the former ones is not added to another."""
    before = read(10, waiting(interpreter_lock=4, lock={1: 1, 4: 3}), Server(processes=4))
    after = read(11, waiting(interpreter_lock=1, lock={1: 1}), Server(processes=2))
    totals = totals_of(before, after)
    assert len(totals.workers) == 2
    assert [worker.interpreter_lock_seconds for worker in totals.workers] in ([1, 0], [0, 0])


def history_of(*readings: Reading) -> History:
    integrals, history = Integrals(), History()
    for reading in readings:
        integrals.add(reading, STEP)
        history.add(reading.at, integrals.totals)
    return history


def test_windows() -> None:
    """A window has what was added in it, without the states that were not seen."""
    history = history_of(*(read(at, waiting(1, cpu=1, pg=0.5, lock={1: 2})) for at in range(10, 41)))
    window = history.window(20)
    assert window
    assert window.waits
    assert window.waits.observed_seconds == pytest.approx(20)
    assert window.waits.seconds == {"cpu": pytest.approx(20)}
    assert window.waits.backends == {"pg": pytest.approx(10)}
    assert [worker.interpreter_lock_seconds for worker in window.workers] == [pytest.approx(40), 0]


@pytest.mark.parametrize("hole", [None, Waits(off="why")])
def test_no_window_unless_known_throughout(hole: Waits | None) -> None:
    """A window in which it was once unknown has no waits; one after that has."""
    history = history_of(*(read(at, hole if at == 20 else waiting(cpu=1)) for at in range(10, 41)))
    long, short = history.window(25), history.window(15)
    assert long
    assert short
    assert long.waits is None
    assert [worker.interpreter_lock_seconds for worker in long.workers] == [None, None]
    assert short.waits
    assert short.waits.seconds == {"cpu": pytest.approx(15)}


def test_unknown_at_the_end() -> None:
    """A window that ends without waits has none."""
    window = history_of(*(read(at, waiting(cpu=1) if at < 40 else None) for at in range(10, 41))).window(20)
    assert window
    assert window.waits is None


def test_rows_wrap() -> None:
    """Times are stored modulo 2**32 hundredths of a second, which no difference within an hour shows."""
    before, after = (
        Totals(waits=WaitTotals(backends={"pg": 42949672.0})),
        Totals(waits=WaitTotals(backends={"pg": 42949674.0})),
    )
    assert before.waits
    assert after.waits
    before.waits.seconds[0], after.waits.seconds[0] = 42949670.0, 42949680.0
    _, _, states, backends = compare_rows(pack_row(before), pack_row(after), after).waits
    assert states[0] == pytest.approx(10)
    assert backends == [pytest.approx(2)]


def test_backends_begin_a_new_history() -> None:
    """Rows with and without backends are never compared."""
    history = history_of(*(read(at, None if at < 20 else waiting(cpu=1)) for at in range(10, 31)))
    assert history.seconds == pytest.approx(10)
    window = history.window(8)
    assert window
    assert window.waits
    assert window.waits.observed_seconds == pytest.approx(8)
