"""Writes records and events to a history file, from a thread of its own, so that sampling never waits for a disk.

Whatever fails, the exporter goes on: `problem` says what is wrong, the thread tries again every minute, and meanwhile
the latest records wait in memory.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store.database import Database
from uwsgi_headroom.store.file import Failure, explain, hold_lock, open_to_write
from uwsgi_headroom.store.record import Minute

RETRY_SECONDS = 60.0
"""Time between two attempts to write to a file that cannot be written."""

MOST_WAITING = 2000
"""Minutes that wait in memory while the file cannot be written: an hour of 33 servers, 20 MB with 8 workers each."""

_TOGETHER_SECONDS = 1.0
"""How long the thread waits for more records, to write them in one transaction."""

_TOGETHER = 32
"""Minutes in one transaction: what waited for a full disk must not make the file too large."""

_log = logging.getLogger(__name__)


class HistoryWriter:
    """Writes to one history file. Methods may be called from any thread, and return at once but for `close`.

    problem: why nothing is written, as a sentence; "" if all is well. written, dropped: numbers of minutes.
    """

    def __init__(self, path: Path, max_size: int, epoch: Callable[[], float] = time.time) -> None:
        self.path = path
        self.problem = ""
        self.written = self.dropped = self.size = 0
        self.since: dict[str, float] = {}
        self._max_size = max_size
        self._epoch = epoch
        self._waiting: list[Minute] = []
        self._changed = threading.Condition()
        self._closing = False
        self._lock: int | None = None
        self._database: Database | None = None
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def put(self, minute: Minute) -> None:
        """Write a minute soon. The oldest is dropped if too many wait."""
        with self._changed:
            self._waiting.append(minute)
            self._drop_oldest()
            self._changed.notify()

    def close(self, seconds: float) -> None:
        """Write what waits, and close the file; give up after these seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            succeeded = self._attempt()
            with self._changed:
                if self._closing and not (succeeded and self._waiting):
                    break
                if not succeeded:
                    self._changed.wait_for(lambda: self._closing, RETRY_SECONDS)
                else:
                    self._changed.wait_for(lambda: self._closing or bool(self._waiting))
                    self._changed.wait_for(lambda: self._closing, _TOGETHER_SECONDS)
        self._close()

    def _attempt(self) -> bool:
        """Open the file if it is not open, and write what waits; whether that succeeded."""
        with self._changed:
            minutes, self._waiting = self._waiting, []
        written = 0
        try:
            database = self._open()
            for _ in range(0, len(minutes) or 1, _TOGETHER):
                self.dropped += database.write(minutes[:_TOGETHER], self._epoch())
                written += len(minutes[:_TOGETHER])
                del minutes[:_TOGETHER]
            self.size, self.since = database.size, database.since
            self._report("")
        except (HistoryFileError, *Failure, OSError) as error:
            self._close()
            self._report(explain(self.path, error) if isinstance(error, Failure) else str(error))
            with self._changed:
                self._waiting[:0] = minutes
                self._drop_oldest()
            return False
        except Exception:  # noqa: BLE001 - an error in one record must not end the history
            self._close()
            self._report("internal error")
            _log.exception("the history failed")
            self.dropped += len(minutes)
            return False
        finally:
            self.written += written  # last: who sees it sees all that this attempt changed
        return True

    def _drop_oldest(self) -> None:
        many = len(self._waiting) - MOST_WAITING
        if many > 0:
            del self._waiting[:many]
            self.dropped += many

    def _open(self) -> Database:
        if not self._has_file():
            self._close()  # it was moved away or replaced
        if self._database is None:
            self._lock = hold_lock(self.path)
            self._database = Database(open_to_write(self.path), self._max_size)
        return self._database

    def _has_file(self) -> bool:
        """Whether the path is still that of the locked file."""
        try:
            return self._lock is not None and os.path.samestat(os.stat(self.path), os.fstat(self._lock))
        except OSError:
            return False

    def _close(self) -> None:
        if self._database:
            self._database.close()
            self._database = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            message = "the history is not written" if problem else "the history is written again"
            _log.log(logging.WARNING if problem else logging.INFO, message, extra={"fields": {"reason": problem}})
        self.problem = problem
