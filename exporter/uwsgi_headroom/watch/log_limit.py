"""Limits how many lines one server may write into the log: what changes with every read would write five a second."""

from __future__ import annotations

from collections import deque

LINES, SECONDS = 5, 60.0
"""So many lines in so many seconds, and no more."""


class LogLimit:
    """Says whether a line may be written. `left_out` counts those that were not since one was."""

    def __init__(self) -> None:
        self.left_out = 0
        self._written: deque[float] = deque(maxlen=LINES)

    def allows(self, at: float) -> bool:
        """Whether one more line may be written at this monotonic instant; if so, it is taken to be."""
        if len(self._written) == LINES and at - self._written[0] < SECONDS:
            self.left_out += 1
            return False
        self._written.append(at)
        return True

    def take_left_out(self) -> dict[str, object]:
        """The field of the next line that says how many were left out before it, if any were."""
        left_out, self.left_out = self.left_out, 0
        return {"left_out": left_out} if left_out else {}
