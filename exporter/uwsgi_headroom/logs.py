"""Writes log lines as logfmt or JSON to standard error. `extra={"fields": {...}}` adds pairs to a line.

Standard error may be a pipe that nobody empties (a log collector that hangs, a terminal halted with Ctrl-S), where a
write never returns. The event loop must not wait for such a write: it may be in the middle of a read for which uWSGI's
master waits. So a thread writes the lines, and lines that it cannot keep up with are dropped.
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


def adjust(level: str, style: Format) -> None:
    """Change the level and the format of the lines that `configure` set up."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    for handler in root.handlers:
        if isinstance(handler, _BackgroundHandler):
            handler.setFormatter(_Formatter(style))


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
