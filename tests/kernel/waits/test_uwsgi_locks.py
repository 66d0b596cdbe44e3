"""The mule that holds a lock of `uwsgi.lock()` for which requests wait."""

from __future__ import annotations

import pytest

from tests.support.simulated_server import Server
from uwsgi_headroom.kernel.waits import uwsgi_locks
from uwsgi_headroom.kernel.waits.uwsgi_locks import LEAST_SAMPLES, UwsgiLocks
from uwsgi_headroom.record import LockHolder
from uwsgi_headroom.stats import Snapshot

MASTER, MULE = 99, 200


@pytest.fixture
def snapshot(monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    """Of two workers, 101 and 102."""
    monkeypatch.setattr(uwsgi_locks, "list_children", lambda pid: [101, 102, MULE] if pid == MASTER else [])
    found = Server(processes=2).read(1.0).snapshot
    assert isinstance(found, Snapshot)
    return found


@pytest.mark.parametrize(
    ("pids", "found"),
    [
        ([MULE] * 30, LockHolder(MULE, 0, 1.0)),
        ([MULE, MULE, 0] * 10, LockHolder(MULE, 0, 2 / 3)),  # it has just changed hands
        ([MULE, 101, 102, 0] * 10, None),
        ([101] * 30, None),
        ([7] * 30, None),  # no child of the master
        ([MULE] * int(LEAST_SAMPLES - 1), None),
        ([0] * 200 + [MULE] * 200, LockHolder(MULE, 0, 150 / 200)),
    ],
)
def test_who_holds_it(snapshot: Snapshot, pids: list[int], found: LockHolder | None) -> None:
    """The process that holds it in most of the samples in which requests wait, unless it is a worker."""
    locks = UwsgiLocks()
    for pid in pids:
        locks.note({"user 0": pid, "user 1": 0, "signal": MULE, "thunder": 101})
    assert locks.find(MASTER, snapshot) == found


def test_another_of_its_locks(snapshot: Snapshot) -> None:
    """uWSGI has as many as the option `locks` says. Other locks of uWSGI are none of `uwsgi.lock()`, and a document
    without a list names none."""
    locks, none = UwsgiLocks(), UwsgiLocks()
    for _ in range(30):
        locks.note({"user 0": 0, "user 3": MULE, "user x": MULE})
        none.note({"cache-default": MULE})
        none.note(None)
    assert locks.find(MASTER, snapshot) == LockHolder(MULE, 3, 1.0)
    assert none.find(MASTER, snapshot) is None
