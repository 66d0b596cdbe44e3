"""Decides what one thread waits for, from the system call that it is blocked in.

The decision has two steps, because sockets are looked up for all threads of a sample at once: `classify` looks at the
call, and `decide`, if the call waits for sockets, at their peers. Earlier samples decide the rest: what sockets are
used for that are too young to be known (`Decisions`), and which locks idle threads wait for (`IdleLocks`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import descriptors
from uwsgi_headroom.kernel.waits.descriptors import MOST_ENTRIES, Polled
from uwsgi_headroom.kernel.waits.file_systems import find_kind
from uwsgi_headroom.kernel.waits.memory import MemoryMap, Region
from uwsgi_headroom.kernel.waits.peers import Peer, Peers
from uwsgi_headroom.kernel.waits.system_calls import CALLS, Blocked, Kind
from uwsgi_headroom.record import Output, State

Lock = tuple[str, int]
"""The kind of a lock, and its address or number."""

# linux/futex.h
FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME = 128, 256
_FUTEX_WAIT_BITSET = 9
_FUTEX_WAITS = frozenset({0, _FUTEX_WAIT_BITSET})  # and FUTEX_WAIT
_FUTEX_LOCKS = frozenset({6, 13})  # FUTEX_LOCK_PI, FUTEX_LOCK_PI2: uWSGI's own locks, thunder-lock among them

_ALIGNED = 8
"""Bytes to which the C library aligns a semaphore (`sem_t`). A thread waits at its first four until they are not 0."""

_FRAMES = 64 << 10  # bytes of the stack that the functions around a system call take; a few hundred in practice

_MOST_OF_A_LOCK = 2
"""The largest value at which a thread waits for a mutex of the C library: locked, with others that wait."""

Result = State | Literal["idle", "running"]
"""idle: the thread waits for a request. running: it runs or could run."""

GAP_POLL = "what a polling thread waits for is hidden: allow the exporter to read what is polled (--read-pollfds)"
GAP_MANY = "a thread polls more descriptors than are read"
GAP_SOCKET = "the other end of a socket is not known yet"
GAP_MIXED = "at least one thread waits for several backends at once, or on a socket whose other end is not known"
GAP_LOCK = "it is not known to whom a lock belongs, as where a file of the program was replaced"
GAP_THREADS = "it is not known yet which threads serve requests and which are the application's own"
GAP_RESTART = "a thread was stopped and continued, and still waits for what it did before"
GAP_32_BIT = "the system calls of a program of 32 bits are not known"


class Wait(Struct, frozen=True):
    """What a thread waits for: a result; or sockets, by inode, whose peers decide. gap: why the result is unknown.
    lock: identifies a lock that idle threads may wait for as well (see `IdleLocks`); None if they do not. epoll: the
    descriptor of the epoll set, for a wait in one. call: the kind of the system call, for a wait for sockets. output:
    what it writes to, if that is one of the process's own outputs. writes: whether it waits until it can write to
    sockets, as for a connection. polled: the address and length of the array that says for which descriptors it waits,
    and the address of the timeout of ppoll(2), else 0, for `decide_polled`. address: where it waits as for a lock of
    the application, if that says which lock it is; semaphore: the same, if it is a semaphore of the C library. file:
    whether it waits for a file's lock. shared: whether other processes may use the same lock. joins: the id of the
    thread, in the process's own namespace, for whose end it waits if that is a thread of this process. beyond: whether
    it polls for another time than uWSGI itself does for a request: the application then waits for what a client sends
    after it. endless: whether it polls for any time. file_system: the kind of the one for whose answer it waits; path:
    of the file that it waits for. unread: whether the sockets in its epoll set are to be read."""

    result: Result | None
    sockets: tuple[int, ...] = ()
    gap: str | None = None
    lock: Lock | None = None
    epoll: int | None = None
    call: str = ""
    writes: bool = False
    polled: tuple[int, int, int] | None = None
    address: int | None = None
    semaphore: int | None = None
    file: bool = False
    shared: bool = False
    joins: int | None = None
    output: Output | None = None
    beyond: bool = False
    endless: bool = False
    unread: bool = False
    file_system: str = ""
    path: str = ""


IDLE, RUNNING = Wait("idle"), Wait("running")

PAUSED = Wait("sleep", call="paused")
"""A thread of a worker that SIGTSTP has paused polls nothing for ten seconds, again and again (core/utils.c,
`wsgi_req_accept`)."""

_PAUSE = 0, 0, 10_000

GONE_ON = Wait(None, gap=None, call="gone")
"""A thread that was in poll(2) a moment ago, and had gone on before it was known for what. It waited for what others in
poll(2) wait for."""


class Process(Struct, dict=True):
    """What is known of the process of a thread. socket_timeout: uWSGI's option, in seconds, None if unknown.
    idle_sets: the descriptors of the epoll sets that hold a listening socket: uWSGI keeps one for each thread, for
    life. has_large_set: whether one of the others was so large that none is read again: the kernel lists the whole set
    for every read, 1 ms per 1,000 entries."""

    pid: int
    memory: MemoryMap
    socket_timeout: int | None
    read_pollfds: bool
    idle_sets: set[int] = field(default_factory=set)
    has_large_set: bool = False

    @cached_property
    def sockets(self) -> tuple[int, ...]:
        """The inodes of the process's sockets, as of this sample; none if it has too many descriptors to look at."""
        return tuple(descriptors.list_sockets(self.pid).values())

    def is_beyond(self, timeout: int) -> bool:
        """Whether uWSGI itself never polls for so many milliseconds, -1 for any time; False if that is unknown."""
        return self.socket_timeout is not None and timeout != self.socket_timeout * 1000

    def begin_sample(self, socket_timeout: int | None) -> None:
        """Forget what may have changed since the last sample."""
        self.socket_timeout = socket_timeout
        self.__dict__.pop("sockets", None)


