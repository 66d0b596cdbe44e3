"""Reads files that may never answer, without waiting for them.

The files of a watched process may be on a file system whose server does not answer: a network one, or FUSE with a
server that the process itself has written. Nothing can end such a read, so it runs in a thread of its own. If it takes
too long, the thread is left alone, and nothing else is read until it ends, nor for a minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

T = TypeVar("T")

MOST_SECONDS = 0.5
"""How long to wait. Files are read in a few milliseconds; a busy machine takes longer."""

PAUSE_SECONDS = 60.0
"""How long to read nothing after that: a server of files may be slow as well as silent."""


class Patience:
    """Asks questions about the files of one process; at most one thread is left waiting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stuck: threading.Thread | None = None
        self._not_before = float("-inf")

    def ask(self, question: Callable[[], T], seconds: float = MOST_SECONDS) -> T:
        """The result of `question`. Raises whatever it raises, or TimeoutError if it takes longer than `seconds` or an
        earlier one has not ended."""
        if self._clock() < self._not_before or (self._stuck is not None and self._stuck.is_alive()):
            raise TimeoutError("an earlier file was not read in time")
        answer: Future[T] = Future()

        def ask() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                answer.set_exception(error)

        thread = threading.Thread(target=ask, name="reading a file", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # too many threads, or too little memory
            raise OSError(str(error)) from None
        try:
            return answer.result(max(0.0, seconds))
        except FutureTimeoutError:
            self._stuck, self._not_before = thread, self._clock() + PAUSE_SECONDS
            raise TimeoutError("a file was not read in time") from None
