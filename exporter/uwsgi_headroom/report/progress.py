"""Shows how far a report is, on standard error: a line on a terminal, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from typing import TextIO

from uwsgi_headroom.terminal_text import escape_text

Progress = Callable[[int, int, str], None]
"""Is called with the number of steps done, the number of all steps, and what is done next."""

_SECONDS = 0.1
"""The shortest time between two updates."""


class ProgressLine:
    """One line that is drawn anew for each step; a context manager that removes it in the end."""

    def __init__(self, file: TextIO, *, terminal: bool) -> None:
        self._file, self._terminal = file, terminal
        self._drawn_at = float("-inf")

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def show(self, done: int, of: int, what: str) -> None:
        """Show that `done` of `of` steps are done, and what comes next."""
        if time.monotonic() - self._drawn_at >= _SECONDS or done in (0, of):
            self._drawn_at = time.monotonic()
            self._write(f"  {100 * done // max(1, of):3d} %  {escape_text(what)}")

    def _write(self, line: str) -> None:
        if self._terminal:
            with contextlib.suppress(OSError, ValueError, UnicodeError):  # the terminal has gone; the report has not
                self._file.write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
                self._file.flush()