def classify(process: Process, thread: int, call: Blocked | Literal["running", "outside"]) -> Wait:
    """The first step: what a thread waits for, by its system call."""
    if call == "running":
        return RUNNING
    if call != "outside":
        number, arguments = call
        if not process.memory.is_64_bit:
            return Wait("unknown", gap=GAP_32_BIT)
        if kind := CALLS.get(number):
            return _classify_kind(process, thread, kind, arguments)
    file_system = find_kind(process.pid, thread)
    is_disk = file_system or _is_in_device_sleep(process.pid, thread)
    return Wait("disk" if is_disk else "other", file_system=file_system)


def _classify_kind(process: Process, thread: int, kind: Kind, arguments: tuple[int, ...]) -> Wait:
    first, second, third = arguments[:3]
    if kind == "futex":
        return _classify_futex(process.memory, arguments)
    if kind in ("descriptor", "send", "connect"):
        wait = _classify_descriptor(process.pid, thread, first, writes=kind != "descriptor")
        return replace(wait, output=_name_output(process.pid, first)) if first in _OUTPUTS else wait
    if kind == "epoll" and first not in process.idle_sets:
        return Wait(None, epoll=first, call="epoll", unread=not process.has_large_set)
    if kind in ("poll", "ppoll"):
        timespec = third if kind == "ppoll" else 0
        timeout = third if kind == "poll" else -1
        wait = _infer_polled(process, first, second, None if timespec else timeout, stack=arguments[6])
        beyond = not timespec and process.is_beyond(timeout)
        reads = process.read_pollfds and second
        if (first, second, timeout) == _PAUSE:
            wait = PAUSED
        # A timeout is an int of 32 bits.
        endless = not timespec and bool(timeout & 1 << 31)
        return replace(wait, polled=(first, second, timespec), beyond=beyond, endless=endless) if reads else wait
    if kind == "select" and first:
        return Wait(None, process.sockets, gap=GAP_POLL, call="poll")
    return Wait(
        _RESULTS[kind],
        gap=GAP_RESTART if kind == "restart" else None,
        lock=("semaphore", first) if kind == "semaphore" else None,
        epoll=first if kind == "epoll" else None,
        file=kind == "lock",
        shared=kind in ("lock", "semaphore"),
    )


_LASTING: frozenset[Kind] = frozenset({"futex", "accept", "semaphore", "sleep", "child", "sync", "lock", "restart"})


def is_lasting(wait: Wait, call: Blocked | Literal["running", "outside"]) -> bool:
    """Whether `classify` returns this wait for the same call of any thread of the process, for its whole life: it
    followed from the call alone, not from descriptors or the thread's state."""
    if isinstance(call, str):
        return call == "running"
    if wait.joins is not None:
        return False
    kind = CALLS.get(call[0])
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


_OF_REGIONS: Mapping[Region, Wait] = {"python": Wait("interpreter_lock"), "uwsgi": IDLE}


