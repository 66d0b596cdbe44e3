"""Reads what is added to a log: to a file, through rotation and truncation, or to the journal of systemd.

Of a file, it begins at the end of the file, or at the beginning of one that appears later. What may happen to a log:

* *Renamed, and made anew* (logrotate, `log-maxsize`, `touch-logreopen`), or *deleted*: the old file is read as long as
  it grows, since uWSGI writes to it until it opens the new one, and closed after IDLE_SECONDS: it takes up the disk.
* *Truncated*, as by `copytruncate`: it is read from its beginning, and what was written after the last look is lost.
  The bytes before the place that was read last tell a file that was truncated and has grown again. After a writer that
  does not append, a truncated file begins with a hole: the place stays.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice

from uwsgi_headroom.kernel.procfs import NotRegularError, open_regular, read_begin
from uwsgi_headroom.uwsgi_log.scan import BLOCK_BYTES, LineCutter

MOST_BEHIND = 8 * 1024 * 1024
"""The most bytes that a log is read behind. If more have been added, the oldest are skipped."""

ENDED = "`journalctl` ended, and is started again"
NOT_ALLOWED = "this user may not read the journal, which takes the group systemd-journal"

IDLE_SECONDS = 60.0

_MARK_BYTES, _MOST_FILES, _MOST_DESCRIPTORS = 64, 5, 10_000


class Tail:
    """The end of one log. `trouble` says why it is not read, None while it is; `skipped` counts bytes that were not
    read. holder: the PID of a process that must have it open; 0 for none."""

    def __init__(self, path: str, holder: int = 0) -> None:
        self.path, self._holder = path, holder
        self.trouble: str | None = None
        self.skipped = 0
        self._files: list[_File] = []
        self._current: _File | None = None  # the one of these that is at the path
        self._from_end = True

    def read(self, now: float, most: int) -> Iterator[bytes | None]:
        """Yield blocks of whole lines that were added, `most` bytes in all, and None where lines were left out. now:
        monotonic seconds."""
        self._look(now)
        if self._current:
            self._current.kept_at = now
        left = most
        for file in tuple(self._files):
            try:
                for block, size in file.read(left, now):
                    if block is None:
                        self.skipped += size
                    else:
                        left -= size
                    yield block
            except OSError:  # its disk or its server fails: the next look tries again
                self.trouble = "it cannot be read"
            if now - file.kept_at >= IDLE_SECONDS:
                self._files.remove(file)

    def read_last(self, now: float, most: int) -> bytes:
        """Read the end of a file that is not read otherwise, because it was there at the first look."""
        self._look(now)
        with contextlib.suppress(OSError):
            return self._current.read_before(most) if self._current else b""
        return b""

    def _look(self, now: float) -> None:
        """Find the file at the path, and open it if it is a new one."""
        try:
            status = os.stat(self.path)
            known = (file for file in self._files if os.path.samestat(file.status, status))
            self._current = next(known, None) or self._open(now)
            self.trouble = None
        except OSError as error:
            self._current, self.trouble = None, self._explain(error)

    def _open(self, now: float) -> _File | None:
        opened = _File(open_regular(self.path), now, from_end=self._from_end)
        if self._holder and not _has_open(self._holder, opened.status):
            if self._files:  # it has not opened the new file yet
                return self._current
            raise OSError(errno.EBADF, "uWSGI has not opened this file")
        self._files = [*self._files[-_MOST_FILES:], opened]
        self._from_end = False
        return opened

    def _explain(self, error: OSError) -> str:
        if isinstance(error, NotRegularError):
            return "it is no regular file"
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            self._from_end = False  # a file that appears now is all new
            return "there is no file of that name"
        no_right = "the user that runs uwsgi-headroom has no right to read it"
        return no_right if isinstance(error, PermissionError) else "it cannot be opened"


def _has_open(pid: int, status: os.stat_result) -> bool:
    """Whether a process may write to this file by a descriptor. Root must not follow a user's link to another's
    file, which the user may open with O_PATH; where those are hidden, others have no more rights."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return os.geteuid() != 0
    for name in islice(descriptors, _MOST_DESCRIPTORS):
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), status):
                text = read_begin(_MARK_BYTES, f"/proc/{pid}/fdinfo/{name}")
                flags = int(text.partition(b"flags:")[2].split()[0], 8)
                if flags & (os.O_WRONLY | os.O_RDWR):
                    return True
    return False


