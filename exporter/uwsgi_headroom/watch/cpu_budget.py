"""Limits the CPU time that sampling takes: with very many servers, all are sampled less often, by one factor."""

from __future__ import annotations

import logging
from collections.abc import Callable

MOST_CPU = 0.25
"""The share of a CPU that decoding documents, asking the kernel and keeping figures may take. Receiving documents and
the event loop take nearly as much again."""

PERIOD_SECONDS = 5.0
"""Time between two changes of the factor."""

MOST_STRETCHED = 16.0
"""The largest factor: from the shortest interval that uses much CPU, 0.25 seconds, to the longest."""

MOST_COUNTED_SECONDS = 0.01
"""The CPU time of one sample that counts at most, so that one huge or hostile document does not slow down the sampling
of all other servers. 64 workers of 16 threads take some 6 ms."""

_WORTH_A_LINE = 1.2

_log = logging.getLogger(__name__)


class CpuBudget:
    """The factor by which the sampling intervals of all servers are stretched, at least 1. CPU time is inversely
    proportional to it, so each period multiplies it by the share that was used over the share that may be."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._spent = 0.0
        self._factor = 1.0
        self._said = False

    def note(self, seconds: float) -> None:
        """Note CPU time that a sample took."""
        self._spent += min(seconds, MOST_COUNTED_SECONDS)

    @property
    def factor(self) -> float:
        """The present factor."""
        elapsed = self._monotonic() - self._began
        if elapsed >= PERIOD_SECONDS:
            used = self._spent / elapsed / MOST_CPU
            self._factor = min(MOST_STRETCHED, max(1.0, self._factor * used))
            self._began, self._spent = self._began + elapsed, 0.0
            self._say()
        return self._factor

    def _say(self) -> None:
        if self._said == (self._factor >= _WORTH_A_LINE):
            return
        self._said = not self._said
        if self._said:
            fields = {"factor": f"{self._factor:.1f}", "share_of_a_cpu": MOST_CPU}
            _log.warning("sampling all servers less often, to limit its CPU time", extra={"fields": fields})
        else:
            _log.info("sampling all servers as often as configured again")
