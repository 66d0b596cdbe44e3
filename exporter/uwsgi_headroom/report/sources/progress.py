"""Shows how far a report is, on standard error: a bar on a terminal, and nothing elsewhere but for the first step."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from typing import TextIO

from uwsgi_headroom.terminal_text import bar, escape_text

Progress = Callable[[int, int, str], None]
"""Is called with the number of steps done, the number of all steps, and what is done next."""

_CELLS = 24
_SECONDS = 0.1
"""The shortest time between two updates."""


class ProgressLine:
    """One line that is drawn anew for each step; a context manager that removes it in the end."""

    def __init__(self, file: TextIO, *, terminal: bool) -> None:
        self._file, self._terminal = file, terminal
        self._drawn_at = float("-inf")
        self._width = shutil.get_terminal_size().columns - 1
        self._unicode = (file.encoding or "").lower().replace("-", "") == "utf8"

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal and self._drawn_at > float("-inf"):
            self._write("\r\x1b[K")

    def show(self, done: int, of: int, what: str) -> None:
        """Show that `done` of `of` steps are done, and what comes next."""
        if not self._terminal or (time.monotonic() - self._drawn_at < _SECONDS and 0 < done < of):
            return
        self._drawn_at = time.monotonic()
        drawn = bar(done, of, _CELLS) if self._unicode else "#" * (done * _CELLS // max(1, of))
        line = f"  {drawn:<{_CELLS}} {100 * done // max(1, of):3d} %  {escape_text(what)}"
        self._write(f"\r{line[: self._width]}\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError, UnicodeError):  # the terminal has gone; the report has not
            self._file.write(text)
            self._file.flush()
