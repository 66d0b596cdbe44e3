"""How much locks are used: those of applications by the address that a waiter shows, of files by the kernel's list."""

import ctypes
import fcntl
import os
import random
import subprocess
import threading
import time

import pytest

from tests.support.simulated_server import MovableClock
from uwsgi_headroom.kernel.waits import locks
from uwsgi_headroom.kernel.waits.locks import FileLocks, WorkerLocks, parse_locks, read_semaphores
from uwsgi_headroom.record import LockUse

LOCK, OTHER = 0x7F0000001000, 0x7F0000002000
FREE, HELD = (1, 0), (0, 0)

Value = tuple[int, int]


class Worker:
    """A made-up worker of eight threads. memory: what is at which address; answers: whether it can be read."""

    def __init__(self, *, is_read: bool = True) -> None:
        self.memory: dict[int, Value] = {}
        self.reads: list[tuple[int, ...]] = []
        self.answers = is_read
        self.now = 0.0
        self.locks = WorkerLocks(is_read=is_read)

    def look(self, *waiting: tuple[int, set[int]], step: float = 0.2, are_all: bool = True) -> LockUse | None:
        self.now += step
        looks = dict.fromkeys(range(8)) | {thread: address for address, threads in waiting for thread in threads}
        self.locks.remember(looks, self.now)
        addresses = self.locks.addresses
        self.reads.append(addresses)
        words = {each: self.memory[each] for each in addresses if each in self.memory} if self.answers else None
        return self.locks.look(looks, self.now, words, are_all=are_all)


@pytest.fixture
def worker():
    return Worker()


def test_two_threads_that_wait_at_once(worker):
    """Once one of them goes on, it is known if the lock is held. Before a thread waits, no memory is read."""
    assert [worker.look() for _ in range(10)] == [None] * 10
    assert not any(worker.reads)
    worker.memory[LOCK] = (0, 2)
    assert worker.look((LOCK, {1, 2})) is None
    assert worker.look((LOCK, {2, 3})) == LockUse(waited=True, held=True)
    worker.memory[LOCK] = (0, 0)
    assert worker.look() == LockUse(waited=False, held=True)
    worker.memory[LOCK] = FREE
    assert worker.look() == LockUse(waited=False, held=False)


def test_one_waiter_at_a_time(worker):
    """With two threads there is never more than one waiter: the lock counts once it was waited for and free twice."""
    uses = []
    for waiting, value in ((True, (0, 1)), (False, FREE), (True, (0, 1)), (False, FREE), (False, HELD)):
        worker.memory[LOCK] = value
        uses.append(worker.look((LOCK, {1})) if waiting else worker.look())
    assert uses == [None, None, None, LockUse(False, False), LockUse(False, True)]


def test_a_condition_is_no_lock(worker):
    """Each waiting thread has a semaphore of its own. A condition variable of the C library counts no waiters."""
    other = Worker()
    other.memory[LOCK] = (0, 0)
    assert [other.look((LOCK, {turn % 8, (turn + 1) % 8})) for turn in range(50)] == [None] * 50
    for turn in range(100):
        addresses = [LOCK + 64 * ((turn + place) % 5) for place in range(3)]
        worker.memory = dict.fromkeys(addresses, (0, 1)) | {LOCK + 64 * ((turn - 1) % 5): (0x8F001240, 0x7F00)}
        assert worker.look(*((address, {place}) for place, address in enumerate(addresses))) is None


@pytest.mark.parametrize("value", [None, (2, 0), (0xFFFFFFFF, 0), (1, 1 << 20), (0, 0xFFFFFFFF)])
def test_what_is_no_semaphore_is_forgotten(worker, value):
    worker.memory[LOCK] = (0, 2)
    worker.look((LOCK, {1, 2}))
    worker.memory = {} if value is None else {LOCK: value}
    assert worker.look() is None
    assert not worker.locks.addresses
    worker.look()
    assert worker.reads[-1] == ()


