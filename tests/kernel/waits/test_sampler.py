"""Samples of one server: weights, bounds, and processes that change at any moment."""

import ctypes
import errno
import os
import platform
import random
import select
import socket
import struct
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

import msgspec
import pytest

from tests.kernel.test_proof import hide_processes
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.simulated_server import MovableClock, Server
from uwsgi_headroom.kernel.aside import Direct, PausedError
from uwsgi_headroom.kernel.waits import descriptors, holders, locks, memory, sampler, worker_threads
from uwsgi_headroom.kernel.waits.memory import MemoryMap
from uwsgi_headroom.kernel.waits.sampler import WaitSampler, WaitSetting
from uwsgi_headroom.kernel.waits.system_calls import CALLS, Blocked
from uwsgi_headroom.kernel.waits.thread_wait import GAP_SOCKET
from uwsgi_headroom.kernel.waits.worker_threads import WorkerThreads
from uwsgi_headroom.record import Destination, LockHolder, LockUse, Options, Program, Setup, Waits

T = TypeVar("T")

PYTHON, UWSGI = 0x1000, 0x2000
MEMORY = MemoryMap(True, ((0x1000, 0x2000, "python"), (0x2000, 0x3000, "uwsgi")), ())

READ, POLL, EPOLL_WAIT = 0, 7, 232
"""The numbers of read(2), poll(2) and epoll_wait(2) on x86-64."""

SLEEPS: Blocked = (230, (1, 1, 0, 0, 0, 0, 0, 0))
LOCKED: Blocked = (202, (PYTHON, 0x89, 0, 0, 0, 0, 0))
IDLE: Blocked = (202, (UWSGI, 0x80, 0, 0, 0, 0, 0))
WAITS_FOR_LOCK: Blocked = (202, (0x9000, 0x80, 0, 0, 0, 0, 0))
SEMAPHORE: Blocked = (202, (0x9000, 0x189, 0, 0, 0, 0, 0x7FFF0000))
ELSEWHERE: Blocked = (POLL, (0x900000, 1, 30_000, 0, 0, 0, 0))
"""A poll of an array that is not on the stack."""

needs_known_calls = pytest.mark.skipif(not CALLS, reason="the system calls of this architecture are not known")
of_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="in the numbers of x86-64's system calls")
pytestmark = [of_x86_64, pytest.mark.usefixtures("patient")]


def sampled(of: WaitSampler, server: Server, setup: Setup | None = None) -> Waits:
    reading = server.read(1.0)
    return of.sample(os.getpid(), reading.snapshot, reading.host.processes, setup)


def sampler_after(seconds: float, **setting: Any) -> tuple[WaitSampler, MovableClock]:
    hands = MovableClock()
    of = WaitSampler(WaitSetting(**setting), hands.clock.monotonic)
    hands.move(seconds)
    return of, hands


def samples(of: WaitSampler, hands: MovableClock, server: Server, times: int, seconds: float = 1.0) -> list[Waits]:
    found = []
    for _ in range(times):
        hands.move(seconds)
        found.append(sampled(of, server))
    return found


@pytest.fixture
def machine(monkeypatch):
    """Sets what threads of made-up processes are blocked in: those of P with N threads are 1000 P to 1000 P + N - 1."""
    monkeypatch.setattr(worker_threads, "read_generation", lambda pid: (1000, 2000, 3000))
    monkeypatch.setattr(worker_threads, "read_memory_map", lambda _: MEMORY)
    monkeypatch.setattr(worker_threads, "list_threads", lambda pid: list(range(1000 * pid, 1000 * pid + 16)))
    # The PID may be a real one.
    monkeypatch.setattr(worker_threads.procfs, "read_state", lambda _, thread=None: b"S" * (thread is None))

    def set_calls(call: Callable[[int, int], object]) -> None:
        monkeypatch.setattr(worker_threads, "read_system_call", lambda pid, thread: line_of(call(pid, thread)))

    return set_calls


