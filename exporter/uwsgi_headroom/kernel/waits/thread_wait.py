"""Decides what one thread waits for, from the system call that it is blocked in.

The decision has two steps, because sockets are looked up for all threads of a sample at once: `classify` looks at the
call, and `decide`, if the call waits for sockets, at their peers. Samples of one server teach two more things: what
sockets are used for that are too young to be known (`Decisions`), and which locks idle threads wait for (`IdleLocks`).
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import descriptors
from uwsgi_headroom.kernel.waits.descriptors import Epolls, read_poll_descriptors
from uwsgi_headroom.kernel.waits.memory_map import MemoryMap
from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.kernel.waits.system_calls import Blocked, Calls, Kind
from uwsgi_headroom.record import State

Lock = tuple[str, int]
"""The kind of a lock, and its address or number."""

# linux/futex.h
FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME = 128, 256
_FUTEX_WAITS = frozenset({0, 9})  # FUTEX_WAIT, FUTEX_WAIT_BITSET
_FUTEX_LOCKS = frozenset({6, 13})  # FUTEX_LOCK_PI, FUTEX_LOCK_PI2: uWSGI's own locks, thunder-lock among them

_FRAMES = 64 << 10  # bytes of the stack that the functions around a system call take; a few hundred in practice

Result = State | Literal["idle", "running"]
"""idle: the thread waits for a request. running: it runs or could run."""

GAP_POLL = "a thread that polls hides for what: allow the exporter to read what is polled (--read-pollfds)"
GAP_SOCKET = "the other end of a socket is not known yet"
GAP_MIXED = "a thread waits for several servers at once, or for a socket without a server"
GAP_LOCK = "it is not known to whom a lock belongs: the program has no CPython, or a file of it was replaced"
GAP_THREADS = "it is not known yet which threads serve requests and which are the application's own"
GAP_RESTART = "a thread was stopped and continued, and still waits for what it did before"
GAP_UNTRIED = "the system calls of this machine's architecture were never tried"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread waits for: a result; or sockets, by inode, whose peers decide. gap: why the result is unknown.
    lock: identifies a lock that idle threads may wait for as well (see `IdleLocks`); None if they do not. epoll: the
    descriptor of the epoll set, for a wait in one. call: the kind of the system call, for a wait for sockets."""

    result: Result | None
    sockets: tuple[int, ...] = ()
    gap: str | None = None
    lock: Lock | None = None
    epoll: int | None = None
    call: str = ""


IDLE, RUNNING = Wait("idle"), Wait("running")


@dataclass
class Process:
    """What is known of the process of a thread. socket_timeout: uWSGI's option, in seconds, None if unknown."""

    pid: int
    calls: Calls
    memory: MemoryMap
    socket_timeout: int | None
    read_pollfds: bool
    epolls: Epolls

    @cached_property
    def sockets(self) -> tuple[int, ...]:
        """The inodes of the process's sockets, as of this sample; none if it has too many descriptors to look at."""
        return descriptors.list_sockets(self.pid)

    def begin_sample(self, socket_timeout: int | None) -> None:
        """Forget what may have changed since the last sample."""
        self.socket_timeout = socket_timeout
        self.__dict__.pop("sockets", None)


def classify(process: Process, thread: int, call: Blocked | Literal["running", "outside"]) -> Wait:
    """The first step: what a thread waits for, by its system call."""
    if call == "running":
        return RUNNING
    if call == "outside":
        return Wait("disk" if _is_in_device_sleep(process.pid, thread) else "other")
    number, arguments = call
    kind = process.calls.kinds.get(number) if process.memory.is_64_bit else None
    if not process.calls.tried or not process.memory.is_64_bit:
        return Wait("unknown", gap=GAP_UNTRIED)
    if kind is None:
        return Wait("disk" if _is_in_device_sleep(process.pid, thread) else "other")
    return _classify_kind(process, thread, kind, arguments)


def _classify_kind(process: Process, thread: int, kind: Kind, arguments: tuple[int, ...]) -> Wait:
    first, second, third = arguments[:3]
    if kind == "futex":
        return _classify_futex(process.memory, first, second)
    if kind == "descriptor":
        return _classify_descriptor(process.pid, thread, first)
    if kind == "epoll" and first not in process.epolls.idle:
        return Wait(
            None, descriptors.list_sockets_in_epoll(process.pid, first, process.epolls), epoll=first, call="epoll"
        )
    if kind == "poll":
        return _classify_poll(process, first, second, third, stack=arguments[6])
    if kind == "select" and first:
        return Wait(None, process.sockets, gap=GAP_POLL, call="poll")
    return Wait(
        _RESULTS[kind],
        gap=GAP_RESTART if kind == "restart" else None,
        lock=("semaphore", first) if kind == "semaphore" else None,
    )


