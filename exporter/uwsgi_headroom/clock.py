"""The source of time. It stands alone because every room takes the time from it, and imports nothing for that."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct


class Clock(Struct, frozen=True):
    """The clocks of the machine, in seconds; tests pass clocks that they move themselves."""

    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time
    cpu: Callable[[], float] = time.thread_time
    """The CPU time of the calling thread: long work is done less often."""
