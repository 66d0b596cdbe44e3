"""Log lines as logfmt or JSON, on standard error. `extra={"fields": {...}}` adds pairs to a line.

Standard error may be a pipe that nobody empties (a log collector that hangs, a terminal halted with Ctrl-S), and a
write to it then never returns. The event loop must not wait for that: it may be in the middle of a read that uWSGI's
master waits for. So a thread of its own writes, and what it cannot keep up with is dropped.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Literal

from uwsgi_headroom.background_writer import BackgroundWriter
from uwsgi_headroom.terminal_text import escape_text

Format = Literal["logfmt", "json"]

_STANDARD_ERROR = 2
_LINES_WAITING = 1000
_LAST_WORDS_SECONDS = 1.0


def configure(level: str, style: Format) -> None:
    """Send every logger's lines of `level` and above to standard error."""
    handler = _BackgroundHandler(_STANDARD_ERROR)
    handler.setFormatter(_Formatter(style))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _BackgroundHandler(logging.Handler):
    """Writes to a file descriptor from a thread. Never waits, except at the program's end, and then not for long.

    What was dropped is said in the next line that is not: `lines_dropped`.
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
        except Exception:  # noqa: BLE001 - the queue is full, or the line cannot be made: neither is the caller's trouble
            self._dropped += 1

    def flush(self) -> None:
        """Wait until the lines are out, for a second at most. `logging` itself calls this at the program's end."""
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
