"""What `check` writes to a terminal is read to its end, without the progress that it erases."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.scenarios.checking import Terminal

PROGRESS = "\\r\\x1b[Kwatching for 2 s more \\r\\x1b[Kwatching for 1 s more \\r\\x1b[K"


@pytest.mark.parametrize(
    ("written", "last"),
    [(f"{PROGRESS}UNKNOWN: refused\\n", "UNKNOWN: refused"), (PROGRESS, ""), ("one\\ntwo\\n", "two")],
)
def test_the_last_line_is_what_was_not_erased(written: str, last: str) -> None:
    """Progress that a program has erased is not in its last line; a message after it is."""
    terminal = Terminal()
    process = subprocess.Popen([sys.executable, "-c", f"print('{written}', end='')"], stdout=terminal.fd)
    terminal.start()
    assert process.wait(20) == 0
    assert terminal.last_line() == last
