"""What a thread waits for, by its system call and by the peers of its sockets."""

import contextlib
import os
import select
import socket
import subprocess

import pytest

from uwsgi_headroom.kernel.waits import descriptors, system_calls, thread_wait
from uwsgi_headroom.kernel.waits.descriptors import Polled
from uwsgi_headroom.kernel.waits.memory import MemoryMap
from uwsgi_headroom.kernel.waits.peers import Peer, Peers
from uwsgi_headroom.kernel.waits.system_calls import find_calls
from uwsgi_headroom.kernel.waits.thread_wait import Decision, Process, Wait, classify, decide, decide_polled

PID = os.getpid()
PYTHON, UWSGI, HEAP, IMAGE = 0x1000, 0x2000, 0x9000, 0x3000

STACK = 0x7FFF0000
ON_STACK = STACK + 104
TIMESPEC = STACK + 88

MEMORY = MemoryMap(True, ((0x1000, 0x2000, "python"), (0x2000, 0x3000, "uwsgi")), ((0x1000, 0x4000),))


NUMBERS = {name: row[1] for name, row in system_calls._KINDS.items()} | {"openat": 257}


@pytest.fixture(autouse=True)
def of_x86_64(monkeypatch):
    monkeypatch.setattr(thread_wait, "CALLS", find_calls("x86_64"))


def process(**changes: object) -> Process:
    return Process(**({"pid": PID, "memory": MEMORY, "socket_timeout": 4, "read_pollfds": False} | changes))


def classified(name: str, *arguments: int, of: Process | None = None) -> Wait:
    padded = (*arguments, *[0xDEAD] * (6 - len(arguments)), STACK)
    return classify(of or process(), PID, (NUMBERS[name], padded))


@pytest.mark.parametrize(
    ("name", "arguments", "result", "more"),
    [
        ("futex", (PYTHON + 0x188, 0x89), "interpreter_lock", {}),
        ("futex", (PYTHON + 0x188, 0x80), "interpreter_lock", {}),
        ("futex", (PYTHON + 0x188, 0x189, 0), "interpreter_lock", {"semaphore": None}),
        ("futex", (UWSGI + 8, 0x80), "idle", {}),
        # A lock of CPython's is a semaphore on the heap; a mutex of the C library is not, nor is one on the stack.
        ("futex", (HEAP, 0x189, 0), "lock", {"semaphore": HEAP, "shared": False, "file": False}),
        ("futex", (HEAP, 0x89, 0), "lock", {"semaphore": HEAP}),
        ("futex", (HEAP, 0x189, 2), "lock", {"semaphore": None}),
        ("futex", (HEAP, 0x80, 2), "lock", {"semaphore": None}),
        ("futex", (HEAP, 0x80, 0), "lock", {"semaphore": None, "lock": None}),
        ("futex", (HEAP + 4, 0x189, 0), "lock", {"semaphore": None}),
        ("futex", (ON_STACK, 0x189, 0), "lock", {"semaphore": None}),
        ("futex", (STACK + (1 << 20), 0x189, 0), "lock", {"semaphore": STACK + (1 << 20)}),
        ("futex", (HEAP, 0x0), "lock", {}),
        ("futex", (2**64 - 4, 0x80), "lock", {}),
        ("futex", (IMAGE, 0x80), "unknown", {}),
        ("futex", (IMAGE, 0x189, 0), "unknown", {"semaphore": None}),
        # `FUTEX_PRIVATE_FLAG` says whether other processes may wait at the same place.
        ("futex", (HEAP, 0x109, 0), "lock", {"shared": True}),  # memory that processes share
        ("futex", (IMAGE, 0x109, 0), "lock", {"shared": True}),  # a file in memory, as of multiprocessing.Lock
        ("futex", (HEAP, 0x6), "lock", {"shared": True, "lock": ("futex", HEAP)}),  # uwsgi.lock()
        ("futex", (HEAP, 0x86), "lock", {"shared": False}),
        ("futex", (HEAP, 0x8D), "lock", {}),
        ("futex", (PYTHON, 0x81), "other", {}),
        # pthread_join(3) waits for a thread's id, with a futex that other processes could use; no lock does.
        ("futex", (HEAP, 0x109, 4711), "lock", {"joins": 4711}),
        ("futex", (HEAP, 0x189, 4711), "lock", {"joins": None}),
        ("futex", (HEAP, 0x109, 2), "lock", {"joins": None}),
        ("clock_nanosleep", (1, 1), "sleep", {}),
        ("pselect6", (0,), "sleep", {}),
        ("poll", (HEAP, 0, 50), "sleep", {}),
        ("poll", (ON_STACK, 1, 4000), "client", {}),
        ("poll", (ON_STACK, 2, 4000), "unknown", {}),
        ("poll", (HEAP, 1, 4000), "unknown", {}),
        ("poll", (HEAP, 1, 9000), "unknown", {}),
        ("poll", (2**64 - 8, 1, 9000), "unknown", {}),
        ("ppoll", (HEAP, 0, TIMESPEC), "sleep", {}),
        ("ppoll", (ON_STACK, 1, TIMESPEC), "unknown", {}),
        ("ppoll", (ON_STACK, 1, 0), None, {}),
        ("wait4", (2**32 - 1,), "child", {}),
        ("fsync", (3,), "disk", {}),
        ("flock", (3,), "lock", {"shared": True, "file": True}),
        ("semtimedop", (7,), "lock", {"shared": True, "lock": ("semaphore", 7)}),
        ("accept4", (3,), "other", {}),
        ("openat", (3,), "other", {}),
        ("restart_syscall", (), "unknown", {}),
    ],
)
def test_calls_that_decide(name, arguments, result, more):
    found = classified(name, *arguments)
    assert found.result == result
    assert {field: getattr(found, field) for field in more} == more


