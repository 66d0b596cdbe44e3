"""Sees across namespaces: a process's PIDs in each PID namespace, and another's network.

The links in `/proc/<pid>/ns` need the permission to trace the process, which an exporter with its own user lacks. Only
`ask_in_network_of` needs it; to compare PIDs and networks, the files here that everybody may read are enough.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from uwsgi_headroom.kernel.procfs import ask_in_thread, read_status

T = TypeVar("T")


def read_pid_numbers(pid: int | Literal["self"], *, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The PIDs of a process, from the PID namespace of `proc` down to the process's own (NSpid in proc(5)).

    A single PID means that the process is in the namespace of `proc`. Empty if the process does not exist or is hidden
    (`hidepid`), or if the kernel is older than 4.1.
    """
    return tuple(map(int, read_status("NSpid", proc, str(pid), "status") or ()))


def shares_network_namespace(pid: int) -> bool | None:
    """Whether a process shares this process's network namespace; None if that is not visible.

    Each network namespace has its own `net` files in procfs, with unique inode numbers (proc_net.c, proc_alloc_inum).
    So equal numbers mean one namespace, and stat(2) needs no privilege.
    """
    try:
        theirs, ours = os.stat(f"/proc/{pid}/net/dev"), os.stat("/proc/self/net/dev")
    except OSError:
        return None
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def find_elsewhere(pid: int) -> int | None:
    """The process itself if its network namespace is another one, or not visible; None if it is in this one."""
    return None if shares_network_namespace(pid) else pid


CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x00020000  # linux/sched.h

WHO_MAY_ASK = (
    "uWSGI runs in another network namespace: give the exporter CAP_SYS_ADMIN and CAP_SYS_PTRACE, or run it in that "
    "namespace (same container or pod)"
)


NOT_VISIBLE = "process {} is not visible: it has ended, or /proc hides it (mount option hidepid)"


def ask_in_network_of(pid: int | None, question: Callable[[], T]) -> T:
    """The result of `question`, which runs in a thread in the network namespace of a process; if that is this
    process's own, or with None, in this thread.

    A netlink socket belongs to the namespace of the thread that creates it, and setns(2) moves one thread. So each
    question has a short-lived thread of its own, 0.1 ms: no thread of the exporter changes its namespace, and no
    descriptor keeps that of a stopped container alive. It takes CAP_SYS_ADMIN, in the user namespaces of the exporter
    and of the network, and CAP_SYS_PTRACE to open the namespace of another user's process.

    Raises whatever `question` raises, or OSError with the reason to show to the operator. The caller waits, so
    `question` has to be short.
    """
    if pid is None or (same := shares_network_namespace(pid)):
        return question()
    if same is None:
        raise OSError(NOT_VISIBLE.format(pid))

    def enter_and_ask() -> T:
        try:
            enter(pid, "net", CLONE_NEWNET)
        except PermissionError:
            raise OSError(WHO_MAY_ASK) from None
        except OSError as error:
            raise OSError(f"the network namespace of process {pid} is not visible: {error.strerror}") from None
        return question()

    thread, answer = ask_in_thread(enter_and_ask, "in another network namespace")
    thread.join()
    return answer.result()


_libc = ctypes.CDLL(None, use_errno=True)  # os.setns exists from Python 3.12 on


def enter(pid: int, name: str, kind: int) -> None:
    """Move this thread into a namespace of a process, by its name in `/proc/PID/ns`. Raises OSError, PermissionError
    also where the kernel or a filter of system calls has no setns(2)."""
    namespace = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(namespace, kind) != 0:
            code = ctypes.get_errno()
            raise OSError(errno.EPERM if code == errno.ENOSYS else code, os.strerror(code))
    finally:
        os.close(namespace)
