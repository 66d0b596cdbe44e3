"""Everything that `check` writes to a terminal is read, so that its beginning is seen and it never has to wait."""

from __future__ import annotations

import subprocess
import sys

from tools.scenarios.checking import BEGUN, Terminal


def test_all_that_is_written_is_read() -> None:
    """Output larger than a terminal's buffer is read, including the progress in it."""
    terminal = Terminal()
    program = "print('x' * 200_000 + 'watching for 2 s more', end='')"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=terminal.fd)
    terminal.start()
    assert process.wait(60) == 0
    terminal.close()
    assert len(terminal.text) == 200_000 + len("watching for 2 s more")
    assert BEGUN in terminal.text