def line_of(call: object) -> bytes:
    """What the kernel writes for a call: its number, six arguments, the stack pointer and the program counter."""
    if not isinstance(call, tuple):
        return f"{call}\n".encode()
    number, arguments = call
    return " ".join([str(number), *(f"{argument:#x}" for argument in (*arguments, 0, 0, 0)[:8])]).encode() + b"\n"


def busy_server(processes: int = 4) -> Server:
    server = Server(processes=processes, threads=16)
    server.busy(*[8] * processes)
    return server


def by_place(_: int, thread: int) -> Blocked:
    """4 of 16 threads sleep, 4 wait for the interpreter lock, 8 are idle."""
    place = thread % 1000
    return SLEEPS if place < 4 else LOCKED if place < 8 else IDLE


def test_all_threads_are_looked_at_if_the_time_allows(machine):
    machine(by_place)
    of, _ = sampler_after(10)
    waits = sampled(of, busy_server())
    assert waits.threads == {"sleep": 16, "interpreter_lock": 16}
    assert waits.interpreter_lock == {1: 4, 2: 4, 3: 4, 4: 4}
    assert (waits.busy, waits.gaps, waits.off) == (32, (), None)


@pytest.mark.parametrize("seconds_per_look", [0.0, 0.003])
def test_a_part_of_the_threads_is_unbiased(machine, seconds_per_look):
    """With a small budget, or if the time ends early, the mean over many samples is that of all threads."""
    hands = MovableClock()

    def slow(pid: int, thread: int) -> Blocked:
        hands.move(seconds_per_look)
        return by_place(pid, thread)

    machine(slow)
    total = {"sleep": 0.0, "interpreter_lock": 0.0}
    for seed in range(1500):
        of = WaitSampler(WaitSetting(), hands.clock.monotonic, random.Random(seed))
        for state, number in sampled(of, busy_server()).threads.items():
            total[state] += number / 1500
    assert total["sleep"] == pytest.approx(16, abs=1.6)
    assert total["interpreter_lock"] == pytest.approx(16, abs=1.6)


def test_now_and_then_all_threads_are_looked_at_at_once(machine, monkeypatch):
    """Within the budget, on a machine with time for a third of them: else no pool or holder would ever be seen."""
    looked: list[int] = []
    machine(lambda _, thread: looked.append(thread) or SLEEPS)
    cost = sampler.MOST_OF_THE_TIME / 20  # CPU seconds for one thread
    monkeypatch.setattr(sampler, "MOST_SECONDS", 65 * cost)
    monkeypatch.setattr(sampler, "_FIRST_COST", cost)
    monkeypatch.setattr(sampler.time, "thread_time", lambda: cost * len(looked))
    of, hands = sampler_after(1)
    numbers = []
    for _ in range(60):
        before = len(looked)
        sampled(of, busy_server())
        numbers.append(len(looked) - before)
        hands.move(1)
    assert numbers.count(64) >= 8
    assert min(numbers) >= 9  # a half, to within rounding
    assert len(looked) <= 61 * 20


def test_a_long_pause_does_not_buy_a_long_sample(machine):
    hands = MovableClock()
    looked: list[int] = []

    def slow(_: int, thread: int) -> Blocked:
        looked.append(thread)
        hands.move(0.001)
        return SLEEPS

    machine(slow)
    of = WaitSampler(WaitSetting(), hands.clock.monotonic)
    hands.move(3600)
    waits = sampled(of, busy_server())
    assert len(looked) <= 1000 * sampler.MOST_SECONDS + 1
    assert waits.threads["sleep"] == pytest.approx(64)


def test_workers_that_there_is_no_time_for_are_unknown(machine, monkeypatch):
    hands = MovableClock()
    machine(by_place)

    def slow(pid: int) -> tuple[int, ...]:
        hands.move(0.006)
        return 1000, 2000, 3000

    monkeypatch.setattr(worker_threads, "read_generation", slow)
    of = WaitSampler(WaitSetting(), hands.clock.monotonic)
    waits = sampled(of, busy_server())
    assert waits.threads["unknown"] == 16
    assert waits.gaps == (sampler.GAP_TIME,)
    assert "unknown" not in sampled(of, busy_server()).threads


