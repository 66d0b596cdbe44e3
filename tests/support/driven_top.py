"""Drives `uwsgi-headroom top` in a pseudo-terminal: sends keys, and reads the screen."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence

import pyte
from msgspec import Struct, field

from tests.support.exporter import COMMAND, clean_environment

LEFT = b"\x1b[?25h\x1b[?1049l"
"""The last output to a terminal: shows the cursor, and restores the earlier screen."""


class Driven(Struct):
    """A program in a terminal. written: all its output; path: the path of the terminal."""

    process: subprocess.Popen[bytes]
    keyboard: int
    screen: pyte.Screen
    written: bytes = b""
    modes: list[object] = field(default_factory=list)
    path: str = ""

    def press(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def lines(self) -> list[str]:
        """The lines on the screen now."""
        return [line.rstrip() for line in self.screen.display]

    def text(self) -> str:
        return "\n".join(self.lines())

    def wait(self, ready: Callable[[str], object], seconds: float = 60.0) -> str:
        """Reads output until the screen is `ready`; returns the screen."""
        assert self._pump(lambda: ready(self.text()), seconds), self.text()
        return self.text()

    def ended(self, seconds: float = 60.0) -> int:
        """Waits until the program has ended; returns its exit status."""
        self._pump(lambda: self.process.poll() is not None, seconds)
        status = self.process.wait(0.1)
        self._pump(lambda: False, 0.2)
        return status

    def is_as_it_was(self) -> bool:
        """Whether the terminal has its initial modes, and the last output restored the screen."""
        return termios.tcgetattr(self.keyboard) == self.modes and LEFT in self.written[-200:]

    def foreground(self) -> int:
        """The process group that reads the keys."""
        return os.tcgetpgrp(self.keyboard)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def close(self) -> None:
        """Closes the terminal, as when a connection breaks."""
        os.close(self.keyboard)
        self.keyboard = -1

    def _pump(self, enough: Callable[[], object], seconds: float) -> bool:
        """Reads output until `enough`, which is asked once after each output; returns False after so many seconds."""
        stream = pyte.ByteStream(self.screen)
        end = time.monotonic() + seconds
        while not enough():
            if time.monotonic() >= end:
                return False
            if not select.select([self.keyboard], [], [], 0.05)[0]:
                continue
            try:
                received = os.read(self.keyboard, 65536)
            except OSError:  # no process has the terminal open
                time.sleep(0.05)
                continue
            self.written += received
            stream.feed(received)
        return True


def _take() -> None:
    """Makes standard input the controlling terminal, so that Ctrl-C sends a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextlib.contextmanager
def driven(
    *arguments: str,
    columns: int = 80,
    lines: int = 24,
    command: Sequence[str] = (*COMMAND, "top"),
    directory: str | None = None,
    **environment: str,
) -> Iterator[Driven]:
    """Runs `uwsgi-headroom top` with these arguments, as the leader of a new session, until the block ends."""
    keyboard, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    modes, path = termios.tcgetattr(keyboard), os.ttyname(terminal)
    process = subprocess.Popen(
        [*command, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=directory,
        env={**clean_environment(), "TERM": "xterm-256color", "PYTHONUTF8": "1", **environment},
        start_new_session=True,
        preexec_fn=_take,  # noqa: PLW1509 - nothing else runs in a test that has a terminal
    )
    os.close(terminal)
    top = Driven(process, keyboard, pyte.Screen(columns, lines), modes=modes, path=path)
    try:
        yield top
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait(60)
        if top.keyboard >= 0:
            os.close(top.keyboard)
