"""Cancels a coroutine wherever it waits: what is left then is where most faults of asynchronous code hide."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any


async def cancelled_everywhere(
    make: Callable[[], Coroutine[Any, Any, Any]], check: Callable[[], Awaitable[None]] | None = None
) -> int:
    """Run a new coroutine of `make` for each place it waits at, cancel its task there, and then await `check`.

    The first is cancelled before its first step, the next ones at their first, second, ... suspension, and the last
    ends by itself. Returns how often that one waits. Raises what a coroutine raises, but for CancelledError.
    """
    place = 0
    while True:
        coroutine = make()
        task = asyncio.create_task(_cancelled_at(coroutine, place), name=f"cancelled at {place}")
        if place == 0:
            task.cancel()
        await asyncio.wait({task})
        coroutine.close()  # one that was never begun would complain
        reached = task.cancelled() or task.result() >= place
        if check is not None:
            await check()
        if not reached:
            return int(task.result())
        place += 1


@types.coroutine
def _cancelled_at(coroutine: Coroutine[Any, Any, Any], place: int) -> Generator[Any, Any, int]:
    """Run a coroutine, cancel its task at its suspension of this number, and return how many there were."""
    suspensions = 0
    step, value = coroutine.send, None
    while True:
        try:
            waits_for = step(value)  # type: ignore[arg-type]
        except StopIteration:
            return suspensions
        suspensions += 1
        if suspensions == place:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # as it is about to wait, and before anything else runs
        try:
            value = yield waits_for
            step = coroutine.send
        except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine
            step, value = coroutine.throw, error  # type: ignore[assignment]