def _classify_futex(memory: MemoryMap, arguments: tuple[int, ...]) -> Wait:
    address, operation, expected = arguments[:3]
    command = operation & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)
    is_shared = not operation & FUTEX_PRIVATE_FLAG
    if command in _FUTEX_LOCKS:
        return Wait("lock", lock=("futex", address), shared=is_shared)
    if command not in _FUTEX_WAITS:
        return Wait("other")
    region = memory.region(address)
    if region in _OF_REGIONS:
        return _OF_REGIONS[region]
    if region == "heap" and memory.has_python:
        is_semaphore = command == _FUTEX_WAIT_BITSET and expected == 0 and not address % _ALIGNED
        # From CPython 3.13 on, each thread waits for a Lock on its own stack: that says nothing of the lock.
        place = None if 0 <= address - arguments[6] < _FRAMES else address
        # pthread_join(3) waits until the kernel clears the thread's id, with a futex that is not private; locks of a
        # process are private, and the words of those that are not hold 2 at most.
        is_join = is_shared and expected > _MOST_OF_A_LOCK
        return Wait(
            "lock",
            address=place,
            semaphore=place if is_semaphore else None,
            shared=is_shared,
            joins=expected if is_join else None,
        )
    if region == "image" and is_shared and memory.has_python:  # in a file that processes map, as multiprocessing.Lock
        return Wait("lock", lock=("futex", address), shared=True)
    return Wait("unknown", gap=GAP_LOCK, lock=("futex", address))


def _infer_polled(process: Process, array: int, number: int, timeout: int | None, *, stack: int) -> Wait:
    """What a thread in poll(2) waits for, without a look at its array. timeout: in milliseconds, None if that is not
    known yet."""
    if number == 0:
        return Wait("sleep")
    # Libraries that wait for a socket, and uWSGI itself, have the array on the stack. Python's select.poll() has it
    # elsewhere, and is used for pipes too, as by subprocess.
    if number > 1 or timeout is None or not 0 <= array - stack < _FRAMES:
        return Wait("unknown", gap=GAP_POLL)
    # uWSGI waits for its clients with its own timeout; a backend's poll has one of the application's, or none.
    if process.socket_timeout is not None and timeout == process.socket_timeout * 1000:
        return Wait("client")
    return Wait(None, process.sockets, gap=GAP_POLL, call="poll")


_OUTPUTS: Mapping[int, Output] = {1: "standard output", 2: "standard error"}
"""By descriptor; nobody reads from these."""


def _name_output(pid: int, descriptor: int) -> Output:
    """The name of an output; that of both where they are the same, as uWSGI makes them."""
    out, error = (descriptors.read_target(pid, number) for number in (1, 2))
    return "standard output and error" if out and out == error else _OUTPUTS[descriptor]


def decide_polled(process: Process, wait: Wait, polled: Sequence[Polled] | None, timeout: int | None = None) -> Wait:
    """What a thread in poll(2) waits for. polled: the descriptors in its array, None if it could not be read: then
    `wait`, which was inferred, stays. timeout: that of ppoll(2), in milliseconds."""
    if wait.polled is None:
        return wait
    if wait.polled[1] > MOST_ENTRIES:
        return Wait("unknown", gap=GAP_MANY)
    if not polled:
        return replace(wait, polled=None)
    targets = [(each, descriptors.read_target(process.pid, each.descriptor)) for each in polled]
    sockets = [(each, inode) for each, target in targets if (inode := procfs.socket_inode(target or ""))]
    if sockets:
        writes = all(each.writes for each, _ in sockets)
        beyond = wait.beyond if timeout is None else process.is_beyond(timeout)
        inodes = tuple(inode for _, inode in sockets)
        return Wait(None, inodes, call="poll", writes=writes, beyond=beyond, endless=wait.endless)
    # If all are closed, the thread has gone on meanwhile, and uses the memory for something else.
    return Wait("pipe") if any(target for _, target in targets) else GONE_ON


def _classify_descriptor(pid: int, thread: int, descriptor: int, *, writes: bool) -> Wait:
    target = descriptors.read_target(pid, descriptor)
    if target is None:
        return Wait("unknown", gap=GAP_SOCKET)
    if inode := procfs.socket_inode(target):
        return Wait(None, (inode,), call="descriptor", writes=writes)
    if target.startswith("pipe:["):
        return Wait("pipe")
    file_system, path = find_kind(pid, thread), target * target.startswith("/")
    if file_system or _is_in_device_sleep(pid, thread):
        return Wait("disk", file_system=file_system, path=path)
    # stat(2) could tell a FIFO from a file, but blocks if the file is on a server that does not answer.
    with suppress(OSError):  # hidden: the kernel's function that a thread sleeps in, such as `pipe_read`
        if b"pipe" in procfs.read_line(f"/proc/{pid}/task/{thread}/wchan"):
            return Wait("pipe")
    return Wait("disk", path=path) if path and not path.startswith("/dev/") else Wait("other")