@pytest.mark.parametrize(
    ("changes", "gap"),
    [
        ({"memory": MemoryMap(False, MEMORY.known, MEMORY.images)}, thread_wait.GAP_32_BIT),
        ({"memory": MemoryMap(True, (), MEMORY.images)}, thread_wait.GAP_LOCK),
    ],
)
def test_other_programs_are_unknown(changes, gap):
    """A 32-bit program, or a program without CPython (Ruby, Go, PyPy): no lock is decided."""
    for address in (PYTHON, UWSGI, HEAP, IMAGE):
        found = classified("futex", address, 0x80, of=process(**changes))
        assert (found.result, found.gap) == ("unknown", gap)


def test_running_and_outside():
    """A thread that runs is in service; one blocked outside of a call waits for something else that is known."""
    assert classify(process(), PID, "running").result == "running"
    assert classify(process(), PID, "outside").result == "other"
    # Another call of a thread that waits for the end of another one may wait for a third one.
    assert not thread_wait.is_lasting(classified("futex", HEAP, 0x109, 4711), (NUMBERS["futex"], ()))


def test_timeouts_of_polls():
    """Without the option, or with a timeout of the application, a poll for one descriptor depends on the sockets."""
    for of, timeout in ((process(socket_timeout=None), 4000), (process(), 4001), (process(socket_timeout=30), 4000)):
        found = classified("poll", ON_STACK, 1, timeout, of=of)
        assert (found.result, found.call, found.gap) == (None, "poll", thread_wait.GAP_POLL)


def test_what_is_polled_goes_before_the_timeout():
    """If it may be read, the descriptor decides: a backend may have uWSGI's own timeout."""
    reads = process(read_pollfds=True)
    left, right = socket.socketpair()
    with left, right:
        found = classified("poll", ON_STACK, 1, 4000, of=reads)
        assert found.polled == (ON_STACK, 1, 0)
        for writes in (False, True):
            decided = decide_polled(reads, found, [Polled(left.fileno(), writes)])
            assert (decided.result, decided.sockets) == (None, (os.fstat(left.fileno()).st_ino,))
            assert (decided.polled, decided.writes, decided.gap) == (None, writes, None)
    unread = decide_polled(reads, classified("poll", HEAP, 3, 9, of=reads), [])
    assert (unread.result, unread.gap) == ("unknown", thread_wait.GAP_POLL)
    assert decide_polled(reads, classified("poll", ON_STACK, 1, 4000, of=reads), None).result == "client"


@pytest.mark.parametrize(
    ("address", "read", "beyond"), [(TIMESPEC, 4000, False), (TIMESPEC, 4001, True), (0, None, True)]
)
def test_the_timeout_of_ppoll_is_in_memory(address, read, beyond):
    """Without one, it waits for any time, as uWSGI never does."""
    reads = process(read_pollfds=True)
    found = classified("ppoll", HEAP, 1, address, of=reads)
    assert found.polled == (HEAP, 1, address)
    left, right = socket.socketpair()
    with left, right:
        assert decide_polled(reads, found, [Polled(left.fileno(), False)], read).beyond == beyond


def test_other_things_that_are_polled():
    """Pipes are pipes, also beside a closed descriptor. If all are closed, the thread has gone on meanwhile."""
    reads = process(read_pollfds=True)
    wait = classified("poll", HEAP, 2, 9, of=reads)
    near, far = os.pipe()
    closed = os.dup(near)
    os.close(closed)
    assert decide_polled(reads, wait, [Polled(near, False), Polled(closed, False)]).result == "pipe"
    assert decide_polled(reads, wait, [Polled(closed, False), Polled(2**31 - 1, False)]) is thread_wait.GONE_ON
    os.close(near)
    os.close(far)


