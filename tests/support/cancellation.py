"""Cancels a coroutine at every await point that it has, one run for each: what is left behind must still work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any


@dataclass
class Cancellation:
    """Cancels one task at its n-th suspension, counted over all that it awaits; 0 is before its first step."""

    at: int
    happened: bool = False
    _suspensions: int = 0

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Cancel now, if that is when."""
        if self.at == 0:
            self.happened = task.cancel()

    def suspend(self) -> None:
        """Count a suspension of the task that is running, and cancel it there, if that is where."""
        self._suspensions += 1
        task = asyncio.current_task()
        if self._suspensions == self.at and task is not None:
            self.happened = task.cancel()


class _Counted:
    """A coroutine whose suspensions are counted."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], cancellation: Cancellation) -> None:
        self._coroutine, self._cancellation = coroutine, cancellation

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = lambda: self._coroutine.send(None)  # noqa: E731 - it changes
        while True:
            try:
                future = step()
            except StopIteration as end:
                return end.value
            self._cancellation.suspend()
            try:
                value = yield future
            except BaseException as error:  # noqa: BLE001 - it goes where it was thrown
                step = lambda error=error: self._coroutine.throw(error)  # noqa: E731
            else:
                step = lambda value=value: self._coroutine.send(value)  # noqa: E731


async def _run(coroutine: Coroutine[Any, Any, Any], cancellation: Cancellation) -> Any:
    return await _Counted(coroutine, cancellation)


@contextmanager
def cancelling(function: Callable[..., Any], at: int) -> Iterator[Cancellation]:
    """While the block runs, the first task made of this function is cancelled at its n-th suspension."""
    loop = asyncio.get_running_loop()
    cancellation = Cancellation(at)
    chosen: list[asyncio.Task[Any]] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        if chosen or getattr(coroutine, "__qualname__", "") != function.__qualname__:
            return asyncio.Task(coroutine, loop=loop, **options)
        task = asyncio.Task(_run(coroutine, cancellation), loop=loop, **options)
        task.add_done_callback(lambda _task: coroutine.close())  # it may not have begun
        chosen.append(task)
        cancellation.begin(task)
        return task

    loop.set_task_factory(factory)
    try:
        yield cancellation
    finally:
        loop.set_task_factory(None)


def everywhere(scenario: Callable[[int], Awaitable[bool]], least: int) -> None:
    """Run a scenario with 0, 1, 2 ..., each in an event loop of its own, until it says that nothing was cancelled.

    Fails where that was so before `least`: the scenario then tests less than it claims.
    """
    for place in count():
        if not asyncio.run(_within(scenario(place))):
            assert place >= least, f"there were only {place} places to cancel at"
            return


async def _within(scenario: Awaitable[bool]) -> bool:
    return await asyncio.wait_for(scenario, 30)
