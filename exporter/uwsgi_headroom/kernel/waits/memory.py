"""Reads a few bytes of another process's memory, without waiting for bytes that never come.

process_vm_readv(2) neither stops the process nor changes it. It takes the right that waits take. But it waits for a
page that is not in memory: for a moment if it was swapped out, permanently if the process has mapped a file there whose
server does not answer (FUSE, userfaultfd). So the memory of a process that could not end the exporter by itself is read
in a thread of its own. If that takes too long, the thread is left alone, and nothing else is read of that server until
it ends, nor for a minute.
"""

from __future__ import annotations

import ctypes
import errno
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from uwsgi_headroom.kernel.procfs import MOST_SECONDS, Patience

Piece: TypeAlias = tuple[int, int]
"""An address, and a number of bytes."""

_LIBC = ctypes.CDLL(None, use_errno=True)


class RefusedToReadError(Exception):
    """The kernel, or a filter of system calls, does not let this process read the memory."""


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_pieces(pid: int, pieces: Sequence[Piece]) -> list[bytes | None]:
    """These pieces of a process's memory; None for one that the process does not have, or not as a whole. Raises
    RefusedToReadError."""
    found: list[bytes | None] = []
    while len(found) < len(pieces):
        wanted = pieces[len(found) :]
        buffer = ctypes.create_string_buffer(sum(length for _, length in wanted))
        here = _Iovec(ctypes.addressof(buffer), len(buffer))
        there = (_Iovec * len(wanted))(*[_Iovec(address, length) for address, length in wanted])
        copied = _LIBC.process_vm_readv(pid, ctypes.byref(here), 1, there, len(wanted), 0)
        code = ctypes.get_errno() if copied < 0 else 0
        if code in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise RefusedToReadError
        if code not in (0, errno.EFAULT):  # the process has ended, or an address cannot be one
            return found + [None] * len(wanted)
        start = 0
        for _, length in wanted:
            if start + length > copied:
                found.append(None)  # go on with the one behind it
                break
            found.append(buffer.raw[start : start + length])
            start += length
    return found


T = TypeVar("T")


class Patient:
    """Asks questions about the memory of one server's processes, which may never be answered, or refused."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = Patience(clock, keeps_thread=True)
        self.refused = False
        """Whether the last answer was a refusal."""

    @property
    def may_ask(self) -> bool:
        """Whether a question may be asked now."""
        return self._patience.may_ask

    def note_refusal(self) -> None:
        """Ask nothing for a minute."""
        self.refused = True
        self._patience.pause()

    def ask(self, question: Callable[[], T]) -> T | None:
        """The answer; None without one, or without one in time. Raises what the question raises, other than OSError and
        RefusedToReadError."""
        try:
            return self._take(self._patience.ask(question, MOST_SECONDS))
        except RefusedToReadError:
            self.note_refusal()
        except OSError:
            pass
        return None

    async def wait(self, question: Callable[[], T], seconds: float) -> T | None:
        """The same, while the event loop goes on: the answer may take so many seconds."""
        try:
            return self._take(await self._patience.wait(question, seconds))
        except RefusedToReadError:
            self.note_refusal()
        except OSError:
            pass
        return None

    def _take(self, result: T) -> T:
        self.refused = False
        return result
