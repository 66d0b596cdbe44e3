"""Reads the lines that a systemd unit writes to the journal, from a `journalctl` that follows it.

The journal's files have no other reader that is stable and needs no library. `journalctl` is a child process that ends
with this one: its output is a pipe, and it ends when that is closed. It is given a match for the unit's own processes
(`_SYSTEMD_UNIT`), a field that no process can set, so lines of systemd about the unit are not among them; and it prints
the text of each entry alone (`--output=cat`), so no other field is read.

uWSGI waits for neither this module nor `journalctl`: it writes to journald, which writes to files. Where this module is
slow, `journalctl` waits, and reads on from its file. Entries that are written while none runs are lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import subprocess
from collections.abc import Iterator

from uwsgi_headroom.uwsgi_log.scan import BLOCK_BYTES, LineCutter, Trouble

PAUSES = (1.0, 60.0)
"""Seconds before `journalctl` is started again after it ended: at first, and at most."""

PIPE_BYTES = 1 << 20
"""What fits between two turns: the most that a user may ask of a pipe, unless the system allows for less."""

_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which Python has since 3.10
_FILES = ("/run/log/journal/*/system.journal", "/var/log/journal/*/system.journal")


class Journal:
    """The lines of a unit. `trouble` says why they are not read, None while they are; `skipped` is always 0."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.trouble: Trouble | None = None
        self.skipped = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._lines = LineCutter()
        self._starts_at, self._pause = float("-inf"), PAUSES[0]
        self._is_stopped = False

    def read(self, now: float, most: int) -> Iterator[bytes | None]:
        """Yield blocks of whole lines that were written since the last call, `most` bytes in all, and None where lines
        may be missing. now: monotonic seconds."""
        process, left = self._process or self._start(now), most
        if process is None or process.stdout is None:
            return
        while left > 0:
            try:
                block = os.read(process.stdout.fileno(), min(BLOCK_BYTES, left))
            except BlockingIOError:
                self._note_that_it_runs(now)
                return
            if not block:
                self._end(process, now)
                yield None
                return
            left -= len(block)
            yield self._lines.cut(block)

    def _start(self, now: float) -> subprocess.Popen[bytes] | None:
        """Start `journalctl`, if it is time; returns None if it was not started."""
        if self._is_stopped or now < self._starts_at:
            return None
        self._starts_at = now + self._pause
        self._pause = min(PAUSES[1], 2 * self._pause)
        program = shutil.which("journalctl")
        self.trouble = _find_trouble() if program else "no_journalctl"
        if self.trouble or not program:
            return None
        command = [program, "--follow", "--lines=0", "--output=cat", "--quiet", "--no-pager"]
        try:
            process = subprocess.Popen(
                [*command, f"_SYSTEMD_UNIT={self.unit}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={"LC_ALL": "C"},
            )
        except OSError:  # no process can be started
            self.trouble = "ended"
            return None
        if process.stdout:
            os.set_blocking(process.stdout.fileno(), False)
            with contextlib.suppress(OSError):
                fcntl.fcntl(process.stdout.fileno(), _SET_PIPE_SIZE, PIPE_BYTES)
        self._process, self._lines = process, LineCutter()
        if self._is_stopped:  # meanwhile, from another thread
            process.kill()
        return process

    def _note_that_it_runs(self, now: float) -> None:
        """Have the next pause be short again, after a time in which it ran."""
        if now >= self._starts_at + PAUSES[1]:
            self._pause = PAUSES[0]

    def _end(self, process: subprocess.Popen[bytes], now: float) -> None:
        """Note that it ended, or closed its output."""
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
        self._process, self.trouble = None, "ended"
        self._starts_at = now + self._pause

    def stop(self) -> None:
        """End the child process, for good. The thread that reads may be in the middle of it."""
        self._is_stopped = True
        if process := self._process:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)

    def __del__(self) -> None:
        self.stop()


def _find_trouble() -> Trouble | None:
    """Why this user can read no journal of the system; None if one can be read. `journalctl` itself follows a journal
    that it may not read without a word."""
    files = [file for pattern in _FILES for file in glob.glob(pattern)]
    if not files:
        hidden = any(os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK) for folder in _folders())
        return "journal_denied" if hidden else "no_journal"
    return None if any(os.access(file, os.R_OK) for file in files) else "journal_denied"


def _folders() -> Iterator[str]:
    for pattern in _FILES:
        folder = pattern.partition("/*")[0]
        yield folder
        yield from glob.glob(f"{folder}/*")
