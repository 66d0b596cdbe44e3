"""Decides what one thread waits for, from the system call that it is blocked in.

The decision has two steps, because sockets are looked up for all threads of a sample at once: first the call, then,
if it depends on sockets, their peers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import descriptors
from uwsgi_headroom.kernel.waits.descriptors import Epolls
from uwsgi_headroom.kernel.waits.idle_locks import Lock
from uwsgi_headroom.kernel.waits.memory_map import MemoryMap
from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.kernel.waits.poll_descriptors import read_poll_descriptors
from uwsgi_headroom.kernel.waits.system_calls import Blocked, Calls, Kind
from uwsgi_headroom.record.waits import State

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
    lock: identifies a lock that idle threads may wait for as well (see `idle_locks`); None if they do not. epoll: the
    descriptor of the epoll set, for a wait in one. call: the kind of the system call, for a wait for sockets."""

    result: Result | None
    sockets: tuple[int, ...] = ()
    gap: str | None = None
    lock: Lock | None = None
    epoll: int | None = None
    call: str = ""


IDLE, RUNNING = Wait("idle"), Wait("running")


@dataclass(frozen=True)
class Process:
    """What is known of the process of a thread, for one sample. socket_timeout: uWSGI's option, in seconds, None if
    unknown.
    """

    pid: int
    calls: Calls
    memory: MemoryMap
    socket_timeout: int | None
    read_pollfds: bool
    epolls: Epolls

    @cached_property
    def sockets(self) -> tuple[int, ...]:
        """The inodes of the process's sockets; none if it has too many descriptors to look at."""
        return descriptors.list_sockets(self.pid)


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
    if inode := descriptors.socket_inode(target):
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
    try:
        return procfs.read_stat_fields(f"/proc/{pid}/task/{thread}/stat")[0] == b"D"
    except (OSError, IndexError):
        return False


def _read_wait_channel(pid: int, thread: int) -> bytes:
    """The kernel's function that a thread sleeps in, such as `pipe_read`; empty if that is hidden."""
    try:
        return procfs.read_line(f"/proc/{pid}/task/{thread}/wchan")
    except OSError:
        return b""
