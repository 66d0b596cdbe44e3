"""Slows clients that send wrong passwords. Keeps nothing else, and forgets within minutes."""

from __future__ import annotations

import time
from collections.abc import Callable

FREE_FAILURES = 3
"""Wrong passwords in a row before a client must wait."""

LONGEST_WAIT = 30.0
"""Seconds; the wait doubles with each failure, from one second."""

FORGET_SECONDS = 300.0
"""Time in seconds without a failure after which a client begins anew."""

MOST_CLIENTS = 1024
"""Clients that are remembered; the one that failed longest ago is dropped first."""


class Throttle:
    """Counts failures by client. longest: of the waits, in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic, longest: float = LONGEST_WAIT) -> None:
        self._now = now
        self._longest = longest
        self._failures: dict[str, tuple[int, float]] = {}  # the latest failure last

    def seconds_to_wait(self, client: str) -> float:
        """How long this client must wait before its password is checked again; 0 for none."""
        count, last = self._failures.get(client, (0, 0.0))
        if count < FREE_FAILURES:
            return 0.0
        wait = min(self._longest, 2.0 ** min(count - FREE_FAILURES, 30))
        return max(0.0, last + wait - self._now())

    def record_failure(self, client: str) -> None:
        """Count a wrong password."""
        now = self._now()
        count, last = self._failures.pop(client, (0, now))
        if now - last > FORGET_SECONDS:
            count = 0
        self._failures[client] = (count + 1, now)
        while len(self._failures) > MOST_CLIENTS:
            del self._failures[next(iter(self._failures))]
