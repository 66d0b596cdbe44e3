"""Integrals of what threads wait for, and windows of them."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.history.watched import Watched, totals_of
from tests.store.test_codec import full_record
from tests.support.simulated_server import Server
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.rows import compare_rows, pack_row
from uwsgi_headroom.history.totals import Totals, WaitTotals
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import STATES, LockUse, Waits
from uwsgi_headroom.store.codec import decode_record, encode_record
from uwsgi_headroom.store.record import merge_records


def waiting(busy: int = 0, *, pg: float = 0.0, lock: dict[int, float] | None = None, **threads: float) -> Waits:
    return Waits(threads=threads, backends={"pg": pg}, interpreter_lock=lock or {}, busy=busy)


def read(at: float, waits: Waits | None, server: Server | None = None) -> Reading:
    reading = (server or Server(processes=2)).read(at)
    return replace(reading, host=replace(reading.host, waits=waits))


def seconds(totals: Totals, state: str) -> float:
    return totals.waits.seconds[STATES.index(state)]


def test_time_between_two_samples_is_linear():
    """Two threads that sleep become four within a second: three seconds of sleep."""
    totals = totals_of(read(10, waiting(sleep=2, pg=1, backend=1)), read(11, waiting(sleep=4, pg=2, backend=2)))
    assert (seconds(totals, "sleep"), seconds(totals, "backend"), totals.waits.backends) == (3, 1.5, {"pg": 1.5})
    assert (totals.waits.observed_seconds, totals.waits.since) == (1, 10)
    # Too many and too few threads do not cancel each other out.
    totals = totals_of(read(10, waiting(1, sleep=3)), read(11, waiting(3, sleep=1)))
    assert totals.waits.disagreement_seconds == 2
    # A gap adds nothing.
    totals = totals_of(*(read(at, waiting(cpu=1)) for at in (10, 11, 60, 61)))
    assert (totals.waits.observed_seconds, seconds(totals, "cpu")) == (2, 2)


def test_off_and_on_again():
    """While it is unknown what threads wait for, nothing is added, and it is known anew only since the next sample."""
    off = Waits(off="not permitted")
    totals = totals_of(*(read(at, off if at == 12 else waiting(cpu=1)) for at in (10, 11, 12, 13, 14)))
    assert (totals.waits.observed_seconds, seconds(totals, "cpu"), totals.waits.since) == (2, 2, 13)
    assert totals_of(read(10, waiting(cpu=1)), read(11, None)).waits.since is None
    assert totals_of(read(10, off), read(11, None)).waits is None


def test_the_lock_of_a_former_worker_is_not_added_to_another():
    held = dict.fromkeys(range(1, 5), HELD)
    waits = replace(waiting(interpreter_lock=4, lock={1: 1, 4: 3}), locks=held, reads_locks=True)
    before = read(10, waits, Server(processes=4))
    totals = totals_of(before, read(11, replace(waits, interpreter_lock={1: 1}), Server(processes=2)))
    assert len(totals.workers) == 2
    assert [worker.interpreter_lock_seconds for worker in totals.workers] in ([1, 0], [0, 0])


def history_of(waits: Callable[[int], Waits | None], first: int = 10, last: int = 40) -> History:
    return Watched().add(*(read(at, waits(at)) for at in range(first, last + 1))).history


def test_windows():
    """A window has what was added in it, without the states that were not seen."""
    window = history_of(lambda _: waiting(1, cpu=1, pg=0.5, lock={1: 2})).window(20)
    assert window.waits.observed_seconds == pytest.approx(20)
    assert window.waits.seconds == {"cpu": pytest.approx(20)}
    assert window.waits.backends == {"pg": pytest.approx(10)}
    assert [worker.interpreter_lock_seconds for worker in window.workers] == [pytest.approx(40), 0]


@pytest.mark.parametrize("hole", [None, Waits(off="why")])
def test_no_window_unless_known_throughout(hole):
    history = history_of(lambda at: hole if at == 20 else waiting(cpu=1))
    long, short = history.window(25), history.window(15)
    assert long.waits is None
    assert [worker.interpreter_lock_seconds for worker in long.workers] == [None, None]
    assert short.waits.seconds == {"cpu": pytest.approx(15)}


def test_backends_begin_a_new_history():
    """Rows with and without backends are never compared, and a window that ends without waits has none."""
    assert history_of(lambda at: waiting(cpu=1) if at < 40 else None).window(20).waits is None
    history = history_of(lambda at: None if at < 20 else waiting(cpu=1), last=30)
    assert history.seconds == pytest.approx(10)
    assert history.window(8).waits.observed_seconds == pytest.approx(8)
    # Times are stored modulo 2**32 hundredths of a second, which no difference within an hour shows.
    before, after = (
        Totals(waits=WaitTotals(backends={"pg": 42949672.0})),
        Totals(waits=WaitTotals(backends={"pg": 42949674.0})),
    )
    before.waits.seconds[0], after.waits.seconds[0] = 42949670.0, 42949680.0
    _, _, states, backends = compare_rows(pack_row(before), pack_row(after), after).waits
    assert states[0] == pytest.approx(10)
    assert backends == [pytest.approx(2)]


def locked(*uses: LockUse | None, reads: bool = True) -> Waits:
    return Waits(locks={number: use for number, use in enumerate(uses, 1) if use}, reads_locks=reads)


FREE, HELD, QUEUED = LockUse(False, False), LockUse(False, True), LockUse(True, True)
ONLY_WAITERS, NO_WAITER = LockUse(True, None), LockUse(False, None)


def lock_times(history: History, seconds: float = 20) -> list[tuple[float | None, float | None, float | None]]:
    window = history.window(seconds)
    return [(each.lock_seconds, each.lock_waited_seconds, each.lock_held_seconds) for each in window.workers]


def test_locks_of_workers():
    """Time in which a lock is known, waited for and held, of each worker; held at one end of a second counts half."""
    turns = [locked(QUEUED, HELD), locked(HELD, FREE)]
    assert lock_times(history_of(lambda at: turns[at % 2], last=30)) == [(20, 10, 20), (20, 0, 10)]
    # Only the time between two samples that know a lock counts.
    history = history_of(lambda at: locked(HELD if at >= 20 else None, None), last=30)
    assert lock_times(history) == [(10, 0, 10), (0, 0, 0)]


def test_locks_that_may_not_be_read():
    """It is then not known how long they are held, nor in a window in which they could not be read once."""
    history = history_of(lambda _: locked(ONLY_WAITERS, NO_WAITER, reads=False), last=30)
    assert lock_times(history) == [(20, 20, None), (20, 0, None)]
    once = history_of(lambda at: locked(HELD, FREE, reads=at != 15), last=30)
    assert [held for _, _, held in lock_times(once)] == [None, None]
    assert [held for _, _, held in lock_times(once, 10)] == [10, 0]
    # Without waits, nothing is known of locks; of a file's lock it is, since the kernel says that to everybody.
    history = history_of(lambda _: Waits(off="not permitted", file_lock=HELD), last=30)
    window = history.window(20)
    assert lock_times(history) == [(None, None, None)] * 2
    assert (window.waits, window.file_lock_seconds, window.file_lock_held_seconds) == (None, 20, 20)
    none = history_of(lambda _: Waits(off="not permitted"), last=30).window(20)
    assert (none.file_lock_seconds, none.file_lock_held_seconds) == (None, None)


def test_files_of_earlier_versions_know_no_locks():
    window = history_of(lambda _: replace(locked(QUEUED, FREE), file_lock=QUEUED), last=30).window(20)
    assert window
    record = replace(full_record(), window=window)
    back = decode_record(encode_record(record))
    assert [each.lock_held_seconds for each in back.window.workers] == pytest.approx([20, 0], abs=0.01)
    assert back.window.file_lock_held_seconds == pytest.approx(20, abs=0.01)
    both = merge_records([record, replace(record, until=record.until + 60)])
    assert [each.lock_held_seconds for each in both.window.workers] == [40, 0]
