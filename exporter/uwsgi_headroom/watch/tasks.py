"""Keeps background tasks running: restarts those that end, and finds samplers that stand still."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NoReturn, get_args

from msgspec import Struct

from uwsgi_headroom.watch.pace import JITTER, RETRY_SECONDS
from uwsgi_headroom.watch.watch import Watch

Task = Literal["find", "fleet", "globs", "log", "restore", "sample"]
"""The supervised tasks. `find` looks for servers that nobody configured; `restore` judges earlier deploys."""
TASKS: tuple[Task, ...] = get_args(Task)

RESTART_SECONDS = (1.0, 60.0)
"""First and longest pause. After a task that ran for longer than the longest, the first comes again."""

_log = logging.getLogger(__name__)


async def supervise(name: Task, work: Callable[[], Awaitable[None]], restarts: Counter[str]) -> NoReturn:
    """Run a task, and again whenever it ends, after a pause, until cancelled. Each end is logged, and counted in
    `restarts` under `name`."""
    loop = asyncio.get_running_loop()
    pause, longest = RESTART_SECONDS
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
            pause, _ = RESTART_SECONDS
        await asyncio.sleep(pause)
        pause = min(longest, 2 * pause)


SLACK_SECONDS = 10.0
"""How much longer than planned an attempt and its pause may take on a busy machine."""


class _Attempts(Struct):
    """A server's number of attempts, and since when (monotonic) it is unchanged. allowed: seconds of a restart."""

    number: int
    since: float
    allowed: float = 0.0


class Progress:
    """The progress of all samplers, looked at once a turn, so that a watchdog can end an exporter that stands still.
    on_turn: called with the watches at the end of each turn in which no sampler stands still."""

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
            if earlier is None or earlier.number != watch.reader.attempts:
                earlier = _Attempts(watch.reader.attempts, now)
            self._attempts[watch] = earlier
        since = [(watch, noted.since + noted.allowed) for watch, noted in self._attempts.items()]
        return [watch.name for watch, at in since if now - at > longest_seconds(watch)]


def longest_seconds(watch: Watch) -> float:
    """The longest time from one attempt to the end of the next, in seconds, while the sampler runs."""
    pause = max(RETRY_SECONDS[-1], watch.pace.interval * (1 + JITTER))
    return watch.reader.timeout + pause + SLACK_SECONDS
