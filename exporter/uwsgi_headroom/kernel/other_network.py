"""Asks the kernel from within the network namespace of another process.

A netlink socket belongs to the namespace of the thread that creates it, and setns(2) moves one thread. So each question
is asked in a short-lived thread of its own, 0.1 ms: no thread of the exporter ever changes its namespace, and no
descriptor keeps the namespace of a stopped container alive.

It takes CAP_SYS_ADMIN, in the user namespaces of the exporter and of the network, and CAP_SYS_PTRACE to open the
namespace of another user's process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from uwsgi_headroom.kernel.namespaces import shares_network_namespace

T = TypeVar("T")

CLONE_NEWNET = 0x40000000  # linux/sched.h

WHO_MAY_ASK = (
    "uWSGI runs in another network namespace: give the exporter CAP_SYS_ADMIN and CAP_SYS_PTRACE, or run it in that "
    "namespace (same container or pod)"
)


def ask_in_network_of(pid: int, question: Callable[[], T]) -> T:
    """The result of `question`, which runs in a thread in the network namespace of a process; if that is this
    process's own, in this thread.

    Raises whatever `question` raises, or OSError with the reason to show to the operator. The caller waits, so
    `question` has to be short.
    """
    same = shares_network_namespace(pid)
    if same is None:
        raise OSError(f"process {pid} is not visible: it has ended, or /proc hides it (mount option hidepid)")
    return question() if same else _ask_there(pid, question)


def _ask_there(pid: int, question: Callable[[], T]) -> T:
    answer: Future[T] = Future()

    def enter_and_ask() -> None:
        try:
            _enter_network_of(pid)
            answer.set_result(question())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            answer.set_exception(error)

    thread = threading.Thread(target=enter_and_ask, name="in another network namespace", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # too many threads, or too little memory
        raise OSError(str(error)) from None
    thread.join()
    return answer.result()


_libc = ctypes.CDLL(None, use_errno=True)  # os.setns exists from Python 3.12 on


def _enter_network_of(pid: int) -> None:
    """Move this thread into the network namespace of a process. Raises OSError with the reason to show."""
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise OSError(WHO_MAY_ASK) from None
    except OSError as error:
        raise OSError(f"the network namespace of process {pid} is not visible: {error.strerror}") from None
    try:
        if _libc.setns(namespace, CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            refused = code in (errno.EPERM, errno.ENOSYS)
            raise OSError(WHO_MAY_ASK if refused else f"setns(2) failed: {os.strerror(code)}")
    finally:
        os.close(namespace)