def test_memory_maps_are_read_rarely(machine, monkeypatch):
    machine(by_place)
    read: list[int] = []
    monkeypatch.setattr(worker_threads, "read_generation", lambda pid: (pid, 0, 0))
    monkeypatch.setattr(worker_threads, "read_memory_map", lambda pid: read.append(pid) or MEMORY)
    (of, hands), server = sampler_after(0), busy_server(1)
    for pid in range(500, 530):
        server.respawn(1, 1.0, pid)
        server.busy(8)
        sampled(of, server)
        hands.move(0.2)
    assert 2 <= len(read) <= 6


def test_only_active_workers_are_looked_at(machine):
    looked: list[int] = []
    machine(lambda pid, _: looked.append(pid) or SLEEPS)
    server = Server(processes=2, threads=16)
    server.busy(1, 0)
    of = WaitSampler(WaitSetting())
    sampled(of, server)
    server.serve(2, 1)
    server.busy(0, 0)
    before, looked[:] = set(looked), []
    sampled(of, server)
    assert (before, set(looked)) == ({101}, {102})


def test_few_strangers_are_looked_at(machine, monkeypatch):
    """Threads that may serve requests after all are tried at few workers at a time."""
    monkeypatch.setattr(worker_threads, "list_threads", lambda pid: list(range(1000 * pid, 1000 * pid + 500)))
    monkeypatch.setattr(worker_threads.RequestThreads, "_blocks_signals", lambda *_: True)
    looked: list[int] = []
    machine(lambda _, thread: looked.append(thread) or SLEEPS)
    sampled(WaitSampler(WaitSetting(), lambda: 0.0), busy_server(100))
    assert len(looked) <= 4 + 2 * 4


@pytest.mark.parametrize(
    ("calls", "busy", "enabled", "expected"),
    [
        ((IDLE, LOCKED, LOCKED), 0, None, 2),
        ((IDLE, LOCKED, SLEEPS), 0, None, 1),
        ((IDLE, LOCKED, "running"), 0, None, 0),  # that one holds the lock
        ((IDLE, SLEEPS, SLEEPS), 0, None, 0),
        ((SLEEPS, LOCKED, LOCKED), 1, None, 0),
        ((IDLE, LOCKED, LOCKED), 0, True, 0),
    ],
)
def test_threads_that_want_the_lock_of_an_idle_worker(machine, monkeypatch, calls, busy, enabled, expected):
    """They are remembered: a request of a moment later lets them run. With the option there are none."""
    monkeypatch.setattr(worker_threads, "list_threads", lambda pid: [pid, 1000 * pid, 1000 * pid + 1])
    machine(lambda pid, thread: calls[0] if thread == pid else calls[1 + thread % 1000])
    server = Server(processes=1, threads=1)
    server.busy(busy)
    reading = server.read(1.0)
    processes = {pid: msgspec.structs.replace(each, threads=3) for pid, each in reading.host.processes.items()}
    of = WaitSampler(WaitSetting())
    assert of.count_starved(reading.snapshot, processes, Options(enable_threads=enabled)) == expected
    assert of.count_starved(reading.snapshot, {}, Options(enable_threads=enabled)) == expected
    assert of.count_starved(reading.snapshot, processes, Options(enable_threads=True)) == 0


GONE = [FileNotFoundError(errno.ENOENT, "gone"), ProcessLookupError(errno.ESRCH, "gone")]
REASONS = [*GONE, OSError(errno.EIO, "broken")]