class Decision(NamedTuple):
    """What a thread waits for. address: of the backend or name server; empty if it waits for none, or if it is not
    known which one. gap: why the result, or the address, is unknown. connecting: whether the connection to it is not
    made yet. candidates: the addresses one of which it is, if the address is not known."""

    result: Result
    address: str = ""
    gap: str | None = None
    connecting: bool = False
    candidates: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """The state of a thread that is not idle."""
        assert self.result != "idle"
        return "cpu" if self.result == "running" else self.result


def decide(wait: Wait, peers: Peers) -> Decision:
    """The second step: what a thread waits for, by the peers of the sockets that it waits for."""
    if wait.result is not None:
        return Decision(wait.result, gap=wait.gap)
    known = [peers.get(inode) for inode in wait.sockets]
    if wait.gap is None and len(known) == 1 and known[0] is not None:  # as of most threads
        return _decide_for(known[0], wait)
    ends = {peer for peer in known if peer and peer.kind != "unconnected"}
    if wait.gap is None:
        if any(peer.kind == "listening" for peer in ends):  # uWSGI's own epoll set
            return Decision("idle")
        if wait.epoll is not None:  # an event loop wakes itself up by a pair of sockets, beside those that it waits for
            ends = {peer for peer in ends if peer.kind != "pair"} or ends
    else:  # any socket of the process: those of clients, of uWSGI itself, of logs and the like do not count
        ends = {peer for peer in ends if peer.kind in ("backend", "dns")}
    places = {(peer.kind, peer.address) for peer in ends}
    if not ends or None in known or len(places) > 1:
        if wait.gap and None not in known and {kind for kind, _ in places} == {"backend"}:
            return Decision("backend", gap=wait.gap, candidates=tuple(sorted(address for _, address in places)))
        return Decision("unknown", gap=GAP_SOCKET if not known or None in known else wait.gap or GAP_MIXED)
    return _decide_for(min(ends, key=lambda peer: peer.connecting), wait)


def _decide_for(peer: Peer, wait: Wait) -> Decision:
    """What a thread waits for, by the only other end of its sockets."""
    if wait.writes and (peer.kind == "log" or (peer.kind == "datagram" and peer.address.startswith(("/", "@")))):
        return Decision("pipe", peer.address)  # whose reader does not read
    if peer.kind in ("backend", "datagram"):
        # A socket is looked up rarely: by now, a thread that waits for an answer has its connection.
        connects = peer.connecting and (wait.writes or wait.gap is not None)
        return Decision("backend", peer.address, connecting=peer.lost or connects)
    if peer.kind == "unconnected":
        return Decision("unknown", gap=GAP_MIXED)
    return Decision(_OF_PEERS[peer.kind], peer.address if peer.kind == "dns" else "")


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


_MOST_HIDDEN = 8
"""How many processes with such threads are looked at in a sample."""

_REMEMBERED = 200
"""How many decisions about young sockets are remembered, per kind of call: beyond, old ones count for less."""


