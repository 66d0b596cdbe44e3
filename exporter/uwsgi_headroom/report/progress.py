"""Shows how far a report is, on standard error: a line on a terminal, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from typing import TextIO

from uwsgi_headroom.terminal_text import escape_text

Progress = Callable[[int, int, str], None]
"""Is called with the number of steps done, the number of all steps, and what is done next."""


@contextlib.contextmanager
def progress_line(file: TextIO) -> Iterator[Progress]:
    """Yields what draws the line anew for each step; removes the line in the end."""
    is_terminal = file.isatty()

    def write(line: str) -> None:
        if is_terminal:
            with contextlib.suppress(OSError, ValueError, UnicodeError):  # the terminal has gone; the report has not
                file.write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
                file.flush()

    try:
        yield lambda done, of, what: write(f"  {100 * done // max(1, of):3d} %  {escape_text(what)}")
    finally:
        write("")