@pytest.mark.parametrize("errors", [REASONS, [PermissionError(errno.EPERM, "no")]])
def test_threads_may_end_at_any_moment(machine, errors):
    chance = random.Random(7)
    hands = MovableClock()

    def call(pid: int, thread: int) -> object:
        if chance.random() < 0.2:
            raise chance.choice(errors)
        return chance.choice(
            [SLEEPS, LOCKED, IDLE, WAITS_FOR_LOCK, "running", "odd", "outside", (232, (3, 0, 1, 0, 0, 0))]
        )

    machine(call)
    of = WaitSampler(WaitSetting(backends={"*:5432": "postgres"}), hands.clock.monotonic, chance)
    server = busy_server()
    offs = set()
    for _ in range(300):
        hands.move(0.2)
        worker_id = chance.randint(1, 4)
        if chance.random() < 0.3:
            server.respawn(worker_id, 1.0, chance.choice([101, 102, 999]))
        server[worker_id].threads = chance.choice([1, 16, 200])
        server.busy(*(chance.randint(0, 16) for _ in range(4)))
        waits = sampled(of, server)
        offs.add(waits.off)
        assert all(number > 0 for number in waits.threads.values())
        assert of.sample(os.getpid(), server.read(1.0).snapshot, {}, None) is not None
    assert offs <= {None, worker_threads.WHO_MAY_KNOW}
    assert (worker_threads.WHO_MAY_KNOW in offs) == (errors is not REASONS)


def test_why_it_is_off(monkeypatch):
    server = busy_server(1)
    asynchronous = Setup(Options(), None, "async", None, None)
    assert "one thread" in (sampled(WaitSampler(WaitSetting()), server, asynchronous).off or "")
    assert "stats-no-cores" in (sampled(WaitSampler(WaitSetting()), replace(server, cores=False)).off or "")
    monkeypatch.setattr(sampler, "CALLS", {})
    assert "architecture" in (sampled(WaitSampler(WaitSetting()), server).off or "")
    assert WaitSampler(sampler.OFF).sample(1, server.read(1.0).snapshot, {}, None) is None


def test_an_idle_server_says_that_it_may_not_be_seen(machine):
    idle = Server(processes=2, threads=8)
    machine(fails_with(PermissionError(errno.EPERM, "no")))
    assert "CAP_SYS_PTRACE" in (sampled(WaitSampler(WaitSetting()), idle).off or "")
    machine(lambda *_: IDLE)
    assert sampled(WaitSampler(WaitSetting()), idle) == Waits()


def fails_with(error: OSError) -> Callable[..., Blocked]:
    def fail(*_: object) -> Blocked:
        raise error

    return fail


def test_the_reason_names_a_kernel_without_the_file(monkeypatch):
    monkeypatch.setattr(worker_threads, "read_system_call", fails_with(FileNotFoundError(errno.ENOENT, "none")))
    of = WaitSampler(WaitSetting(), MovableClock().clock.monotonic)
    assert "this kernel does not say" in (sampled(of, own_server()).off or "")


def test_thunder_lock(machine):
    """Threads at uWSGI's lock between processes are in service, until the document says that they are not."""
    machine(lambda _, thread: SLEEPS if thread % 1000 < 2 else (202, (0x7F0000, 6, 0, 0, 0, 0)))
    server = busy_server(1)
    server.busy(2)
    first, *_, last = samples(*sampler_after(0), server, 4, 5)
    assert (first.threads, last.threads) == ({"sleep": 2, "lock": 14}, {"sleep": 2})


def test_locks_of_many_threads_are_learnt_too(machine, monkeypatch):
    looked: list[int] = []
    processor = [0.0]
    monkeypatch.setattr(sampler.time, "thread_time", lambda: processor[0])

    def call(_: int, thread: int) -> Blocked:
        looked.append(thread)
        processor[0] += 60e-6
        return SLEEPS if thread % 1000 < 2 else (202, (0x7F0000, 6, 0, 0, 0, 0, 0))

    machine(call)
    of, hands = sampler_after(0)
    server = busy_server()
    server.busy(2, 2, 2, 2)
    for _ in range(100):
        hands.move(0.1)
        before = len(looked)
        waits = sampled(of, server)
        assert len(looked) - before <= 64
    assert set(waits.threads) <= {"sleep"}
    assert len(looked) < 100 * 64 / 2


def test_threads_in_service_that_are_not_found_are_unknown(machine):
    machine(lambda *_: SLEEPS)
    server = busy_server(1)
    server[1].threads = 40
    server.busy(30)
    assert sampled(sampler_after(10)[0], server).threads == {"sleep": 16, "unknown": 14}


