"""The listen queue of a socket."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backlog:
    """The connections waiting in a listen queue, and its limit; or None for both, and the reason.

    `queue` may exceed `limit` by one: a full queue holds one more connection than its limit.
    """

    queue: int | None
    limit: int | None
    reason: str | None

    @property
    def is_full(self) -> bool:
        """Whether the queue is at its limit, so that the next connection is refused (UNIX) or dropped (TCP)."""
        return self.queue is not None and bool(self.limit) and self.queue >= (self.limit or 0)


def is_tcp(name: str) -> bool:
    """Whether a socket name of uWSGI's is that of a TCP socket, for which the kernel counts overflows."""
    _, colon, port = name.rpartition(":")
    return bool(colon) and port.isdecimal() and not name.startswith(("/", "@"))