class _File:
    """One open file, which is closed with its last use: a log that is no longer configured may still be read in the
    thread. kept_at: when it was last at the path, or had grown."""

    def __init__(self, descriptor: int, now: float, *, from_end: bool) -> None:
        self._descriptor = descriptor
        self.status = os.fstat(descriptor)
        self.kept_at = now
        self._go_on_at(self.status.st_size if from_end else 0)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def _go_on_at(self, offset: int) -> None:
        self._offset = offset
        self._mark = self.read_before()
        self._lines = LineCutter(within_line=self._mark[-1:] not in (b"", b"\n"))

    def read(self, most: int, now: float) -> Iterator[tuple[bytes | None, int]]:
        """Yield blocks of whole lines, and how many bytes were read for each; None for bytes that were left out."""
        size, before = os.fstat(self._descriptor).st_size, self.read_before(len(self._mark))
        if size < self._offset or before not in (self._mark, bytes(len(self._mark))):  # it was truncated
            self._go_on_at(0)
        else:
            self._mark = before
        if size > self._offset:
            self.kept_at = now
        if (skipped := size - MOST_BEHIND - self._offset) > 0:
            self._go_on_at(size - MOST_BEHIND)
            yield None, skipped
        left = min(most, size - self._offset)
        while left > 0:
            block = os.pread(self._descriptor, min(BLOCK_BYTES, left), self._offset)
            mark = (self._mark + block[-_MARK_BYTES:])[-_MARK_BYTES:]
            if not block or self._read_twice(len(mark), self._offset + len(block)) != mark:
                return  # it changes: the next look reads it
            self._offset += len(block)
            left -= len(block)
            self._mark = mark
            yield self._lines.cut(block), len(block)

    def read_before(self, most: int = _MARK_BYTES) -> bytes:
        """Read the last bytes before what is read next."""
        return self._read_twice(min(most, self._offset), self._offset)

    def _read_twice(self, size: int, end: int) -> bytes:
        """The bytes before `end`. Raises OSError, also if they change."""
        once, again = (os.pread(self._descriptor, size, end - size) for _ in range(2))
        if once != again:
            raise OSError(errno.EIO, "it changes while it is read")
        return again


PAUSE_SECONDS = 10.0
"""From one start of `journalctl` to the next, and after it ended."""

PIPE_BYTES = 1 << 20
"""What fits between two turns: the most that a user may ask of a pipe."""

_FOLDERS = ("/run/log/journal", "/var/log/journal")


class UnitJournal:
    """The lines that a systemd unit writes to the journal, from a `journalctl` that follows it. `trouble` says why
    they are not read, None while they are; `skipped` is always 0.

    Its files have no other stable reader. `journalctl` is a child that
    ends with this one, when its pipe is closed. It matches `_SYSTEMD_UNIT`, which no process can set for itself, so
    lines of systemd about the unit are not among them; and it prints nothing but the text of each entry.
    """

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.trouble: str | None = None
        self.skipped = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._lines = LineCutter()
        self._starts_at = float("-inf")
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
                return
            if not block:  # it has ended, or closed its output
                with process:
                    process.kill()
                self._process, self.trouble = None, ENDED
                self._starts_at = now + PAUSE_SECONDS
                yield None
                return
            left -= len(block)
            yield self._lines.cut(block)

    def _start(self, now: float) -> subprocess.Popen[bytes] | None:
        """Start `journalctl`, if it is time; returns None if it was not started."""
        if self._is_stopped or now < self._starts_at:
            return None
        self._starts_at = now + PAUSE_SECONDS
        program = shutil.which("journalctl")
        self.trouble = _find_trouble() if program else "there is no `journalctl` here"
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
            self.trouble = ENDED
            return None
        if process.stdout:
            os.set_blocking(process.stdout.fileno(), False)
            with contextlib.suppress(OSError):
                fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._process, self._lines = process, LineCutter()
        if self._is_stopped:  # meanwhile, from another thread
            process.kill()
        return process

    def stop(self) -> None:
        """End the child process, for good. The thread that reads may be in the middle of it."""
        self._is_stopped = True
        if process := self._process:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)

    def __del__(self) -> None:
        self.stop()


def _find_trouble() -> str | None:
    """Why this user can read no journal of the system; None if one can be read. `journalctl` itself follows a journal
    that it may not read without a word."""
    folders = [*_FOLDERS, *(each for folder in _FOLDERS for each in glob.glob(f"{folder}/*"))]
    files = [file for folder in folders for file in glob.glob(f"{folder}/system.journal")]
    if any(os.access(file, os.R_OK) for file in files):
        return None
    hidden = any(os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK) for folder in folders)
    return NOT_ALLOWED if files or hidden else "there is no journal of systemd here"