def test_a_lock_that_is_always_held_does_not_count(worker):
    worker.memory[LOCK] = (0, 3)
    for turn in range(300):
        assert worker.look((LOCK, {1, 2, 3} if turn > 5 else {1, 2})) is None


def test_a_lock_that_gets_stuck(worker):
    """It counts for half a minute more, and once a thread goes on; ten minutes after a waiter it is forgotten."""
    worker.memory[LOCK] = (0, 2)
    worker.look((LOCK, {1, 2}))
    assert worker.look((LOCK, {2, 3}))
    assert worker.look((LOCK, {2, 3}), step=29)
    assert worker.look((LOCK, {2, 3}), step=2) is None
    assert worker.look((LOCK, {3, 4}))
    assert worker.locks.rest(worker.now) == LockUse(waited=False, held=False)
    assert worker.locks.rest(worker.now + 700.0) is None


def test_of_thousands_of_addresses_a_few_are_remembered(worker):
    worker.memory[LOCK] = (0, 2)
    worker.look((LOCK, {1, 2}))
    for turn in range(600):
        new = {LOCK + 0x10000 + 64 * (8 * turn + place): {place} for place in range(8)}
        worker.memory.update(dict.fromkeys(new, (0, 1)))
        worker.memory[LOCK] = HELD if turn % 2 else FREE
        assert worker.look(*new.items()) == LockUse(waited=False, held=bool(turn % 2))
        assert len(worker.reads[-1]) <= 8


def test_of_two_locks_the_one_that_is_held_most_counts(worker):
    worker.memory = {LOCK: (0, 2), OTHER: (0, 2)}
    worker.look((LOCK, {1, 2}), (OTHER, {3, 4}))
    worker.memory = {LOCK: FREE, OTHER: (0, 0)}
    assert [worker.look() for _ in range(3)][-1] == LockUse(waited=False, held=True)
    for _ in range(100):
        worker.memory = {LOCK: HELD, OTHER: FREE}
        worker.look()
    worker.memory = {LOCK: HELD, OTHER: FREE}
    assert worker.look() == LockUse(waited=False, held=True)


def test_without_consent():
    """Only waiters count, and only in samples of all threads, as where the right to read is missing."""
    refused = Worker()
    refused.answers = False
    refused.look((LOCK, {1, 2}))
    assert refused.look((LOCK, {2, 3})) == LockUse(waited=True, held=None)
    worker = Worker(is_read=False)
    worker.look((LOCK, {1, 2}))
    assert worker.look((LOCK, {2, 3})) == LockUse(waited=True, held=None)
    assert worker.look() == LockUse(waited=False, held=None)
    assert worker.look(are_all=False) is None
    assert worker.locks.rest(worker.now) == LockUse(waited=False, held=None)


def test_random_and_hostile_values_raise_nothing(worker):
    chance = random.Random(3)
    for _ in range(1000):
        addresses = [chance.choice([8 * chance.randrange(40), 2**64 - 8, 0, LOCK]) for _ in range(chance.randrange(6))]
        worker.memory = {
            address: (chance.choice([0, 1, 2, 2**32 - 1]), chance.choice([0, 1, 2, 2**32 - 1]))
            for address in [8 * place for place in range(40)]
            if chance.random() < 0.9
        }
        worker.look(*((address, {chance.randrange(8), chance.randrange(8)}) for address in addresses))
        assert all(len(read) <= 8 for read in worker.reads)


def test_a_real_semaphore_of_this_process():
    """The bytes at the address of a semaphore of the C library are its value and the number of threads that wait."""
    libc = ctypes.CDLL(None)
    semaphore = ctypes.create_string_buffer(64)
    address = ctypes.addressof(semaphore)
    libc.sem_init(semaphore, 0, 1)
    assert read_semaphores((os.getpid(), [address]))[os.getpid()] == {address: FREE}
    libc.sem_wait(semaphore)
    waiter = threading.Thread(target=libc.sem_wait, args=(semaphore,))
    waiter.start()
    end = time.monotonic() + 20
    while read_semaphores((os.getpid(), [address]))[os.getpid()] != {address: (0, 1)}:
        assert time.monotonic() < end
    libc.sem_post(semaphore)
    waiter.join()
    assert read_semaphores((os.getpid(), [address, 8]))[os.getpid()] == {address: HELD}
    assert read_semaphores((os.getpid(), [8, address]))[os.getpid()] == {address: HELD}
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert read_semaphores((ended.pid, [LOCK])) == {ended.pid: {}}


