"""Shows progress: one line for each step, which shows activity and then how long the step took."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator

WIDTH = 62  # columns for the sentence; the time follows and the line stays within 80
SECOND = 1.0  # seconds between two updates on a terminal
DOT = 1.0  # seconds between two dots in a pipe: after three without output, people think that a program hangs


@contextlib.contextmanager
def show_step(sentence: str) -> Iterator[None]:
    """Prints what is being done, shows activity during the block, then prints how many seconds the block took."""
    start, line = time.monotonic(), _Line(sentence)
    ended = threading.Event()
    alive = threading.Thread(target=line.move, args=(start, ended), daemon=True)
    alive.start()
    end = "  not done"
    try:
        yield
        end = f"{time.monotonic() - start:8.1f} s"
    finally:
        ended.set()
        alive.join()
        line.end(end)


def note(text: str) -> None:
    _write(f"{text}\n")


class _Line:
    """The line of a step. On a terminal it updates the elapsed time in place; elsewhere it grows by dots."""

    def __init__(self, sentence: str) -> None:
        self._terminal = sys.stdout.isatty()
        # A wrapped line cannot be overwritten.
        self._width = min(WIDTH, shutil.get_terminal_size().columns - 13) if self._terminal else WIDTH
        self._text = f"  {sentence[: self._width]}"
        _write(self._text)

    def move(self, start: float, ended: threading.Event) -> None:
        while not ended.wait(SECOND if self._terminal else DOT):
            if self._terminal:
                self.end(f"{time.monotonic() - start:6.0f}   s", "")
            else:
                self._text += "."
                _write(".")

    def end(self, words: str, newline: str = "\n") -> None:
        padding = " " * (self._width + 2 - len(self._text))
        _write(f"\r{self._text}{padding}{words}{newline}" if self._terminal else f"{padding}{words}{newline}")


def _write(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal has gone; the work must still be finished
        sys.stdout.write(text)
        sys.stdout.flush()
