"""The system calls that a thread can be blocked in, by architecture and number.

Numbers are those of asm/unistd_64.h (x86-64) and asm-generic/unistd.h (aarch64).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from typing import Literal, cast

from msgspec import Struct

from uwsgi_headroom.kernel import procfs

Kind = (
    Literal["futex", "descriptor", "connect", "poll", "select", "epoll", "accept"]
    | Literal["sleep", "child", "sync", "lock", "semaphore", "restart"]
)
"""What a call waits for, as far as its number says.

descriptor: for the descriptor in its first argument. connect: the same, until its connection is made. poll: for the
descriptors in an array in memory, whose length is the second argument. select: for descriptors in sets in memory; the
first argument is 0 if there are none. semaphore: for the System V semaphore in its first argument. restart: what the
thread was blocked in before it was stopped and continued (SIGSTOP, a debugger, the freezer), which the kernel does not
say.
"""

_CALLS = """
    accept: accept 43 202, accept4 288 242
    child: wait4 61 260, waitid 247 95, vfork 58 -, clone 56 220, clone3 435 435
    connect: connect 42 203
    descriptor: read 0 63, write 1 64, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, preadv 295 69
    descriptor: pwritev 296 70, preadv2 327 286, pwritev2 328 287, sendfile 40 71, sendto 44 206, recvfrom 45 207
    descriptor: sendmsg 46 211, recvmsg 47 212, recvmmsg 299 243, sendmmsg 307 269
    epoll: epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441
    futex: futex 202 98
    lock: flock 73 32, fcntl 72 25
    poll: poll 7 -, ppoll 271 73
    restart: restart_syscall 219 128
    select: select 23 -, pselect6 270 72
    semaphore: semop 65 193, semtimedop 220 192
    sleep: nanosleep 35 101, clock_nanosleep 230 115
    sync: fsync 74 82, fdatasync 75 83, sync 162 81, syncfs 306 267, msync 26 227, sync_file_range 277 84
"""
"""The calls of each kind, with their numbers on x86-64 and on aarch64; `-` for one that does not exist there. clone(2)
blocks only as vfork(2) does: posix_spawn(3) waits in it until the program runs."""

_UNTRIED = frozenset({"aarch64"})
"""Architectures on which no call was seen in a test yet: every blocked thread there is `unknown`."""

_COLUMNS: Mapping[str, tuple[int, ...]] = {"x86_64": (1,), "aarch64": (2,)}


class Calls(Struct, frozen=True):
    """The system calls of an architecture. kinds: by number, none if it is not in the table; tried: whether they were
    seen in a test."""

    kinds: Mapping[int, Kind]
    tried: bool


@cache
def find_calls(machine: str = platform.machine()) -> Calls:
    """The system calls of a machine, this one by default."""
    kinds: dict[int, Kind] = {}
    for line in _CALLS.strip().splitlines():
        kind, _, calls = line.strip().partition(": ")
        numbers = (call.split()[column] for call in calls.split(", ") for column in _COLUMNS.get(machine, ()))
        kinds.update({int(number): cast("Kind", kind) for number in numbers if number != "-"})
    return Calls(kinds, machine not in _UNTRIED and bool(kinds))


Blocked = tuple[int, tuple[int, ...]]
"""The number of a system call, and its six arguments followed by the thread's stack pointer."""


def read_system_call(pid: int, thread: int) -> bytes:
    """What a thread is blocked in, as the kernel writes it: see `parse_system_call`. Raises OSError (PermissionError
    without the right to trace the process)."""
    return procfs.KEPT.read_line(f"/proc/{pid}/task/{thread}/syscall")


def parse_system_call(line: bytes) -> Blocked | Literal["running", "outside"]:
    """What a thread is blocked in; `running` if it runs or could run, `outside` if it is blocked outside of a system
    call, as in a page fault. Raises ValueError if the line is not as in proc_pid_syscall(5)."""
    words = line.split()
    if words[:1] == [b"running"]:
        return "running"
    if words[:1] == [b"-1"]:
        return "outside"
    if len(words) != 9:
        raise ValueError(f"a syscall file has {len(words)} words")
    return int(words[0]), tuple([int(word, 16) for word in words[1:8]])
