"""Runs a program in a terminal, and reads its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence

_ROWS, _COLUMNS = 50, 200
_PART = re.compile(r"\x1b\[([?\d;]*)([@A-Za-z])|\x1b[()].|\x1b[^\[()]|([\x00-\x1f])|([^\x00-\x1f\x1b]+)")


def screen_of(command: Sequence[str], ready: Callable[[list[str]], object], seconds: float = 60.0) -> list[str]:
    """Runs a program in a terminal until its screen is `ready`; returns the lines, and ends the program."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "linux", "LINES": str(_ROWS), "COLUMNS": str(_COLUMNS)}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True)
    os.close(slave)
    end, written, lines = time.monotonic() + seconds, b"", [""]
    try:
        while not ready(lines):
            assert time.monotonic() < end, "\n".join(line for line in lines if line)
            if select.select([master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # the program has ended
                    written += os.read(master, 65536)
                lines = _drawn(written.decode("utf-8", "replace"))
        return lines
    finally:
        process.kill()
        process.wait(60)
        os.close(master)


def _drawn(written: str) -> list[str]:  # noqa: PLR0912 - one branch for each control sequence
    """The screen after this output: emulates the part of a Linux console that curses uses."""
    cells = [[" "] * _COLUMNS for _ in range(_ROWS)]
    row = column = 0
    for arguments, letter, control, text in _PART.findall(written):
        numbers = [int(argument) if argument.isdecimal() else 0 for argument in arguments.split(";")]
        count = max(1, numbers[0])
        if text:
            for character in text:
                if column < _COLUMNS:
                    cells[row][column] = character
                column += 1
        elif control:
            if control == "\r":
                column = 0
            elif control == "\n":
                row = min(row + 1, _ROWS - 1)
            elif control == "\b":
                column = max(0, column - 1)
            elif control == "\t":
                column = (column // 8 + 1) * 8
        elif letter in "Hf":
            row = min(count, _ROWS) - 1
            column = max(1, numbers[1]) - 1 if len(numbers) > 1 else 0
        elif letter == "d":
            row = min(count, _ROWS) - 1
        elif letter in "G`":
            column = count - 1
        elif letter == "A":
            row = max(0, row - count)
        elif letter == "B":
            row = min(_ROWS - 1, row + count)
        elif letter == "C":
            column += count
        elif letter == "D":
            column = max(0, column - count)
        elif letter == "X":
            cells[row][column : column + count] = [" "] * len(cells[row][column : column + count])
        elif letter == "K":
            cells[row][column:] = [" "] * (_COLUMNS - column)
        elif letter == "J":
            below = range(_ROWS) if numbers[0] == 2 else range(row + 1, _ROWS)
            cells[row][column:] = [" "] * (_COLUMNS - column)
            for other in below:
                cells[other] = [" "] * _COLUMNS
    return ["".join(line).rstrip() for line in cells]