_LASTING: frozenset[Kind] = frozenset({"futex", "accept", "semaphore", "sleep", "child", "sync", "lock", "restart"})


def is_lasting(wait: Wait, process: Process, call: Blocked | Literal["running", "outside"]) -> bool:
    """Whether `classify` returns this wait for the same call of any thread of the process, for its whole life: it
    followed from the call alone, not from descriptors or the thread's state."""
    if isinstance(call, str):
        return call == "running"
    kind = process.calls.kinds.get(call[0])
    return kind in _LASTING or (kind == "epoll" and wait.result == "idle")


_RESULTS: Mapping[Kind, Result] = {
    "accept": "other",
    "epoll": "idle",
    "semaphore": "lock",
    "select": "sleep",
    "sleep": "sleep",
    "child": "child",
    "sync": "disk",
    "lock": "lock",
    "restart": "unknown",
}
"""The result of a call whose arguments do not matter. select(2) is in it for a call without descriptors, epoll for a
known set of uWSGI. uWSGI itself never blocks in accept(2), only in epoll_wait(2)."""


def _classify_futex(memory: MemoryMap, address: int, operation: int) -> Wait:
    command = operation & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)
    if command in _FUTEX_LOCKS:
        return Wait("lock", lock=("futex", address))
    if command not in _FUTEX_WAITS:
        return Wait("other")
    region = memory.region(address)
    if region == "python":
        return Wait("interpreter_lock")
    if region == "uwsgi":
        return IDLE
    if region == "heap" and memory.has_python:
        return Wait("lock")
    return Wait("unknown", gap=GAP_LOCK, lock=("futex", address))


def _classify_poll(process: Process, array: int, number: int, timeout: int, *, stack: int) -> Wait:
    if number == 0:
        return Wait("sleep")
    if process.read_pollfds:
        polled = read_poll_descriptors(process.pid, array, number)
        sockets = [descriptors.read_socket(process.pid, descriptor) for descriptor in polled]
        known = tuple(inode for inode in sockets if inode)
        if known:
            return Wait(None, known, call="poll")
        return Wait("pipe") if polled else Wait("unknown", gap=GAP_POLL)
    # Libraries that wait for a socket, and uWSGI itself, have the array on the stack. Python's select.poll() has it
    # elsewhere, and is used for pipes too, as by subprocess.
    if number > 1 or not 0 <= array - stack < _FRAMES:
        return Wait("unknown", gap=GAP_POLL)
    # uWSGI waits for its clients with its own timeout; a backend's poll has one of the application's, or none.
    if process.socket_timeout is not None and timeout == process.socket_timeout * 1000:
        return Wait("client")
    return Wait(None, process.sockets, gap=GAP_POLL, call="poll")


def _classify_descriptor(pid: int, thread: int, descriptor: int) -> Wait:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return Wait("unknown", gap=GAP_SOCKET)
    if inode := procfs.socket_inode(target):
        return Wait(None, (inode,), call="descriptor")
    if target.startswith("pipe:["):
        return Wait("pipe")
    if _is_in_device_sleep(pid, thread):
        return Wait("disk")
    # stat(2) could tell a FIFO from a file, but blocks if the file is on a server that does not answer.
    if b"pipe" in _read_wait_channel(pid, thread):
        return Wait("pipe")
    return Wait("disk" if target.startswith("/") and not target.startswith("/dev/") else "other")


class Decision(NamedTuple):
    """What a thread waits for. address: of the backend; empty if it waits for none, or the backend is not known. gap:
    why the result is unknown."""

    result: Result
    address: str = ""
    gap: str | None = None


def decide(wait: Wait, peers: Peers) -> Decision:
    """The second step: what a thread waits for, by the peers of the sockets that it waits for."""
    if wait.result is not None:
        return Decision(wait.result, gap=wait.gap)
    known = [peers.get(inode) for inode in wait.sockets]
    ends = {peer for peer in known if peer and peer.kind != "unconnected"}
    if wait.gap is None:
        if any(peer.kind == "listening" for peer in ends):  # uWSGI's own epoll set
            return Decision("idle")
    else:  # any socket of the process: those of clients, of uWSGI itself, of logs and the like do not count
        ends = {peer for peer in ends if peer.kind in ("backend", "dns")}
    if not ends or None in known or len({(peer.kind, peer.address) for peer in ends}) > 1:
        return Decision("unknown", gap=GAP_SOCKET if not known or None in known else wait.gap or GAP_MIXED)
    (end,) = ends
    if end.kind in ("backend", "datagram"):
        return Decision("backend", end.address)
    return Decision(_OF_PEERS[end.kind])