@pytest.mark.parametrize(
    ("options", "timeout"),
    [(Options(complete=True), 4), (Options(complete=True, socket_timeout=30), 30), (Options(), None)],
)
def test_socket_timeout_of_a_worker(machine, options, timeout):
    """uWSGI's own default holds only where all of its options were read, and none of them sets another."""
    machine(lambda *_: SLEEPS)
    threads = WorkerThreads(WaitSetting(), random.Random(1))
    at = threads.find(busy_server(1).read(1.0).snapshot.workers[0], os.getpid(), None, options)
    assert at.socket_timeout == timeout


def test_epoll_sets_that_are_not_known(machine):
    """Threads in them are idle, or wait with the application's own: no more are in service than uWSGI says."""
    machine(lambda _, thread: SLEEPS if thread % 1000 < 4 else (EPOLL_WAIT, (9, 0, 0, 0, 0, 0, 0)))
    server = busy_server(2)
    server.busy(4, 7)
    of, _ = sampler_after(10)
    waits = sampled(of, server)
    assert waits.threads == {"sleep": 8, "unknown": 3}
    assert waits.gaps == (GAP_SOCKET,)


@contextmanager
def polling(*, array_is_read: bool) -> Iterator[tuple[Blocked, socket.socket]]:
    """A call of poll(2) for a connection of this process, to a server on loopback, and that server's socket."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        array = ctypes.create_string_buffer(struct.pack("=ihh", near.fileno(), select.POLLIN, 0))
        at = ctypes.addressof(array) if array_is_read else 8
        yield (POLL, (at, 1, 30_000, 0, 0, 0, at - 104)), server


@pytest.mark.parametrize("named", [False, True])
def test_what_is_polled(machine, monkeypatch, named):
    monkeypatch.setattr(descriptors.procfs, "read_line", lambda _: line_of(call))
    with polling(array_is_read=True) as (call, server):
        machine(lambda _, thread: call if thread % 1000 < 8 else IDLE)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        waits = sampled(sampler_after(10, backends={address: "db"} if named else {})[0], own_server())
    assert (waits.threads, waits.gaps) == ({"backend": 8}, ())
    assert waits.destinations == {Destination("backend", (address,)): 8}
    assert waits.backends == ({"db": 8} if named else {})


def test_threads_that_go_on(machine, monkeypatch):
    """Half of the threads leave poll(2) before the closer look: they waited for the same as the rest."""
    looks = count()
    monkeypatch.setattr(descriptors, "FRESH_SECONDS", -1.0)  # as if it came late
    monkeypatch.setattr(descriptors.procfs, "read_line", lambda _: line_of(call if next(looks) % 2 else SLEEPS))
    with polling(array_is_read=True) as (call, server):
        machine(lambda _, thread: call if thread % 1000 < 8 else IDLE)
        of, _ = sampler_after(10)
        waits = sampled(of, own_server())
        assert waits.destinations == {Destination("backend", (f"127.0.0.1:{server.getsockname()[1]}",)): 8}


def own_server() -> Server:
    server = Server(processes=1, threads=16)
    server.respawn(1, 1.0, os.getpid())
    server.busy(8)
    return server


def test_an_array_that_cannot_be_read(machine):
    """It is inferred, and nothing fails. If nobody takes the closer look, it is unknown, with the reason."""
    with polling(array_is_read=False) as (call, _):
        machine(lambda _, thread: call if thread % 1000 < 8 else IDLE)
        assert sum(sampled(sampler_after(10)[0], own_server()).threads.values()) == 8
    machine(lambda _, thread: ELSEWHERE if thread % 1000 < 8 else IDLE)
    hands = MovableClock()
    of = WaitSampler(WaitSetting(), hands.clock.monotonic, asks=Silent())
    hands.move(5)
    waits = sampled(of, own_server())
    assert (waits.threads, waits.gaps) == ({"unknown": 8}, ("the memory does not come",))


@pytest.fixture
def refused(monkeypatch):
    """The processes whose memory was asked for, which a filter of system calls refuses."""
    asked: list[object] = []

    def refuse(*of: object) -> None:
        asked.append(of)
        raise memory.RefusedToReadError

    monkeypatch.setattr(memory, "read_pieces", refuse)
    monkeypatch.setattr(worker_threads, "read_semaphores", refuse)
    return asked


def test_arrays_that_may_not_be_read(machine, monkeypatch, refused):
    """A filter of system calls refuses: the reason says what to allow, and nothing is asked again at each sample."""
    monkeypatch.setattr(descriptors.procfs, "read_line", lambda _: line_of(ELSEWHERE))
    monkeypatch.setattr(sampler, "MOST_OF_THE_TIME", 1.0)  # a busy machine looks at all threads, too
    machine(lambda _, thread: ELSEWHERE if thread % 1000 < 8 else IDLE)
    *_, waits = samples(*sampler_after(0), own_server(), 5, 5)
    assert (waits.threads, waits.gaps) == ({"unknown": 8}, (sampler.GAP_REFUSED,))
    assert len(refused) == 1


def test_an_idle_server_has_no_thread_in_any_state(machine):
    machine(by_place)
    waits = sampled(WaitSampler(WaitSetting(backends={"/run/pg": "pg"})), Server(processes=4, threads=16))
    assert (waits.threads, waits.backends, waits.addresses, waits.off) == ({}, {"pg": 0.0}, {"pg": "/run/pg"}, None)


def test_between_two_bursts(machine):
    """A sample that finds nobody at work still knows who had what the last requests waited for."""
    machine(lambda _, thread: SEMAPHORE if thread % 16 < 8 else IDLE)
    (of, hands), server = sampler_after(0), busy_server(2)
    assert [waits.threads for waits in samples(of, hands, server, 4)] == [{"lock": 16}] * 4
    server.busy(0, 0)
    _, resting = samples(of, hands, server, 2)
    assert (resting.threads, resting.holder) == ({}, "thread")
    assert sampled(of, server) is resting


def read_as_held(*of: tuple[int, Sequence[int]]) -> dict[int, dict[int, locks.Word]]:
    return {pid: dict.fromkeys(addresses, (0, 4)) for pid, addresses in of}


def test_locks_of_the_application(machine, monkeypatch):
    """Known for both workers once a thread went on, free at rest; a worker without time left is left out."""
    monkeypatch.setattr(worker_threads, "read_semaphores", read_as_held)
    at = 0
    machine(lambda _, thread: SEMAPHORE if 4 <= (thread - at) % 16 < 8 else SLEEPS if thread % 16 < 4 else IDLE)
    (of, hands), server = sampler_after(0, read_locks=True), busy_server(2)
    for at in range(3):  # noqa: B007 - which threads wait depends on it
        hands.move(1)
        waits = sampled(of, server)
    held = LockUse(waited=True, held=True)
    assert (waits.locks, waits.reads_locks) == ({1: held, 2: held}, True)
    server.busy(8, 0)
    assert samples(of, hands, server, 2)[-1].locks == {1: held, 2: LockUse(waited=False, held=False)}
    server.busy(0, 0)
    _, resting = samples(of, hands, server, 2, 0.1)
    assert set(resting.locks.values()) == {LockUse(waited=False, held=False)}
    assert sampled(of, server) is resting


@pytest.mark.parametrize(("operation", "is_shared"), [(0x6, True), (0x86, False)])
def test_a_mule_holds_the_lock(machine, monkeypatch, operation, is_shared):
    """It is looked for only while requests wait for a lock of all processes."""
    monkeypatch.setattr(holders, "list_children", lambda _: [200])
    waits_: Blocked = (202, (0x9000, operation, 0, 0, 0, 0, 0x7FFF0000))
    machine(lambda _, thread: waits_ if thread % 16 < 8 else IDLE)
    (of, hands), reading = sampler_after(0), busy_server(2).read(1.0)
    snapshot = msgspec.structs.replace(reading.snapshot, locks={"user 0": 200})
    for _ in range(30):
        hands.move(1)
        waits = of.sample(os.getpid(), snapshot, reading.host.processes, None)
    assert waits.uwsgi_lock_holder == (LockHolder(200, 0, 1.0) if is_shared else None)


def sample_locks(machine: Callable[..., None], hands: MovableClock, of: WaitSampler) -> Waits:
    """The last of four samples of a worker whose threads queue for a lock."""
    machine(lambda _, thread: SEMAPHORE if (thread + at) % 4 else SLEEPS)
    server = busy_server(1)
    for at in range(4):  # noqa: B007 - which threads wait depends on it
        hands.move(1.0)
        waits = sampled(of, server)
    return waits


def test_locks_that_may_not_be_read(machine, refused):
    """Nothing could be read, which is said, and who waits is known; nothing is asked again at each sample."""
    of, hands = sampler_after(0, read_locks=True)
    waits = sample_locks(machine, hands, of)
    assert (waits.locks, waits.reads_locks) == ({1: LockUse(waited=True, held=None)}, False)
    assert len(refused) == 1


class Silent(Direct):
    """Gives no answer about the moment until `answers` is set."""

    def __init__(self) -> None:
        self.answers = False

    def ask_now(self, question: Callable[..., T], *arguments: Hashable) -> T:
        if not self.answers:
            raise PausedError("the memory does not come")
        return question(*arguments)


def test_locks_are_read_once_their_memory_comes(machine, monkeypatch):
    monkeypatch.setattr(worker_threads, "read_semaphores", read_as_held)
    hands, silent = MovableClock(), Silent()
    of = WaitSampler(WaitSetting(read_locks=True), hands.clock.monotonic, asks=silent)
    waits = sample_locks(machine, hands, of)
    assert (waits.locks, waits.reads_locks) == ({1: LockUse(waited=True, held=None)}, False)
    silent.answers = True
    assert sample_locks(machine, hands, of).locks == {1: LockUse(waited=True, held=True)}


def test_no_memory_is_read_without_a_lock(machine, monkeypatch):
    monkeypatch.setattr(worker_threads, "read_semaphores", lambda *_: pytest.fail("memory is read"))
    monkeypatch.setattr(locks.procfs, "read_file", lambda *_, **__: pytest.fail("the kernel's list is read"))
    machine(by_place)
    assert [waits.locks for waits in samples(*sampler_after(0, read_locks=True), busy_server(), 5)] == [{}] * 5


def test_a_lock_of_a_file_without_rights(machine, monkeypatch):
    """Where the kernel does not show what threads wait for, its list of locks still says who waits for a file's."""
    machine(fails_with(PermissionError(errno.EPERM, "no right")))
    server = busy_server(1)
    pid = next(iter(server.read(1.0).host.processes))
    line = f"FLOCK ADVISORY WRITE {pid} 0:1:2 0 EOF\n"
    lists = iter([f"1: {line}1: -> {line}", f"1: {line}", ""])
    monkeypatch.setattr(locks.procfs, "read_file", lambda *_, **__: next(lists).encode())
    found = samples(*sampler_after(0), server, 3, 2)
    assert all(waits.needs_right for waits in found)
    held, free = (LockUse(waited=False, held=each) for each in (True, False))
    assert [waits.file_lock for waits in found] == [None, held, free]


@as_root
def test_a_hidden_holder_has_not_ended(machine, monkeypatch):
    """The advice for a lock whose holder has ended is to end who still holds it."""
    machine(by_place)
    pid, (of, _), server = os.getpid(), sampler_after(0), busy_server(1)
    monkeypatch.setattr(locks.FileLocks, "find_holder", lambda _: pid)
    assert as_nobody(lambda: sampled(of, server).file_lock_holder, before=hide_processes) == pid


def test_what_requests_asked_remains_known_at_rest():
    """A window may end between two bursts. The object is the same until something is learnt."""
    of = WaitSampler(WaitSetting())
    before = of._at_rest(0.0)
    assert of._at_rest(0.0) is before
    of._pool_variable, of._programs.known = "OMP_NUM_THREADS", {"127.0.0.1:6379": Program("redis-server")}
    now = of._at_rest(0.0)
    assert (before.programs, now.programs) == ({}, of._programs.known)
    assert now.pool_variable == "OMP_NUM_THREADS"
