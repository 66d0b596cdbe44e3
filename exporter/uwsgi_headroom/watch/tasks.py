"""Keeps background tasks running: logs and counts each unexpected end, and restarts the task after a pause.

Finds samplers that stand still, so that a watchdog can end an exporter that no longer samples.

After each attempt to read a server, the next one must finish within the timeout of a read and the longest pause, plus
some time for a busy machine. Between two attempts, `supervise` may restart the sampler, after a longer pause.

Lets a long computation take turns with the other tasks of the event loop, or with the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from uwsgi_headroom.watch.pace import JITTER, RETRY_SECONDS
from uwsgi_headroom.watch.watch import Watch

TASKS = ("fleet", "sample")
"""The supervised tasks: looking after all servers, and sampling one server."""

RESTART_SECONDS = (1.0, 60.0)
"""First and longest pause. The pause starts again from the first after a task that ran for longer than the longest."""

_log = logging.getLogger(__name__)


async def supervise(name: str, work: Callable[[], Awaitable[None]], restarts: Counter[str]) -> NoReturn:
    """Run a task, and again whenever it ends, until cancelled. `restarts` counts its ends under `name`."""
    loop = asyncio.get_running_loop()
    first, longest = RESTART_SECONDS
    pause = first
    while True:
        began = loop.time()
        problem: Exception | None = None
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the task restarts after any error
            problem = error
        restarts[name] += 1
        _log.error("background task ended; restarting", extra={"fields": {"task": name}}, exc_info=problem)
        if loop.time() - began > longest:
            pause = first
        await asyncio.sleep(pause)
        pause = min(longest, 2 * pause)


SLACK_SECONDS = 10.0
"""How much longer than planned an attempt and its pause may take."""


@dataclass
class _Attempts:
    """A server's number of attempts, and since when (monotonic) it is unchanged. allowed: seconds of a restart."""

    number: int
    since: float
    allowed: float = 0.0


class Progress:
    """The progress of all samplers, looked at once a turn. on_turn: called with the watches at the end of each turn in
    which no sampler stands still."""

    def __init__(self, monotonic: Callable[[], float], on_turn: Callable[[Sequence[Watch]], None]) -> None:
        self._monotonic = monotonic
        self._on_turn = on_turn
        self._attempts: dict[Watch, _Attempts] = {}
        self._turned_at = monotonic()

    async def sample(self, watch: Watch) -> None:
        """Sample a server for `supervise`, which pauses when this ends."""
        try:
            await watch.sample()
        finally:
            self._attempts[watch] = _Attempts(watch.reader.attempts, self._monotonic(), RESTART_SECONDS[-1])

    def end_turn(self, watches: Sequence[Watch]) -> None:
        """End a turn with these servers; all others are forgotten."""
        if still := self._find_still(watches):
            _log.error("sampling stands still", extra={"fields": {"servers": " ".join(still)}})
        else:
            self._on_turn(watches)

    def _find_still(self, watches: Sequence[Watch]) -> list[str]:
        now = self._monotonic()
        before, self._attempts = self._attempts, {}
        gap, self._turned_at = now - self._turned_at, now
        if gap > SLACK_SECONDS:  # the process or the event loop stood still, so no sampler could run
            for noted in before.values():
                noted.since += gap
        for watch in watches:
            earlier = before.get(watch)
            same = earlier is not None and earlier.number == watch.reader.attempts
            self._attempts[watch] = earlier if earlier and same else _Attempts(watch.reader.attempts, now)
        return [
            watch.name
            for watch, noted in self._attempts.items()
            if now - noted.since > longest_seconds(watch) + noted.allowed
        ]


def longest_seconds(watch: Watch) -> float:
    """The longest time from one attempt to the end of the next, in seconds, while the sampler runs."""
    pause = max(RETRY_SECONDS[-1], watch.pace.interval * (1 + JITTER))
    return watch.reader.timeout + pause + SLACK_SECONDS


SHORTEST_SECONDS = 0.01
"""The length of a turn while the other tasks have little to do: reads in flight have a deadline."""

LONGEST_SECONDS = 0.05


class Turns:
    """The turns of one computation. Each is as long as the turn of all others before it, within bounds: so a scrape of
    a thousand servers takes twice its own time at most, however much sampling there is to do."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._seconds = SHORTEST_SECONDS

    async def pause_if_due(self) -> None:
        """End the turn if it was long enough, and wait for the next one."""
        now = self._monotonic()
        if now - self._began < self._seconds:
            return
        await asyncio.sleep(0)
        self._began = self._monotonic()
        self._seconds = min(LONGEST_SECONDS, max(SHORTEST_SECONDS, self._began - now))


_THREAD_TURN_SECONDS = 0.002
_THREAD_PAUSE_SECONDS = 0.0002

_Result = TypeVar("_Result")


class GivenUpError(Exception):
    """Nobody waits for the result of a thread any more."""


class ThreadTurns:
    """The turns of a computation in a thread: after each, the thread of the event loop may run."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._is_given_up = threading.Event()

    def pause_if_due(self) -> None:
        """End the turn if it was long enough. Raises GivenUpError after `give_up`."""
        if time.monotonic() - self._began <= _THREAD_TURN_SECONDS:
            return
        if self.is_given_up:
            raise GivenUpError
        time.sleep(_THREAD_PAUSE_SECONDS)
        self._began = time.monotonic()

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self._is_given_up.is_set()

    def give_up(self) -> None:
        """End the computation at its next pause."""
        self._is_given_up.set()


async def run_in_thread(work: Callable[[ThreadTurns], _Result]) -> _Result:
    """Run a computation in a thread. Cancellation ends it at its next pause, and waits for that: otherwise those who
    take turns, and are cancelled, would fill all threads of the exporter with work that nobody waits for."""
    turns = ThreadTurns()

    def run() -> _Result:
        if turns.is_given_up:
            raise GivenUpError
        return work(turns)

    thread = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        turns.give_up()
        await asyncio.wait({thread})
        thread.cancelled() or thread.exception()  # asyncio logs an exception that nobody asked for
        raise
