"""Writes to a file descriptor from a thread, so that an event loop never waits for the reader at the other end.

A write to a pipe that nobody empties, or to a terminal halted with Ctrl-S, can block for minutes. The thread ends with
the program, whether or not everything is written.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable


class BackgroundWriter:
    """Writes texts in the order in which they were put.

    name: of the thread. most_waiting: how many texts may wait to be written, 0 for any number. on_failure: called in
    the thread after each failed write; the rest of that text is dropped.
    """

    def __init__(
        self, descriptor: int, name: str, *, most_waiting: int = 0, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        self._descriptor = descriptor
        self._on_failure = on_failure
        self._texts: queue.Queue[bytes] = queue.Queue(most_waiting)
        threading.Thread(target=self._write_texts, name=name, daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether any text is still to be written."""
        return self._texts.unfinished_tasks > 0

    def put(self, text: bytes) -> None:
        """Queue a text. Returns at once; raises queue.Full if `most_waiting` texts wait already."""
        self._texts.put_nowait(text)

    def finish(self, seconds: float) -> None:
        """Wait until every text is written, but at most this many seconds."""
        with self._texts.all_tasks_done:
            self._texts.all_tasks_done.wait_for(lambda: not self.busy, seconds)

    def _write_texts(self) -> None:
        while True:
            text = self._texts.get()
            try:
                # Not through sys.stderr: at exit, Python waits for a thread that writes there.
                while text:
                    text = text[os.write(self._descriptor, text) :]
            except OSError:
                self._on_failure()
            self._texts.task_done()
