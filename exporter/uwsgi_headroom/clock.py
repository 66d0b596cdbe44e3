"""Where the time comes from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The computer's own clocks, in seconds; tests move their own."""

    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time
