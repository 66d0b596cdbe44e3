"""What a person sees while something takes time: one line for each step, that moves, with how long it took."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator

WIDTH = 62  # columns for the sentence; the time follows and the line stays within 80
SECOND = 1.0  # between two times on a terminal
DOT = 1.0  # seconds between two dots in a pipe: three without a sign of life look like an end


@contextlib.contextmanager
def show_step(sentence: str) -> Iterator[None]:
    """Say what is being done, that it goes on, and when the block has ended, how many seconds it took."""
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
    """Say something between two steps."""
    _write(f"{text}\n")


class _Line:
    """The line of a step. On a terminal its time is written over the one before; elsewhere it grows by dots."""

    def __init__(self, sentence: str) -> None:
        self._terminal = sys.stdout.isatty()
        # A line that wraps cannot be written over.
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
    with contextlib.suppress(OSError):  # the terminal has gone; what is done has to be done all the same
        sys.stdout.write(text)
        sys.stdout.flush()
