"""Writes to a file descriptor from a thread, so that an event loop never waits for the reader at its other end.

A pipe that nobody empties, or a terminal halted with Ctrl-S, takes nothing for minutes, and a write to it does not
return. The thread ends with the program, whether or not everything is written.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable


class BackgroundWriter:
    """Writes what it is given, in order.

    name: of its thread. most_waiting: how many texts may wait to be written, 0 for any number. on_failure: called in
    the thread after each write that failed; what was left of its text is dropped.
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
        """Whether a text is not written yet."""
        return self._texts.unfinished_tasks > 0

    def put(self, text: bytes) -> None:
        """Have a text written. Returns at once; raises queue.Full if `most_waiting` texts wait already."""
        self._texts.put_nowait(text)

    def finish(self, seconds: float) -> None:
        """Wait until every text is written, for so many seconds at most."""
        with self._texts.all_tasks_done:
            self._texts.all_tasks_done.wait_for(lambda: not self.busy, seconds)

    def _write_texts(self) -> None:
        while True:
            text = self._texts.get()
            try:
                # Not through sys.stderr: at the program's end Python itself waits for a thread that writes there.
                while text:
                    text = text[os.write(self._descriptor, text) :]
            except OSError:
                self._on_failure()
            self._texts.task_done()