@pytest.mark.parametrize("number", [17, 10_000, 2**32, 2**64 - 1])
def test_long_arrays_are_not_read(number):
    reads = process(read_pollfds=True)
    found = decide_polled(reads, classified("poll", ON_STACK, number, 9, of=reads), None)
    assert (found.result, found.gap, found.polled) == ("unknown", thread_wait.GAP_MANY, None)


@pytest.mark.parametrize("fileno", [0, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
def test_an_impossible_descriptor_is_unknown(fileno):
    with socket.socket() as used:
        assert fileno != used.fileno()
        if fileno:
            assert classified("recvfrom", fileno).result == "unknown"
            assert classified("epoll_wait", fileno).sockets == ()


def test_descriptors(tmp_path, monkeypatch):
    """Sockets are left to their peers; pipes are pipes; files are on a disk; the rest is other. No file is asked."""
    regular, fifo = tmp_path / "file", tmp_path / "fifo"
    regular.touch()
    os.mkfifo(fifo)
    near, far = os.pipe()
    opened = [os.open(regular, os.O_RDONLY), os.open(fifo, os.O_RDWR), os.open("/dev/null", os.O_RDONLY), near, far]
    with socket.socket() as connection, select.epoll() as epoll:
        found = classified("read", connection.fileno())
        assert (found.sockets, found.call) == ((os.fstat(connection.fileno()).st_ino,), "descriptor")
        assert (found.writes, classified("connect", connection.fileno()).writes) == (False, True)
        assert classified("read", epoll.fileno()).result == "other"
    monkeypatch.setattr(os, "stat", lambda path, **_: pytest.fail(f"{path} is asked"))
    assert [classified("read", each).result for each in opened] == ["disk", "disk", "other", "pipe", "pipe"]
    monkeypatch.setattr(thread_wait.procfs, "read_line", lambda _: b"pipe_read")
    assert classified("read", opened[1]).result == "pipe"
    for each in opened:
        os.close(each)


def test_sockets_in_an_epoll_set():
    """They are found by their inodes; a set known to be idle, or one of a large process, is not read."""
    left, right = socket.socketpair()
    near, far = os.pipe()
    with left, right, select.epoll() as epoll:
        for watched in (left.fileno(), near):
            epoll.register(watched)
        found = classified("epoll_wait", epoll.fileno())
        assert (found.unread, found.epoll) == (True, epoll.fileno())
        assert not classified("epoll_wait", epoll.fileno(), of=process(has_large_set=True)).unread
        assert descriptors.list_sockets_in_epoll(PID, epoll.fileno())[0] == (os.fstat(left.fileno()).st_ino,)
        idle = process(idle_sets={epoll.fileno()})
        assert classified("epoll_wait", epoll.fileno(), of=idle).result == "idle"
    os.close(near)
    os.close(far)


@pytest.fixture
def opened():
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(socket.socket())
        copies = [one.dup() for _ in range(100)]
        for each in copies:
            stack.enter_context(each)
        yield [each.fileno() for each in copies]


def test_a_large_epoll_set(monkeypatch, opened):
    """Its first sockets are not read either: its size says that it is large."""
    monkeypatch.setattr(descriptors, "MOST_FDINFO_BYTES", 4096)
    with select.epoll() as epoll:
        for each in opened:
            epoll.register(each)
        assert descriptors.list_sockets_in_epoll(PID, epoll.fileno()) == ((), 4096)


def test_many_descriptors_are_not_listed(monkeypatch, opened):
    number = len(os.listdir("/proc/self/fd"))
    links: list[int] = []
    monkeypatch.setattr(descriptors, "read_socket", lambda _, number: links.append(number))
    monkeypatch.setattr(descriptors, "MOST_DESCRIPTORS", number - 50)
    assert descriptors.list_sockets(PID) == {}
    assert links == []
    monkeypatch.setattr(descriptors, "MOST_DESCRIPTORS", number + 50)
    assert descriptors.list_sockets(PID) == {}
    assert set(opened) <= set(links)


class Known(Peers):
    def __init__(self, *peers: Peer | None) -> None:
        super().__init__()
        self._known = {inode: peer for inode, peer in enumerate(peers) if peer}


CLIENT, LISTENING, PAIR, UNCONNECTED = Peer("client"), Peer("listening"), Peer("pair"), Peer("unconnected")
STATSD, LOG = Peer("datagram", "127.0.0.1:8125"), Peer("log", "/dev/log")
DNS, POSTGRES, REDIS = Peer("dns", "10.0.0.1:53"), Peer("backend", "10.0.0.5:5432"), Peer("backend", "10.0.0.6:6379")


@pytest.mark.parametrize(
    ("peers", "result", "address"),
    [
        ((POSTGRES,), "backend", "10.0.0.5:5432"),
        ((POSTGRES, POSTGRES), "backend", "10.0.0.5:5432"),
        ((STATSD,), "backend", "127.0.0.1:8125"),
        ((LOG,), "other", ""),
        ((POSTGRES, REDIS), "unknown", ""),
        ((POSTGRES, None), "unknown", ""),
        ((CLIENT,), "client", ""),
        ((DNS,), "dns", "10.0.0.1:53"),
        ((PAIR,), "pipe", ""),
        ((UNCONNECTED,), "unknown", ""),
        ((PAIR, LISTENING), "idle", ""),
        ((LISTENING, None), "idle", ""),
        ((PAIR, POSTGRES), "unknown", ""),
        ((), "unknown", ""),
        ((None,), "unknown", ""),
    ],
)
def test_peers_of_the_sockets_that_are_waited_for(peers, result, address):
    """One kind of peer decides; several, or one that is not known, do not. A listening socket means idleness."""
    decision = decide(Wait(None, tuple(range(len(peers)))), Known(*peers))
    assert (decision.result, decision.address) == (result, address)
    assert (decision.gap is None) == (result != "unknown")


@pytest.mark.parametrize(
    ("peers", "result", "gap"),
    [
        ((POSTGRES, CLIENT, LISTENING, PAIR, UNCONNECTED, STATSD, LOG), "backend", None),
        ((STATSD, LOG), "unknown", thread_wait.GAP_POLL),
        ((DNS, CLIENT), "dns", None),
        ((POSTGRES, REDIS), "backend", thread_wait.GAP_POLL),
        ((POSTGRES, DNS), "unknown", thread_wait.GAP_POLL),
        ((CLIENT, LISTENING), "unknown", thread_wait.GAP_POLL),
        ((POSTGRES, None), "unknown", thread_wait.GAP_SOCKET),
        ((), "unknown", thread_wait.GAP_SOCKET),
    ],
)
def test_any_socket_of_the_process(peers, result, gap):
    """If what is polled is not read, the only backend of the process is meant; clients and listeners are not."""
    wait = Wait(None, tuple(range(len(peers))), gap=thread_wait.GAP_POLL)
    decision = decide(wait, Known(*peers))
    assert (decision.result, decision.gap) == (result, gap)
    if (result, gap) == ("backend", thread_wait.GAP_POLL):  # one of them, and it is not guessed which
        assert (decision.address, decision.candidates) == ("", ("10.0.0.5:5432", "10.0.0.6:6379"))


@pytest.mark.parametrize(
    ("wait", "connecting"),
    [
        (Wait(None, (0,), writes=True), True),
        (Wait(None, (0,)), False),
        (Wait(None, (0,), gap=thread_wait.GAP_POLL), True),
    ],
)
def test_a_backend_that_has_not_answered_to_the_connection(wait, connecting):
    """It is connecting, unless the thread by now waits for something to read."""
    silent = Peer("backend", "10.0.0.9:80", connecting=True)
    assert decide(wait, Known(silent)) == Decision("backend", "10.0.0.9:80", connecting=connecting)
    assert not decide(wait, Known(Peer("backend", "10.0.0.9:80"))).connecting


def test_an_event_loop_waits_for_its_backend():
    """A pair of sockets wakes it up, beside the backend that it waits for; with a second backend it is not known."""
    assert decide(Wait(None, (0, 1), epoll=5), Known(PAIR, POSTGRES)).address == "10.0.0.5:5432"
    assert decide(Wait(None, (0, 1, 2), epoll=5), Known(PAIR, POSTGRES, REDIS)).result == "unknown"
    assert decide(Wait(None, (0,), epoll=5), Known(PAIR)).result == "pipe"
    assert decide(Wait("unknown", gap="why"), Known()) == Decision("unknown", "", "why")  # it needs no peers


@pytest.mark.parametrize(
    ("same", "named"), [(True, ["standard output and error"] * 2), (False, ["standard output", "standard error"])]
)
def test_an_output_that_is_a_pipe(same, named):
    error = subprocess.STDOUT if same else subprocess.PIPE
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error) as child:
        calls = [classify(process(pid=child.pid), child.pid, (1, (each, *[0] * 5, STACK))) for each in (1, 2, 0)]
        child.kill()
    assert [wait.result for wait in calls] == ["pipe"] * 3
    assert [wait.output for wait in calls] == [*named, None]
