"""Cancels a coroutine at every place where it waits: most faults of asynchronous code are in the cleanup after that."""

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from msgspec import Struct


class Cancellation(Struct):
    """Whether a task was cancelled."""

    happened: bool = False


async def cancelled_everywhere(
    make: Callable[[], Coroutine[Any, Any, Any]], check: Callable[[], Awaitable[None]] | None = None
) -> int:
    """Runs a new coroutine of `make` for each place where it waits, cancels its task there, and then awaits `check`.

    The first is cancelled before its first step, the next ones at their first, second, ... suspension, and the last
    ends by itself. Returns how often the last one waits. Raises what a coroutine raises, except CancelledError.
    """
    place = 0
    while True:
        coroutine = make()
        task = asyncio.create_task(_count_suspensions(coroutine, place), name=f"cancelled at {place}")
        if place == 0:
            task.cancel()
        await asyncio.wait({task})
        coroutine.close()  # a coroutine that was never started would cause a warning
        reached = task.cancelled() or task.result() >= place
        if check is not None:
            await check()
        if not reached:
            return int(task.result())
        place += 1


@contextmanager
def cancelling(function: Callable[..., Any], place: int) -> Iterator[Cancellation]:
    """During the block, cancels the first task of this function at suspension number `place`, counting those of
    everything that it awaits; 0 is before its first step.
    """
    loop = asyncio.get_running_loop()
    cancellation = Cancellation()
    chosen: list[asyncio.Task[Any]] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        if chosen or getattr(coroutine, "__qualname__", "") != function.__qualname__:
            return asyncio.Task(coroutine, loop=loop, **options)
        task = asyncio.Task(_with_its_result(coroutine, place, cancellation), loop=loop, **options)
        task.add_done_callback(lambda _task: coroutine.close())  # it may not have started
        chosen.append(task)
        if place == 0:
            cancellation.happened = task.cancel()
        return task

    loop.set_task_factory(factory)
    try:
        yield cancellation
    finally:
        loop.set_task_factory(None)


def everywhere(scenario: Callable[[int], Awaitable[bool]], least: int) -> None:
    """Runs a scenario with 0, 1, 2 ..., each in a new event loop, until it returns that nothing was cancelled.

    Fails if that happens before `least`: the scenario then tests less than it claims.
    """
    for place in count():
        if not asyncio.run(_within(scenario(place))):
            assert place >= least, f"there were only {place} places to cancel at"
            return


async def _within(scenario: Awaitable[bool]) -> bool:
    return await asyncio.wait_for(scenario, 60)


async def _count_suspensions(coroutine: Coroutine[Any, Any, Any], place: int) -> int:
    return await _cancelled_at(coroutine, place)


async def _with_its_result(coroutine: Coroutine[Any, Any, Any], place: int, cancellation: Cancellation) -> Any:
    results: list[Any] = []

    async def remember() -> None:
        results.append(await coroutine)

    await _cancelled_at(remember(), place, cancellation)
    return results[0]


@types.coroutine
def _cancelled_at(
    coroutine: Coroutine[Any, Any, Any], place: int, cancellation: Cancellation | None = None
) -> Generator[Any, Any, int]:
    """Runs a coroutine, cancels its task at suspension number `place`, and returns the number of suspensions."""
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
            if cancellation:
                cancellation.happened = True
        try:
            value = yield waits_for
            step = coroutine.send
        except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine
            step, value = coroutine.throw, error  # type: ignore[assignment]
