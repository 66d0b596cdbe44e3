"""Writes log lines as logfmt or JSON to standard error. `extra={"fields": {...}}` adds pairs to a line.

Standard error may be a pipe that nobody empties (a log collector that hangs, a terminal halted with Ctrl-S), where a
write never returns. The event loop must not wait for such a write: it may be in the middle of a read for which uWSGI's
master waits. So a thread writes the lines, and lines that it cannot keep up with are dropped.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Literal

from uwsgi_headroom.terminal_text import escape_text


class BackgroundWriter:
    """Writes texts to a file descriptor in the order in which they were put, from a thread that ends with the program,
    whether or not everything is written.

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


Format = Literal["logfmt", "json"]

_STANDARD_ERROR = 2
_LINES_WAITING = 1000
_LAST_WORDS_SECONDS = 1.0


def configure(level: str, style: Format) -> None:
    """Send every logger's lines of `level` and above to standard error, from now on in this style."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    present = [handler for handler in root.handlers if isinstance(handler, _BackgroundHandler)]
    handler, *_ = present or [_BackgroundHandler(_STANDARD_ERROR)]
    handler.setFormatter(_Formatter(style))
    root.handlers = [handler]


class _BackgroundHandler(logging.Handler):
    """Writes to a file descriptor from a thread. Never waits, except for a second at most at the program's end.

    The next line that is not dropped reports the number of dropped lines as `lines_dropped`.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._writer = BackgroundWriter(descriptor, "log", most_waiting=_LINES_WAITING)
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        if self._dropped:
            record.fields = {**getattr(record, "fields", {}), "lines_dropped": self._dropped}
        try:
            self._writer.put(f"{self.format(record)}\n".encode(errors="backslashreplace"))
            self._dropped = 0
        except Exception:  # noqa: BLE001 - a full queue or a line that cannot be formatted must not fail the caller
            self._dropped += 1

    def flush(self) -> None:
        """Wait until the lines are written, for a second at most. `logging` calls this at the program's end."""
        self._writer.finish(_LAST_WORDS_SECONDS)


class _Formatter(logging.Formatter):
    def __init__(self, style: Format) -> None:
        super().__init__()
        self._form = style

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        pairs: dict[str, object] = {
            "ts": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            pairs["trace"] = self.formatException(record.exc_info)
        if self._form == "json":
            return escape_text(json.dumps(pairs, default=str))  # ASCII already
        return escape_text(" ".join(f"{key}={_quoted(str(value))}" for key, value in pairs.items()))


def _quoted(value: str) -> str:
    plain = value and value.isprintable() and not any(character in ' "=' for character in value)
    return value if plain else json.dumps(value, ensure_ascii=False)
