"""Ends what a demo has started and removes its directory, however the demo ends: SIGKILL included.

The demo starts a second process, the guard, which holds the reading end of a pipe and waits for its end. The kernel
closes the writing end when the demo has gone. All that the demo starts carries the demo's directory as TMPDIR in its
environment, which children inherit: so the guard finds every one of them, the temporary files are in that directory,
and both can be removed. The guard is this file alone, on a bare Python.
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

EVERY = 0.02  # seconds between two looks for processes that are left


class GuardError(Exception):
    """The guard has ended before the demo."""


@dataclass(frozen=True)
class Guarded:
    """The demo's directory, and the process that guards it."""

    directory: Path
    guard: subprocess.Popen[bytes]

    def check(self) -> None:
        """Raise `GuardError` if nothing would clean up after a killed demo."""
        if self.guard.poll() is not None:
            raise GuardError("its guard has ended, the process that cleans up if the demo is killed")


@contextlib.contextmanager
def guarded() -> Iterator[Guarded]:
    """Yield a new directory, which is TMPDIR in the block. No process that carries it, and no file in it, is left."""
    directory = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(4)}"
    # In a session of its own, which no Ctrl-C and no signal to the demo's process group reaches. It runs before there
    # is anything to clean up.
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
        guard.communicate()  # closes the pipe, and waits
        if guard.returncode:
            clear(directory)


def clear(directory: Path) -> None:
    """End every process that carries the directory as TMPDIR, at once, then remove the directory."""
    looks = 0
    while looks < 2:  # one that was just being started may be missed once
        ended = [pid for pid in carriers(directory) if _kill(pid)]
        looks = 0 if ended else looks + 1
        time.sleep(EVERY)
    shutil.rmtree(directory, ignore_errors=True)


def carriers(directory: Path) -> list[int]:
    """The processes, other than this one, whose TMPDIR is the directory or in it."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            variables = entry.read_bytes().split(b"\0")
            here = any(
                f"{each.decode(errors='replace')}/".startswith(f"TMPDIR={directory}/")
                for each in variables
                if each.startswith(b"TMPDIR=")
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
