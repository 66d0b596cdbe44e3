"""Bounds the number of open connections, and decides which one to close for a new one.

The oldest idle connection is closed, so that a client that holds connections without requests cannot shut out others.
Oldest means the longest time without a complete request, so an incomplete request makes no connection younger.
"""

from __future__ import annotations

from typing import Protocol


class Connection(Protocol):
    """A connection that can be closed to make room."""

    def is_sending(self) -> bool:
        """Whether part of a response waits to be sent."""

    def abort(self) -> None:
        """Close at once."""


class ConnectionSlots:
    """At most `most` connections."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._idle: dict[Connection, None] = {}  # oldest first
        self._busy: set[Connection] = set()

    def admit(self, connection: Connection) -> bool:
        """Admit a new connection, as idle. If full, close the oldest idle one; return False if there is none."""
        if len(self._idle) + len(self._busy) >= self.most:
            oldest = next((idle for idle in self._idle if not idle.is_sending()), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.abort()
        self._idle[connection] = None
        return True

    def mark_busy(self, connection: Connection) -> None:
        """Mark a connection with a request, which stays open until it has its response."""
        if connection in self._idle:
            del self._idle[connection]
            self._busy.add(connection)

    def mark_idle(self, connection: Connection) -> None:
        """Mark a connection that has its response."""
        if connection in self._busy:
            self._busy.remove(connection)
            self._idle[connection] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed, or about to be."""
        self._idle.pop(connection, None)
        self._busy.discard(connection)
