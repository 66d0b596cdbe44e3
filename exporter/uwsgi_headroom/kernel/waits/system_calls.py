"""The system calls that a thread can be blocked in, by architecture and number.

Numbers are those of asm/unistd_64.h (x86-64) and asm-generic/unistd.h (aarch64).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Literal

from uwsgi_headroom.kernel import procfs

Kind = Literal[
    "futex",
    "descriptor",
    "send",
    "connect",
    "poll",
    "ppoll",
    "select",
    "epoll",
    "accept",
    "sleep",
    "child",
    "sync",
    "lock",
    "semaphore",
    "restart",
]
"""What a call waits for, as far as its number says.

descriptor: for the descriptor in its first argument. send: the same, to send to a socket. connect: the same, until its
connection is made. poll: for the descriptors in an array in memory, whose length is the second argument. ppoll: the
same; the third argument is the address of its timeout. select: for descriptors in sets in memory; the first argument is
0 if there are none. semaphore: for the System V semaphore in its first argument. restart: what the thread was blocked
in before it was stopped and continued (SIGSTOP, a debugger, the freezer), which the kernel does not say.
"""

_KINDS: Mapping[str, tuple[Kind, int, int]] = {
    "read": ("descriptor", 0, 63),
    "write": ("descriptor", 1, 64),
    "pread64": ("descriptor", 17, 67),
    "pwrite64": ("descriptor", 18, 68),
    "readv": ("descriptor", 19, 65),
    "writev": ("descriptor", 20, 66),
    "preadv": ("descriptor", 295, 69),
    "pwritev": ("descriptor", 296, 70),
    "preadv2": ("descriptor", 327, 286),
    "pwritev2": ("descriptor", 328, 287),
    "sendfile": ("descriptor", 40, 71),
    "connect": ("connect", 42, 203),
    "sendto": ("send", 44, 206),
    "recvfrom": ("descriptor", 45, 207),
    "sendmsg": ("send", 46, 211),
    "recvmsg": ("descriptor", 47, 212),
    "recvmmsg": ("descriptor", 299, 243),
    "sendmmsg": ("send", 307, 269),
    "accept": ("accept", 43, 202),
    "accept4": ("accept", 288, 242),
    "poll": ("poll", 7, -1),
    "ppoll": ("ppoll", 271, 73),  # poll(3) of the C library, too, where the kernel has no poll(2)
    "select": ("select", 23, -1),
    "pselect6": ("select", 270, 72),
    "epoll_wait": ("epoll", 232, -1),
    "epoll_pwait": ("epoll", 281, 22),
    "epoll_pwait2": ("epoll", 441, 441),
    "futex": ("futex", 202, 98),
    "nanosleep": ("sleep", 35, 101),
    "clock_nanosleep": ("sleep", 230, 115),
    "wait4": ("child", 61, 260),
    "waitid": ("child", 247, 95),
    "vfork": ("child", 58, -1),
    "clone": ("child", 56, 220),  # blocks only as vfork(2) does: posix_spawn(3) waits in it until the program runs
    "clone3": ("child", 435, 435),
    "fsync": ("sync", 74, 82),
    "fdatasync": ("sync", 75, 83),
    "sync": ("sync", 162, 81),
    "syncfs": ("sync", 306, 267),
    "msync": ("sync", 26, 227),
    "sync_file_range": ("sync", 277, 84),
    "flock": ("lock", 73, 32),
    "fcntl": ("lock", 72, 25),
    "restart_syscall": ("restart", 219, 128),
    "semop": ("semaphore", 65, 193),
    "semtimedop": ("semaphore", 220, 192),
}
"""The kind of each call, and its number on x86-64 and on aarch64; -1 if it does not exist there."""

_COLUMNS = {"x86_64": 1, "aarch64": 2}

Calls = Mapping[int, Kind]
"""The system calls of an architecture, by number."""


def find_calls(machine: str) -> Calls:
    """The system calls of a machine; none if its architecture is not in the table."""
    column = _COLUMNS.get(machine)
    return {int(row[column]): row[0] for row in _KINDS.values() if column and row[column] != -1}


CALLS = find_calls(platform.machine())
NO_TABLE = "the system calls of this machine's architecture are not known"


Blocked = tuple[int, tuple[int, ...]]
"""The number of a system call, and its six arguments followed by the thread's stack pointer."""


def read_system_call(pid: int, thread: int) -> bytes:
    """What a thread is blocked in, as the kernel writes it. Raises OSError (PermissionError without the right to trace
    the process)."""
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
