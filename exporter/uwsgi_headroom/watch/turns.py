"""Lets a long computation take turns with the other tasks of the event loop, or with the thread of the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

SHORTEST_SECONDS = 0.01
"""The length of a turn while the other tasks have little to do: reads in flight have a deadline."""

LONGEST_SECONDS = 0.05

HISTORY_TURN_SECONDS = 0.004
"""The length of a turn over the slices of a history, which may have hundreds."""


class Turns:
    """The turns of one computation. Each is as long as the turn of all others before it, within bounds: so a scrape of
    a thousand servers takes twice its own time at most, however much sampling there is to do."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, longest: float | None = None) -> None:
        self._monotonic = monotonic
        self._longest = LONGEST_SECONDS if longest is None else longest
        self._began = monotonic()
        self._seconds = min(SHORTEST_SECONDS, self._longest)

    async def pause_if_due(self) -> None:
        now = self._monotonic()
        if now - self._began < self._seconds:
            return
        await asyncio.sleep(0)
        self._began = self._monotonic()
        self._seconds = min(self._longest, max(SHORTEST_SECONDS, self._began - now))


_THREAD_TURN_SECONDS = 0.002
_THREAD_PAUSE_SECONDS = 0.0002

_Result = TypeVar("_Result")


class GivenUpError(Exception):
    """Nobody waits for the result of a thread any more."""


class ThreadTurns:
    """The turns of a computation in a thread: after each, the thread of the event loop may run."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.given_up = threading.Event()

    def pause_if_due(self) -> None:
        """End the turn if it was long enough. Raises GivenUpError if nobody waits for the result any more."""
        if time.monotonic() - self._began <= _THREAD_TURN_SECONDS:
            return
        if self.given_up.is_set():
            raise GivenUpError
        time.sleep(_THREAD_PAUSE_SECONDS)
        self._began = time.monotonic()


async def run_in_thread(work: Callable[[ThreadTurns], _Result]) -> _Result:
    """Run a computation in a thread. Cancellation ends it at its next pause, and waits for that: otherwise those that
    are cancelled would fill all threads of the exporter with work that nobody waits for."""
    turns = ThreadTurns()

    def run() -> _Result:
        if turns.given_up.is_set():
            raise GivenUpError
        return work(turns)

    thread = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        turns.given_up.set()
        await asyncio.wait({thread})
        thread.cancelled() or thread.exception()  # asyncio logs an exception that nobody asked for
        raise