_OF_PEERS: Mapping[str, Result] = {
    "listening": "idle",
    "pair": "pipe",
    "client": "client",
    "dns": "dns",
    "log": "other",
}


def _is_in_device_sleep(pid: int, thread: int) -> bool:
    """Whether a thread is in state D: uninterruptible, as threads are that wait for a device."""
    return procfs.read_state(pid, thread) == b"D"


def _read_wait_channel(pid: int, thread: int) -> bytes:
    """The kernel's function that a thread sleeps in, such as `pipe_read`; empty if that is hidden."""
    try:
        return procfs.read_line(f"/proc/{pid}/task/{thread}/wchan")
    except OSError:
        return b""


_REMEMBERED = 200
"""How many decisions about young sockets are remembered, per kind of call: beyond, old ones count for less."""


Part = tuple[float, Decision]
"""A part of a thread, 1 unless it is not decided, and what it waits for."""


class Decisions:
    """The decisions about the waits of one server, also those for sockets that are too young to be known.

    A list of all TCP sockets is too costly for every sample. A connection that is opened for one query is gone before
    the next list, so most waits for such sockets cannot be decided. But those that a list decides are a random part of
    them: the others are counted in the same proportions, separately for each kind of system call.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._young: dict[str, Counter[Decision]] = defaultdict(Counter)

    def learn(
        self, waits: Collection[Wait], others: Callable[[], Iterable[int]], *, elsewhere: int | None = None
    ) -> str | None:
        """Find the peers of the sockets in a sample, as far as the time allows, and remember what young sockets are
        used for. others: all sockets of these workers, which later samples will ask for. elsewhere: as for `Peers`.
        Returns the reason to show if some stay unknown because the kernel refuses to answer."""
        wanted = {inode for wait in waits for inode in wait.sockets}
        unknown = {inode for inode in wanted if self._peers.get(inode) is None}
        first_list = not self._peers.lists
        refusal = self._peers.learn(unknown, others, elsewhere=elsewhere)
        if first_list:
            return refusal  # these sockets are of any age
        for wait in waits:
            if not unknown.isdisjoint(wait.sockets) and self._is_known(wait):
                decision = decide(wait, self._peers)
                if decision.result == "idle":
                    continue  # uWSGI's own epoll sets, of a worker that has just started
                decisions = self._young[wait.call]
                decisions[decision] += 1
                if decisions.total() > _REMEMBERED:
                    halves = {each: number // 2 for each, number in decisions.items() if number > 1}
                    self._young[wait.call] = Counter(halves)
        return refusal

    def decide(self, wait: Wait) -> Sequence[Part]:
        """What a thread waits for. A wait for a young socket is divided like those before it."""
        if wait.result is not None:
            return ((1.0, Decision(wait.result, gap=wait.gap)),)
        young = self._young.get(wait.call)
        if not young or self._is_known(wait):
            return ((1.0, decide(wait, self._peers)),)
        total = young.total()
        return [(number / total, decision) for decision, number in young.items()]

    def _is_known(self, wait: Wait) -> bool:
        return all(self._peers.get(inode) is not None for inode in wait.sockets)


_LEARNT = 3
"""How many more samples must speak for idle than against it, or the other way round."""

_MOST_LOCKS = 1024


class IdleLocks:
    """Learns which locks idle threads of one server wait for: no symbol names that of `thunder-lock`, and uwsgi.lock()
    looks the same.

    uWSGI's document says how many threads are in service. If the threads that wait for a lock are idle, the others add
    up to that number; if they are in service, only all together do.
    """

    def __init__(self) -> None:
        self._scores: Counter[Lock] = Counter()

    def learn(self, waiting: Mapping[Lock, int], others: float, busy: int, *, presumed_idle: bool) -> None:
        """Compare a sample with uWSGI's document. waiting: threads by the lock they wait for; others: the threads that
        are in service for certain; busy: threads in service according to the document."""
        if len(self._scores) > _MOST_LOCKS:
            self._scores.clear()
        believed = {lock: number for lock, number in waiting.items() if not self.is_idle(lock, presumed_idle)}
        for lock, number in waiting.items():
            without = others + sum(believed.values()) - believed.get(lock, 0)
            self._scores[lock] += _sign(abs(without + number - busy) - abs(without - busy))
            self._scores[lock] = max(-2 * _LEARNT, min(2 * _LEARNT, self._scores[lock]))

    def is_learnt(self, lock: Lock) -> bool:
        """Whether it is known whether threads that wait for this lock are idle."""
        return abs(self._scores[lock]) >= _LEARNT

    def is_idle(self, lock: Lock, presumed: bool) -> bool:
        """Whether threads that wait for this lock are idle; `presumed` as long as that is not learnt."""
        score = self._scores[lock]
        return score >= _LEARNT or (presumed and score > -_LEARNT)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
