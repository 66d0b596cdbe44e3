"""Cuts the blocks that are read of a log into whole lines."""

from __future__ import annotations

from typing import Literal

BLOCK_BYTES = 128 * 1024
"""Read at once: less than a millisecond of work, during which the exporter's other threads wait for Python's lock."""

LONGEST_LINE = 64 * 1024
"""Bytes of a line that has no end yet; of a longer one, nothing is looked at."""

Trouble = Literal[
    "missing", "denied", "not_regular", "unreadable", "no_journal", "no_journalctl", "journal_denied", "ended"
]
"""Why a log is not read. missing: there is no such file; denied: this user may not read it; not_regular: it is a
FIFO, a device, a socket or a directory; unreadable: anything else, such as a loop of links. no_journal: this machine
has no journal of systemd, or it cannot be seen; no_journalctl: that program is not there; journal_denied: this user
may not read the journal; ended: journalctl ended, and is started again soon."""


class LineCutter:
    """Cuts consecutive blocks into whole lines. carry: the beginning of a line without an end; within_line: whether the
    first block begins in a line, which is left out then."""

    def __init__(self, carry: bytes = b"", *, within_line: bool = False) -> None:
        self.carry = carry
        self._within_line = within_line

    def cut(self, block: bytes) -> bytes:
        """The whole lines that this block ends."""
        if b"\0" in block:  # the hole after a truncation, or no text
            block = block.replace(b"\0", b"")
        if self._within_line:
            _, end, block = block.partition(b"\n")
            self._within_line = not end
            if not end:
                return b""
        lines, end, rest = block.rpartition(b"\n")
        if not end:
            self.carry += block
            lines = b""
        else:
            lines = self.carry + lines + end
            self.carry = rest
        if len(self.carry) > LONGEST_LINE:
            self.carry, self._within_line = b"", True
        return lines
