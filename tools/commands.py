"""Commands that run to their end, silently unless they fail."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

TAIL = 15  # lines: pip and compilers say what went wrong at the end


class CommandError(Exception):
    """A command failed; the message ends with what it said last."""

    def __init__(self, command: str, said: str) -> None:
        lines = said.strip().splitlines() or ["(it said nothing)"]
        self.last_line = lines[-1]
        tail = "\n".join(f"  | {line}" for line in lines[-TAIL:])
        super().__init__(f"this command failed: {command}\n{tail}")


def run_command(command: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Run `command` to its end. Raises `CommandError` if it fails; when interrupted, nothing runs on.

    Its temporary files are removed with it: pip and compilers leave theirs when they are interrupted.
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
            start_new_session=True,  # pip starts compilers: as one group they can be ended together
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
