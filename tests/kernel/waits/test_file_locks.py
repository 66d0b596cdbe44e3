"""How much the lock of a file is used, by the kernel's list of locks."""

import fcntl
import os
import time

import pytest

from tests.support.clock import MovableClock
from uwsgi_headroom.kernel.waits import locks
from uwsgi_headroom.kernel.waits.locks import FileLocks, parse_locks
from uwsgi_headroom.record import LockUse

HELD = b"1: FLOCK  ADVISORY  WRITE 700 fd:01:4711 0 EOF\n"
WAITED = HELD + b"1: -> FLOCK  ADVISORY  WRITE 701 fd:01:4711 0 EOF\n"
OTHERS = b"2: POSIX  ADVISORY  WRITE 9 fd:01:12 0 EOF\n2: -> POSIX  ADVISORY  WRITE 10 fd:01:12 0 EOF\n"

FILE = (b"FLOCK", b"fd:01:4711")
PIDS = (700, 701)


class Kernel:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.text: bytes | None = b""
        self.reads = 0
        self.hands = MovableClock()
        self.locks = FileLocks(self.hands.clock.monotonic)
        monkeypatch.setattr(locks.procfs, "read_file", self._read)

    def _read(self, _path: str, *, most: int) -> bytes:
        self.reads += 1
        if self.text is None:
            raise OSError(f"longer than {most} bytes")
        return self.text

    def look(self, text: bytes | None, *, is_waiting: bool = False, is_seen: bool = True) -> LockUse | None:
        self.hands.move(0.2)
        self.text = text
        return self.locks.look(PIDS, is_waiting=is_waiting, is_seen=is_seen)


@pytest.fixture
def kernel(monkeypatch):
    return Kernel(monkeypatch)


def test_locks_of_other_programs_do_not_matter():
    assert parse_locks(WAITED + OTHERS, (), frozenset(PIDS)) == {FILE: (True, 1, (700, 701), 700)}
    assert parse_locks(HELD + OTHERS, (), frozenset(PIDS)) == {}
    assert parse_locks(HELD, (FILE,), frozenset(PIDS)) == {FILE: (True, 0, (700,), None)}
    assert parse_locks(HELD.replace(b"WRITE", b"READ"), (FILE,), frozenset(PIDS)) == {FILE: (False, 0, (700,), None)}
    theirs = b"1: FLOCK ADVISORY READ 5 fd:01:4711 0 9\n1: -> FLOCK ADVISORY WRITE 6 fd:01:4711 0 9\n"
    assert parse_locks(theirs + WAITED, (), frozenset(PIDS))[FILE].holder == 700, "another part of the file"


ODD = (b"", b"\n\n", b"1: ->\n", b"-> -> ->\n" * 50, b"1: FLOCK A W x y z 0\n", b"1: FLOCK A W --7 y z 0 0\n")


@pytest.mark.parametrize("text", [*ODD, b"\xff" * 900])
def test_lines_of_another_form_are_left_out(text):
    assert parse_locks(text, (FILE,), frozenset(PIDS)) == {}


def test_a_lock_of_a_file(kernel):
    """Once a worker has waited and gone on, each sample knows if it is held. It is read only if a thread may wait."""
    assert [kernel.look(WAITED) for _ in range(20)] == [None] * 20
    assert kernel.reads == 0
    assert kernel.look(WAITED, is_waiting=True) is None
    assert kernel.look(HELD) == LockUse(waited=False, held=True)
    assert kernel.look(b"") == LockUse(waited=False, held=False)
    assert kernel.look(WAITED) == LockUse(waited=True, held=True)
    assert kernel.locks.rest() == LockUse(waited=False, held=False)


def test_without_the_right_to_see_threads_the_list_is_read_once_a_second(kernel):
    assert [kernel.look(b"", is_seen=False) for _ in range(50)] == [None] * 50
    assert kernel.reads in range(9, 12)
    for _ in range(10):
        kernel.look(WAITED, is_seen=False)
    assert kernel.look(HELD, is_seen=False) == LockUse(waited=False, held=True)


def test_a_lock_that_is_never_released(kernel):
    """No request passes it, so it has no limit; who holds it is known."""
    assert [kernel.look(WAITED, is_waiting=True) for _ in range(300)] == [None] * 300
    assert kernel.locks.find_holder() == 700
    kernel.look(b"")
    assert kernel.locks.find_holder() is None


def test_a_list_that_is_too_long_is_not_read_again_for_a_minute(kernel):
    assert kernel.look(None, is_waiting=True) is None
    for _ in range(250):
        kernel.look(None, is_waiting=True)
    assert kernel.reads == 1


def test_a_process_that_waits_is_in_the_kernels_own_list(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        child = os.fork()
        if not child:
            with path.open("w") as wanted:
                fcntl.flock(wanted, fcntl.LOCK_EX)
            os._exit(0)
        end = time.monotonic() + 20
        while not (found := parse_locks(locks.procfs.read_file(locks.PATH), (), {child})):
            assert time.monotonic() < end
        fcntl.flock(held, fcntl.LOCK_UN)
    os.waitpid(child, 0)
    ((kind, name), use), *others = found.items()
    assert (kind, use, others) == (b"FLOCK", (True, 1, (os.getpid(), child), os.getpid()), [])
    assert name.endswith(b":%d" % path.stat().st_ino)


def test_a_lock_that_is_always_held_and_passed_on(kernel):
    """At its limit the lock is never free, and as many wait as before: other processes, or other threads, hold it."""
    turned = WAITED.replace(b"700", b"X").replace(b"701", b"700").replace(b"X", b"701")
    kernel.look(WAITED, is_waiting=True)
    assert kernel.look(WAITED) is None
    for turn in range(300):
        assert kernel.look(WAITED if turn % 2 else turned) == LockUse(waited=True, held=True)
    threads = FileLocks(kernel.hands.clock.monotonic)
    for turn in range(5):
        kernel.hands.move(0.2)
        kernel.text = WAITED
        use = threads.look(PIDS, is_waiting=True, is_seen=True, threads=frozenset({turn}))
    assert use == LockUse(waited=True, held=True)
