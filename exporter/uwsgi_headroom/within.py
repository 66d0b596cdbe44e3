"""Waits for something for a limited time.

`asyncio.wait_for` is no help before Python 3.12: if what it waits for ends at the moment in which the waiting task is
cancelled, the cancellation is lost, and the task goes on for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work. Raises asyncio.TimeoutError after so many seconds, when the work has ended, too."""
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
