"""Compares passwords with bcrypt hashes in two threads, never in the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import threading
import time
from typing import NamedTuple

import bcrypt

MOST_BYTES = 72
"""bcrypt ignores the rest of a password; its newest versions refuse a longer one, and `htpasswd` does not."""

_log = logging.getLogger(__name__)

_NICENESS = {False: 5, True: 0}
"""Of the threads for new and for repeated passwords. With 5, a thread has a third of the share of an ordinary one: on
two CPUs with a load of 8, 0.5 s of CPU took 8 to 9 s."""


class Checked(NamedTuple):
    """Whether a password has a hash, and the CPU time that the comparison took, in seconds."""

    right: bool
    seconds: float


_Job = tuple[bytes, bytes, "asyncio.Future[Checked]", asyncio.AbstractEventLoop]


class PasswordChecker:
    """A queue and a thread for new passwords, and for repeated ones, which start when needed. The caller bounds how
    many wait."""

    def __init__(self) -> None:
        self._jobs: dict[bool, queue.SimpleQueue[_Job]] = {}

    def check(self, password: bytes, stored: bytes, *, repeated: bool) -> asyncio.Future[Checked]:
        """Compare a password with a hash. The caller awaits the future."""
        if repeated not in self._jobs:
            self._jobs[repeated] = queue.SimpleQueue()
            arguments = self._jobs[repeated], _NICENESS[repeated]
            threading.Thread(target=_run, args=arguments, name="passwords", daemon=True).start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Checked] = loop.create_future()
        self._jobs[repeated].put((password, stored, future, loop))
        return future


def _run(jobs: queue.SimpleQueue[_Job], niceness: int) -> None:
    if niceness:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)  # of this thread alone, on Linux
    while True:
        password, stored, future, loop = jobs.get()
        began = time.thread_time()
        right = _matches(password, stored)
        checked = Checked(right, time.thread_time() - began)
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(_answer, future, checked)


def _matches(password: bytes, stored: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:MOST_BYTES], stored)
    except ValueError:  # a NUL in the password, for some versions of bcrypt; a salt that no implementation makes
        return False
    except BaseException:  # noqa: BLE001 - also a panic of bcrypt's Rust, which is no Exception: the thread must go on
        _log.exception("a password could not be checked")
        return False


def _answer(future: asyncio.Future[Checked], checked: Checked) -> None:
    if not future.done():
        future.set_result(checked)