T = TypeVar("T")

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
        self._hidden: dict[tuple[int, ...], Sequence[Part]] = {}
        self._polled: Counter[Decision] = Counter()

    def learn(
        self,
        waits: Collection[Wait],
        others: Callable[[], Iterable[int]],
        again: Callable[[], Collection[Wait]] = tuple,
        *,
        elsewhere: int | None = None,
    ) -> str | None:
        """Find the peers of the sockets in a sample, as far as the time allows, and remember what young sockets are
        used for. others: all sockets of these workers, which later samples will ask for. again: what threads wait for
        by now. It is asked if a list may be made and nothing is known yet of young sockets: on a busy machine,
        connections that were seen before have mostly ended by the time of the list. elsewhere: as for `Peers`. Returns
        the reason to show if some stay unknown because the kernel refuses to answer."""
        self._hidden.clear()
        first_list = not self._peers.lists
        seen = [*waits]
        if not first_list and any(map(self._is_open, waits)) and self._peers.may_list_soon():
            seen += [wait for wait in again() if wait.gap is None]
        wanted = {inode for wait in seen for inode in wait.sockets}
        unknown = {inode for inode in wanted if self._peers.get(inode) is None}
        refusal = self._peers.learn(unknown, others, elsewhere=elsewhere)
        self._peers.note_lost(wanted, elsewhere)
        self._look_for_unanswered(waits, elsewhere)
        for wait in waits:
            if wait.call == "poll" and wait.gap is None and self._is_known(wait):
                remember(self._polled, decide(wait, self._peers))
        if first_list:
            return refusal  # these sockets are of any age
        for wait in seen:
            if wait.sockets in self._hidden:
                continue
            if not unknown.isdisjoint(wait.sockets) and self._is_known(wait):
                decision = decide(wait, self._peers)
                if decision.result == "idle":
                    continue  # uWSGI's own epoll sets, of a worker that has just started
                remember(self._young[wait.call], decision)
        return refusal

    def _is_open(self, wait: Wait) -> bool:
        """Whether nothing says yet what a wait is for."""
        is_decided = wait.epoll is not None or self._young.get(wait.call) or self._is_known(wait)
        return wait.gap is None and not is_decided

    def _look_for_unanswered(self, waits: Collection[Wait], elsewhere: int | None) -> None:
        """Divide the threads of a process that poll, and hide for what, among the backends that have not answered
        yet: data was sent to them, and none was received since. The rest waits for any of the others."""
        hidden = Counter([wait.sockets for wait in waits if wait.gap is not None and wait.result is None])
        if not hidden:
            return
        seen = {inode for wait in waits if wait.gap is None for inode in wait.sockets}
        for sockets, waiting in list(hidden.items())[:_MOST_HIDDEN]:
            # Sockets that are not known yet are mostly those of clients.
            known = [inode for inode in sockets if self._peers.get(inode) is not None]
            decision = decide(Wait(None, tuple(known), gap=GAP_POLL), self._peers)
            if not decision.candidates:
                continue
            others = [inode for inode in known if inode not in seen]
            unanswered, doubtful = self._peers.list_unanswered(others, elsewhere=elsewhere)
            peers = [*unanswered, *doubtful[: max(0, waiting - len(unanswered))]]
            part = 1.0 / max(waiting, len(peers))
            numbers = Counter(Decision("backend", peer.address, connecting=peer.connecting) for peer in peers)
            parts = [(number * part, found) for found, number in numbers.items()]
            if waiting > len(peers):
                parts.append(((waiting - len(peers)) * part, decision))
            self._hidden[sockets] = parts

    def decide(self, wait: Wait) -> Sequence[Part]:
        """What a thread waits for. A wait for a young socket is divided like those before it, and one for any socket
        of its process among those that have not answered."""
        if wait.result is not None:
            return ((1.0, Decision(wait.result, gap=wait.gap)),)
        if wait.gap is not None and wait.sockets in self._hidden:
            return self._hidden[wait.sockets]
        if wait is GONE_ON:
            return _in_proportion(self._polled) or ((1.0, Decision("unknown", gap=GAP_SOCKET)),)
        young = self._young.get(wait.call)
        if not young or self._is_known(wait):
            return ((1.0, decide(wait, self._peers)),)
        return _in_proportion(young)

    def decide_mostly(self, wait: Wait) -> Decision:
        """The likeliest of what a thread waits for."""
        return max(self.decide(wait), key=lambda part: part[0])[1]

    def _is_known(self, wait: Wait) -> bool:
        return all(self._peers.get(inode) is not None for inode in wait.sockets)


def remember(seen: Counter[T], one: T, most: int = _REMEMBERED) -> None:
    """Count one more, and let all count for half beyond `most` of them: old ones count for less."""
    seen[one] += 1
    if seen.total() > most:
        halves = {each: number // 2 for each, number in seen.items() if number > 1}
        seen.clear()
        seen.update(halves or {one: 1})


def _in_proportion(decisions: Counter[Decision]) -> Sequence[Part]:
    total = decisions.total()
    return [(number / total, decision) for decision, number in decisions.items()]


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
            change = abs(without + number - busy) - abs(without - busy)
            self._scores[lock] += (change > 0) - (change < 0)
            self._scores[lock] = max(-2 * _LEARNT, min(2 * _LEARNT, self._scores[lock]))

    def is_learnt(self, lock: Lock) -> bool:
        """Whether it is known whether threads that wait for this lock are idle."""
        return abs(self._scores[lock]) >= _LEARNT

    def is_idle(self, lock: Lock, presumed: bool) -> bool:
        """Whether threads that wait for this lock are idle; `presumed` as long as that is not learnt."""
        score = self._scores[lock]
        return score >= _LEARNT or (presumed and score > -_LEARNT)
