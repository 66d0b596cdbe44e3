"""Runs commands to their end, and shows their output only if they fail."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

TAIL = 15  # lines: pip and compilers print the cause at the end


class CommandError(Exception):
    """A command failed; the message contains the end of its output."""

    def __init__(self, command: str, said: str) -> None:
        lines = said.strip().splitlines() or ["(no output)"]
        self.last_line = lines[-1]
        tail = "\n".join(f"  | {line}" for line in lines[-TAIL:])
        super().__init__(f"this command failed: {command}\n{tail}")


def run_command(command: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Runs `command` to its end. Raises `CommandError` if it fails. If interrupted, kills all its processes.

    Removes the command's temporary files, which pip and compilers leave behind when they are interrupted.
    """
    words = [str(word) for word in command]
    with tempfile.TemporaryDirectory(prefix="headroom-", ignore_cleanup_errors=True) as temporary:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env={**os.environ, "TMPDIR": temporary},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # pip starts compilers: one group can be killed together
        )
        try:
            said, _ = process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    if process.returncode:
        raise CommandError(" ".join(words), said)