TAKEN = b"1: FLOCK  ADVISORY  WRITE 700 fd:01:4711 0 EOF\n"
WAITED_FOR = TAKEN + b"1: -> FLOCK  ADVISORY  WRITE 701 fd:01:4711 0 EOF\n"
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
    assert parse_locks(WAITED_FOR + OTHERS, (), frozenset(PIDS)) == {FILE: (True, 1, (700, 701), 700)}
    assert parse_locks(TAKEN + OTHERS, (), frozenset(PIDS)) == {}
    assert parse_locks(TAKEN, (FILE,), frozenset(PIDS)) == {FILE: (True, 0, (700,), None)}
    assert parse_locks(TAKEN.replace(b"WRITE", b"READ"), (FILE,), frozenset(PIDS)) == {FILE: (False, 0, (700,), None)}
    theirs = b"1: FLOCK ADVISORY READ 5 fd:01:4711 0 9\n1: -> FLOCK ADVISORY WRITE 6 fd:01:4711 0 9\n"
    assert parse_locks(theirs + WAITED_FOR, (), frozenset(PIDS))[FILE].holder == 700, "another part of the file"


ODD = (b"", b"\n\n", b"1: ->\n", b"-> -> ->\n" * 50, b"1: FLOCK A W x y z 0\n", b"1: FLOCK A W --7 y z 0 0\n")


@pytest.mark.parametrize("text", [*ODD, b"\xff" * 900])
def test_lines_of_another_form_are_left_out(text):
    assert parse_locks(text, (FILE,), frozenset(PIDS)) == {}


def test_a_lock_of_a_file(kernel):
    """Once a worker has waited and gone on, each sample knows if it is held. It is read only if a thread may wait."""
    assert [kernel.look(WAITED_FOR) for _ in range(20)] == [None] * 20
    assert kernel.reads == 0
    assert kernel.look(WAITED_FOR, is_waiting=True) is None
    assert kernel.look(TAKEN) == LockUse(waited=False, held=True)
    assert kernel.look(b"") == LockUse(waited=False, held=False)
    assert kernel.look(WAITED_FOR) == LockUse(waited=True, held=True)
    assert kernel.locks.rest() == LockUse(waited=False, held=False)


def test_without_the_right_to_see_threads_the_list_is_read_once_a_second(kernel):
    assert [kernel.look(b"", is_seen=False) for _ in range(50)] == [None] * 50
    assert kernel.reads in range(9, 12)
    for _ in range(10):
        kernel.look(WAITED_FOR, is_seen=False)
    assert kernel.look(TAKEN, is_seen=False) == LockUse(waited=False, held=True)


def test_a_lock_that_is_never_released(kernel):
    """No request passes it, so it has no limit; who holds it is known."""
    assert [kernel.look(WAITED_FOR, is_waiting=True) for _ in range(300)] == [None] * 300
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
    turned = WAITED_FOR.replace(b"700", b"X").replace(b"701", b"700").replace(b"X", b"701")
    kernel.look(WAITED_FOR, is_waiting=True)
    assert kernel.look(WAITED_FOR) is None
    for turn in range(300):
        assert kernel.look(WAITED_FOR if turn % 2 else turned) == LockUse(waited=True, held=True)
    threads = FileLocks(kernel.hands.clock.monotonic)
    for turn in range(5):
        kernel.hands.move(0.2)
        kernel.text = WAITED_FOR
        use = threads.look(PIDS, is_waiting=True, is_seen=True, threads=frozenset({turn}))
    assert use == LockUse(waited=True, held=True)
