"""The source of time, and a wait for a limited time. It stands alone because every room takes the time from it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar


@dataclass(frozen=True)  # `make demo` loads this module before anything is installed
class Clock:
    """The clocks of the machine, in seconds; tests pass clocks that they move themselves."""

    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time
    cpu: Callable[[], float] = time.thread_time
    """The CPU time of the calling thread: long work is done less often."""


Result = TypeVar("Result")


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work. Raises asyncio.TimeoutError after so many seconds, when the work has ended, too.

    `asyncio.wait_for` is no help before Python 3.12: if what it waits for ends at the moment in which the waiting task
    is cancelled, the cancellation is lost, and the task goes on for good.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        raise asyncio.TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # it has been looked at: nothing logs it
