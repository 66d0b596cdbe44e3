"""Bounds the bytes of documents in transfer, of all servers together, so that slow or many large ones cannot fill the
memory of the exporter.

* The first FREE_BYTES of each document are always received: most documents are smaller.
* All other bytes take room from MOST_BYTES. A server whose document is known to be large takes its room before it is
  asked, since a read that pauses in the middle would block uWSGI's master. An unknown document that finds no room is
  read again from the start, once there is room for the largest.
* Where room is short, a read that usually holds few bytes for a short time takes it from those that have held more
  bytes for longer. So servers that send slowly cannot hold up one that sends fast.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable

from uwsgi_headroom.errors import SourceError

FREE_BYTES = 32 * 1024
"""4 workers of 8 threads have 11 kB; for 400 servers, the most that patterns find, 13 MB in all."""

MOST_BYTES = 16 * 2**20
"""Room for two documents of the default cap, or for 16 of 64 workers with 16 threads each (1 MB), which arrive within
some 5 ms."""

UNKNOWN_COST = 6e6
"""The byte-seconds that an unknown document is expected to need: 6 MB in a second, as on a busy machine."""

_RETRY_SECONDS = 0.25

_KNOWN = 1.1
"""The room that a server reserves, as a multiple of its latest document: counters grow."""


class NoRoomError(Exception):
    """A document is larger than was known and there is no room for the rest, or others have taken its room."""


class Room:
    """What is left for documents in transfer, and who holds the rest."""

    def __init__(self, most: int = MOST_BYTES, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.most = self.left = most
        self.monotonic = monotonic
        self._holders: set[Share] = set()

    def take(self, share: Share, size: int) -> bool:
        """Give a share so much more room, if need be that of others which have cost more; False if there is none."""
        size = min(size, self.most - share.taken)  # a document that is larger than all room takes all
        now = self.monotonic()
        if size > self.left:
            dearest = sorted(self._holders - {share}, key=lambda each: each.spent(now), reverse=True)
            dearer = [each for each in dearest if each.spent(now) > share.cost]
            if size > self.left + sum(each.taken for each in dearer):
                return False
            for each in dearer:
                if size > self.left:
                    each.lose(now)
        if not share.taken:
            share.since = now
            self._holders.add(share)
        share.taken += size
        self.left -= size
        return True

    def give_back(self, share: Share) -> None:
        self.left += share.taken
        share.taken = 0
        self._holders.discard(share)


class Share:
    """The part of the room that one server holds, and what its documents need. cap: the most bytes of a document;
    sock: the connection of the read under way; loss: why it lost its room; cost: the byte-seconds that its latest
    document needed."""

    def __init__(self, room: Room | None = None) -> None:
        self._room = room or Room()
        self.cap = 0
        self.taken = 0
        self.since = 0.0
        self.cost = UNKNOWN_COST
        self.sock: socket.socket | None = None
        self.loss: SourceError | None = None
        self._needs = 0

    def spent(self, now: float) -> float:
        """The byte-seconds that the read under way has cost."""
        return self.taken * (now - self.since)

    async def begin(self, cap: int, deadline: float) -> None:
        """Begin a read of at most `cap` bytes: wait, until `deadline` (the loop's time), for the room that the document
        is known to need. Raises SourceError."""
        self.cap, self.loss = cap, None
        while self._needs and not self._room.take(self, self._needs):
            if asyncio.get_running_loop().time() + _RETRY_SECONDS > deadline:
                raise SourceError(
                    "timeout",
                    "the exporter has not asked the server: other servers send large documents slowly, and take all "
                    f"the memory for documents in transfer ({self._room.most:,} bytes)",
                )
            await asyncio.sleep(_RETRY_SECONDS)

    def hold(self, size: int) -> None:
        """Hold the `size` bytes of this document that have been received so far. Raises SourceError above the cap;
        NoRoomError if there is no more room, or others have taken it."""
        if self.loss:
            raise NoRoomError
        if size > self.cap:
            raise SourceError(
                "too_large", "the answer is larger than the cap: raise `size_cap`, or run uWSGI with stats-no-cores"
            )
        more = size - FREE_BYTES - self.taken
        if more > 0 and not self._room.take(self, more):
            self._needs = self.cap
            raise NoRoomError

    def lose(self, now: float) -> None:
        """Give the room to others: the connection ends."""
        self.cost, self._needs = self.spent(now), self.cap
        self.loss = SourceError(
            "too_large",
            f"the document is large, and came so slowly ({now - self.since:.1f} s) that other servers needed the "
            "memory: run uWSGI with stats-minified, stats-no-metrics or stats-no-cores",
        )
        self._room.give_back(self)
        if self.sock:
            with contextlib.suppress(OSError):  # it has ended by itself
                self.sock.shutdown(socket.SHUT_RDWR)

    def complete(self, size: int) -> None:
        """Note what a complete document of `size` bytes needed."""
        self._needs = max(0, int(size * _KNOWN) - FREE_BYTES)
        self.cost = self.spent(self._room.monotonic()) if self._needs else UNKNOWN_COST

    def end(self) -> None:
        """End the read: its document has been decoded, or has failed. What a failed one has cost counts as its cost:
        the next read of a server that only drips takes no room from others."""
        self.sock = None
        self.cost = max(self.cost, self.spent(self._room.monotonic()))
        self._room.give_back(self)
