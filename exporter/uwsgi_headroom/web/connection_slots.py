"""Which connections are open, and which of them goes when another comes and there is no room.

The oldest idle one goes. A client that holds connections without asking for anything then cannot shut out one that
asks. Oldest means the longest without a complete request, so a half-sent request makes no connection younger.
"""

from __future__ import annotations

from typing import Protocol


class Connection(Protocol):
    """A connection that can be closed to make room."""

    def is_sending(self) -> bool:
        """Whether part of an answer waits to be sent."""

    def abort(self) -> None:
        """Close at once."""


class ConnectionSlots:
    """At most `most` connections."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._idle: dict[Connection, None] = {}  # the oldest first
        self._busy: set[Connection] = set()

    def admit(self, connection: Connection) -> bool:
        """Take a new connection, which is idle, if need be in the place of the oldest idle one; False if none is."""
        if len(self._idle) + len(self._busy) >= self.most:
            oldest = next((idle for idle in self._idle if not idle.is_sending()), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.abort()
        self._idle[connection] = None
        return True

    def mark_busy(self, connection: Connection) -> None:
        """It has asked for something: it stays until it has its answer."""
        if connection in self._idle:
            del self._idle[connection]
            self._busy.add(connection)

    def mark_idle(self, connection: Connection) -> None:
        """It has its answer."""
        if connection in self._busy:
            self._busy.remove(connection)
            self._idle[connection] = None

    def remove(self, connection: Connection) -> None:
        """It is closed, or about to be."""
        self._idle.pop(connection, None)
        self._busy.discard(connection)
