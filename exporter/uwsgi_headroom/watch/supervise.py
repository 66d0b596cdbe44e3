"""Keeps background tasks running: logs and counts each unexpected end, and restarts the task after a pause."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NoReturn

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
