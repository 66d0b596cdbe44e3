"""Keeps background work going: what ends although it should not is logged, counted, and begun again after a pause."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NoReturn

TASKS = ("fleet", "sample")
"""What is supervised: looking after all servers, and sampling one."""

RESTART_SECONDS = (1.0, 60.0)
"""The first and the longest pause; the first again after work that went on for longer than the longest."""

_log = logging.getLogger(__name__)


async def supervise(name: str, work: Callable[[], Awaitable[None]], restarts: Counter[str]) -> NoReturn:
    """Do the work, and again whenever it ends, until cancelled. `restarts` counts by `name` how often it ended."""
    loop = asyncio.get_running_loop()
    first, longest = RESTART_SECONDS
    pause = first
    while True:
        began = loop.time()
        problem: Exception | None = None
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the work goes on
            problem = error
        restarts[name] += 1
        _log.error("background work ended; it begins again", extra={"fields": {"work": name}}, exc_info=problem)
        if loop.time() - began > longest:
            pause = first
        await asyncio.sleep(pause)
        pause = min(longest, 2 * pause)
