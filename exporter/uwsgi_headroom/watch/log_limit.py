"""Limits the log lines about one server: a state that changes with every read would log five lines a second."""

from __future__ import annotations

from collections import deque

LINES, SECONDS = 5, 60.0
"""At most this many lines in this many seconds."""


class LogLimit:
    """Decides whether a line may be logged. `left_out` counts the lines left out since the last logged line."""

    def __init__(self) -> None:
        self.left_out = 0
        self._written: deque[float] = deque(maxlen=LINES)

    def allows(self, at: float) -> bool:
        """Whether one more line may be logged at this monotonic instant; if so, counts that line as logged."""
        if len(self._written) == LINES and at - self._written[0] < SECONDS:
            self.left_out += 1
            return False
        self._written.append(at)
        return True

    def take_left_out(self) -> dict[str, object]:
        """Take the field that reports in the next line how many lines were left out; empty if none."""
        left_out, self.left_out = self.left_out, 0
        return {"left_out": left_out} if left_out else {}
