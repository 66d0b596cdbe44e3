"""Ends all processes of a demo and removes its directory, however the demo ends, even by SIGKILL.

The demo starts a second process, the guard, which reads from a pipe until end of file. The kernel closes the writing
end when the demo has ended. Every process that the demo starts has the demo's directory as TMPDIR in its environment,
and child processes inherit it. So the guard finds all of these processes, and their temporary files are in that
directory. The guard runs this file alone, on a Python without packages.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PREFIX = "headroom-demo-"  # short: the path of a UNIX socket holds 107 bytes

EVERY = 0.02  # seconds between two searches for remaining processes


class GuardError(Exception):
    """The guard has ended before the demo."""


@dataclass(frozen=True)
class Guarded:
    """The demo's directory, and the process that guards it."""

    directory: Path
    guard: subprocess.Popen[bytes]

    def check(self) -> None:
        """Raises `GuardError` if the guard has ended, because nothing would clean up after a killed demo."""
        if self.guard.poll() is not None:
            raise GuardError("its guard has ended (the process that cleans up if the demo is killed)")


@contextlib.contextmanager
def guarded() -> Iterator[Guarded]:
    """Yields a new directory, which is TMPDIR in the block; then ends every process with this TMPDIR and removes it."""
    directory = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(4)}"
    # Its own session protects the guard from Ctrl-C and from signals to the demo's process group. The guard runs before
    # there is anything to clean up.
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, directory], stdin=subprocess.PIPE, start_new_session=True
    )
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    try:
        directory.mkdir(0o700)
        os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
        yield Guarded(directory, guard)
    finally:
        _restore(*before)
        guard.communicate()  # closes the pipe and waits for the guard to end
        if guard.returncode:
            clear(directory)


def clear(directory: Path) -> None:
    """Kills every process whose TMPDIR is the directory, then removes the directory."""
    clean_searches = 0
    while clean_searches < 2:  # one search can miss a process that is just starting
        ended = [pid for pid in carriers(directory) if _kill(pid)]
        clean_searches = 0 if ended else clean_searches + 1
        time.sleep(EVERY)
    shutil.rmtree(directory, ignore_errors=True)


def carriers(directory: Path) -> list[int]:
    """Returns the PIDs of all processes, except this one, whose TMPDIR is the directory or lies in it."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            variables = entry.read_bytes().split(b"\0")
            here = any(
                f"{variable.decode(errors='replace')}/".startswith(f"TMPDIR={directory}/")
                for variable in variables
                if variable.startswith(b"TMPDIR=")
            )
            if here and int(entry.parent.name) != os.getpid():
                pids.append(int(entry.parent.name))
    return pids


def _kill(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _restore(variable: str | None, directory: str | None) -> None:
    tempfile.tempdir = directory
    if variable is None:
        os.environ.pop("TMPDIR", None)
    else:
        os.environ["TMPDIR"] = variable


if __name__ == "__main__":
    sys.stdin.buffer.read()
    clear(Path(sys.argv[1]))
