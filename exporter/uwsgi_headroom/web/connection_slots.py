"""Bounds the number of open connections, and decides which one to close for a new one.

The oldest idle connection is closed, so that a client that holds connections without requests cannot shut out others.
Oldest means the longest time without a complete request, so an incomplete request makes no connection younger. If none
is idle, the slowest is closed: the one whose client has accepted nothing for the longest time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from uwsgi_headroom.web import bounds


class Connection(Protocol):
    """A connection that can be closed to make room."""

    def abort(self) -> None:
        """Close at once."""


class ConnectionSlots:
    """At most `most` connections: idle ones, and busy ones, which have a request without a complete answer. clock:
    seconds, monotonic."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._clock = clock
        self._idle: dict[Connection, None] = {}  # oldest first
        self._busy: set[Connection] = set()
        self._waiting: dict[Connection, float] = {}  # those busy ones that wait for their client, slowest first

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    def admit(self, connection: Connection) -> bool:
        """Admit a new connection, as idle. If full, close another one; return False if each one has a reason to
        stay."""
        if len(self) >= self.most:
            victim = next(iter(self._idle), None) or self._slowest()
            if victim is None:
                return False
            self.remove(victim)
            victim.abort()
        self._idle[connection] = None
        return True

    def mark_busy(self, connection: Connection) -> None:
        """Mark a connection with a request, which stays open until it has its answer."""
        if connection in self._idle:
            del self._idle[connection]
            self._busy.add(connection)

    def mark_idle(self, connection: Connection) -> None:
        """Mark a connection whose client has its answer."""
        if connection in self._busy:
            self._busy.remove(connection)
            self._waiting.pop(connection, None)
            self._idle[connection] = None

    def mark_waiting(self, connection: Connection) -> None:
        """Mark a busy connection whose client does not accept the data that is ready for it."""
        if connection in self._busy:
            self._waiting[connection] = self._clock()

    def mark_accepted(self, connection: Connection) -> None:
        """Mark a connection whose client has accepted that data."""
        self._waiting.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed, or about to be."""
        self._idle.pop(connection, None)
        self._busy.discard(connection)
        self._waiting.pop(connection, None)

    def _slowest(self) -> Connection | None:
        """The connection that waits for its client the longest, if that is long enough to call the client slow."""
        for connection, since in self._waiting.items():
            return connection if self._clock() - since >= bounds.SLOW_SECONDS else None
        return None
