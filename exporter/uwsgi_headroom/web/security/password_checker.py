"""Compares passwords with bcrypt hashes in a thread of low priority, one at a time.

bcrypt takes a tenth of a second of CPU by design. After a wrong password the thread rests for three times as long, so
that guessing takes a quarter of one CPU at most, however many clients guess.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import threading
import time

import bcrypt

MOST_BYTES = 72
"""bcrypt ignores the rest of a password; its newest versions refuse a longer one, and `htpasswd` does not."""

_log = logging.getLogger(__name__)

_REST = 3.0
_LONGEST_REST_SECONDS = 2.0
_NICENESS = 5
"""A third of the share of an ordinary thread. With more, a first login on an overloaded machine takes minutes."""

_Job = tuple[bytes, bytes, "asyncio.Future[bool]", asyncio.AbstractEventLoop]


class PasswordChecker:
    """A queue and its thread, which starts with the first password. The caller bounds how many wait."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._is_started = False

    def check(self, password: bytes, stored: bytes) -> asyncio.Future[bool]:
        """Whether a password has this hash. The caller awaits the future."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name="passwords", daemon=True).start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._jobs.put((password, stored, future, loop))
        return future

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # of this thread alone, on Linux
        while True:
            password, stored, future, loop = self._jobs.get()
            began = time.monotonic()
            right = _matches(password, stored)
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(_answer, future, right)
            if not right:
                time.sleep(min(_LONGEST_REST_SECONDS, _REST * (time.monotonic() - began)))


def _matches(password: bytes, stored: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:MOST_BYTES], stored)
    except ValueError:  # a NUL in the password, for some versions of bcrypt; a salt that no implementation makes
        return False
    except BaseException:  # noqa: BLE001 - also a panic of bcrypt's Rust, which is no Exception: the thread must go on
        _log.exception("a password could not be checked")
        return False


def _answer(future: asyncio.Future[bool], right: bool) -> None:
    if not future.done():
        future.set_result(right)
