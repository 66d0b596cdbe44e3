"""Reads what is added to a log: to a file, through rotation and truncation, or to the journal of systemd.

Of a file, it begins at the end of the file, or at the beginning of one that appears later. What may happen to a log:

* *Renamed, and made anew* (logrotate, `log-maxsize`, `touch-logreopen`): the old file is read to its end, and for
  DRAIN_SECONDS on, since uWSGI writes to it until it opens the new one.
* *Truncated*, as by `copytruncate`: it is read from its beginning, and what was written after the last look is lost.
  The bytes before the place that was read last tell a file that was truncated and has grown again. After a writer that
  does not append, a truncated file begins with a hole: the place stays.
* *Deleted*: the open file is read as long as it grows, and is closed after IDLE_SECONDS, because it takes up the disk.

Only regular files are opened: a FIFO would lose what its reader reads, and a device could block without end. Of two
rotations between two looks, the file between them is lost. Every call does a bounded amount of work.
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

DRAIN_SECONDS = 10.0
IDLE_SECONDS = 60.0

_MARK_BYTES, _MOST_FILES, _MOST_DESCRIPTORS = 64, 5, 10_000


class Tail:
    """The end of one log. `trouble` says why it is not read, None while it is; `skipped` counts bytes that were not
    read. holder: the PID of a process that must have it open; 0 for none."""

    def __init__(self, path: str, holder: int = 0) -> None:
        self.path, self._holder = path, holder
        self.trouble: str | None = None
        self.skipped = 0
        self._files: list[_File] = []  # the last one is at the path, unless that is deleted
        self._from_end = True

    def read(self, now: float, most: int) -> Iterator[bytes | None]:
        """Yield blocks of whole lines that were added, `most` bytes in all, and None where lines were left out. now:
        monotonic seconds."""
        self._look(now)
        left = most
        for file in tuple(self._files):
            try:
                file.find_truncation()
                for block, size in file.read(left):
                    if block is None:
                        self.skipped += size
                    else:
                        left -= size
                    yield block
                if file.is_over(now):
                    file.close()
                    self._files.remove(file)
            except OSError:  # its disk or its server fails: the next look tries again
                self.trouble = "it cannot be read"

    def read_last(self, now: float, most: int) -> bytes:
        """Read the end of a file that is not read otherwise, because it was there at the first look."""
        self._look(now)
        return self._files[-1].read_before(most) if self._files else b""

    def _look(self, now: float) -> None:
        """Open the file at the path, if it is another than before."""
        try:
            found = os.stat(self.path)
            current = self._files[-1] if self._files else None
            if current is None or current.identity != (found.st_dev, found.st_ino) or current.closes_at is not None:
                self._open(now)
            self.trouble = None
        except OSError as error:
            self._note(error, now)

    def _open(self, now: float) -> None:
        descriptor = open_regular(self.path)
        try:
            status = os.fstat(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if self._holder and not _has_open(self._holder, status):
            os.close(descriptor)
            if self._files:  # it has not opened the new file yet
                return
            raise OSError(errno.EBADF, "uWSGI has not opened this file")
        opened = _File(descriptor, status.st_size if self._from_end else 0)
        if known := next((file for file in self._files if file.identity == opened.identity), None):
            opened.close()
            opened = known  # it was renamed, and has its name again
            opened.closes_at = None
            self._files.remove(opened)
        for file in self._files:
            file.close_at(now + DRAIN_SECONDS)
        while len(self._files) > _MOST_FILES:
            self._files.pop(0).close()
        self._files.append(opened)
        self._from_end = False

    def _note(self, error: OSError, now: float) -> None:
        if isinstance(error, NotRegularError):
            self.trouble = "it is no regular file"
        elif error.errno in (errno.ENOENT, errno.ENOTDIR):
            self.trouble, self._from_end = "there is no file of that name", False  # a file that appears now is all new
        else:
            no_right = "the user that runs uwsgi-headroom has no right to read it"
            self.trouble = no_right if isinstance(error, PermissionError) else "it cannot be opened"
        for file in self._files:  # it is deleted, or another user's: uWSGI may go on writing to it
            file.close_when_idle(now)


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
    """One open file, read from `offset` on."""

    def __init__(self, descriptor: int, offset: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.identity = status.st_dev, status.st_ino
        self.closes_at: float | None = None
        self._offset = offset
        self._mark = self.read_before()
        self._lines = LineCutter(within_line=bool(offset) and self._mark[-1:] != b"\n")
        self._grew = True
        self._idle_since: float | None = None

    def find_truncation(self) -> None:
        """Begin anew if the file was truncated."""
        size = os.fstat(self._descriptor).st_size
        if size == self._offset or not self._mark:
            return
        if size > self._offset:
            before = self.read_before(len(self._mark))
            if before in (self._mark, bytes(len(self._mark))):
                self._mark = before
                return
        self._offset, self._mark, self._lines = 0, b"", LineCutter()

    def read(self, most: int) -> Iterator[tuple[bytes | None, int]]:
        """Yield blocks of whole lines, and how many bytes were read for each; None for bytes that were left out."""
        size = os.fstat(self._descriptor).st_size
        self._grew = size > self._offset
        if (skipped := size - MOST_BEHIND - self._offset) > 0:
            self._offset = size - MOST_BEHIND
            self._mark = self.read_before()
            self._lines = LineCutter(within_line=self._mark[-1:] != b"\n")
            yield None, skipped
        left = min(most, size - self._offset)
        while left > 0:
            block = os.pread(self._descriptor, min(BLOCK_BYTES, left), self._offset)
            if not block:
                return
            self._offset += len(block)
            left -= len(block)
            self._mark = (self._mark + block[-_MARK_BYTES:])[-_MARK_BYTES:]
            yield self._lines.cut(block), len(block)

    def read_before(self, most: int = _MARK_BYTES) -> bytes:
        """Read the last bytes before what is read next."""
        size = min(most, self._offset)
        return os.pread(self._descriptor, size, self._offset - size)

    def close_at(self, at: float) -> None:
        """Have the file closed at this time, since another one is at its path."""
        self.closes_at = at if self.closes_at is None else self.closes_at

    def close_when_idle(self, now: float) -> None:
        """Have the file closed once it has not grown for a while, since none is at its path."""
        if self._grew or self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since >= IDLE_SECONDS:
            self.close_at(now)

    def is_over(self, now: float) -> bool:
        """Whether it is to be closed: its time has come, and it was read to its end."""
        is_due = self.closes_at is not None and now >= self.closes_at
        return is_due and os.fstat(self._descriptor).st_size <= self._offset

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()  # a log that is no longer configured may still be read in the thread


PAUSE_SECONDS = 10.0
"""From one start of `journalctl` to the next, and after it ended."""

PIPE_BYTES = 1 << 20
"""What fits between two turns: the most that a user may ask of a pipe, unless the system allows for less."""

_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which Python has since 3.10
_FILES = ("/run/log/journal/*/system.journal", "/var/log/journal/*/system.journal")


class UnitJournal:
    """The lines that a systemd unit writes to the journal, from a `journalctl` that follows it. `trouble` says why
    they are not read, None while they are; `skipped` is always 0.

    The journal's files have no other reader that is stable and needs no library. `journalctl` is a child process that
    ends with this one: its output is a pipe, and it ends when that is closed. It is given a match for the unit's own
    processes (`_SYSTEMD_UNIT`), a field that no process can set, so lines of systemd about the unit are not among them;
    and it prints the text of each entry alone (`--output=cat`), so no other field is read.

    uWSGI waits for neither this process nor `journalctl`: it writes to journald, which writes to files. Where this
    module is slow, `journalctl` waits, and reads on from its file. Entries that are written while none runs are lost.
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
                fcntl.fcntl(process.stdout.fileno(), _SET_PIPE_SIZE, PIPE_BYTES)
        self._process, self._lines = process, LineCutter()
        if self._is_stopped:  # meanwhile, from another thread
            process.kill()
        return process

    def _end(self, process: subprocess.Popen[bytes], now: float) -> None:
        """Note that it ended, or closed its output."""
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
        self._process, self.trouble = None, ENDED
        self._starts_at = now + PAUSE_SECONDS

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
    files = [file for pattern in _FILES for file in glob.glob(pattern)]
    if any(os.access(file, os.R_OK) for file in files):
        return None
    folders = [pattern.partition("/*")[0] for pattern in _FILES]
    folders += [each for folder in folders for each in glob.glob(f"{folder}/*")]
    hidden = any(os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK) for folder in folders)
    return NOT_ALLOWED if files or hidden else "there is no journal of systemd here"
