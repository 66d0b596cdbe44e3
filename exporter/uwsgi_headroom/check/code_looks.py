"""Looks at the code of a server while `check` watches it."""

from __future__ import annotations

import asyncio
import random

from uwsgi_headroom.kernel.stacks import CodeLooks
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.watch import Watch

_SECONDS = 0.1
"""The mean time between two looks, so that 30 seconds have 300. Jittered by a fifth, so that no periodic load hides."""

_MOST_OF_A_CPU = 0.05
"""Looks that cost more than that are made more rarely."""

_MOST_BEHIND = 0.5
"""How many seconds of looks that are late are made up for: if busy moments had fewer looks, what happens in them would
seem to be rare."""


async def look_until_cancelled(watch: Watch, looks: CodeLooks) -> None:
    """Look at a server again and again, by its latest reading."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        outcome, cost = watch.reader.outcome, 0.0
        if isinstance(outcome, Reading) and isinstance(outcome.snapshot, Snapshot):
            cost = looks.look(outcome.snapshot, outcome.host)
        pause = max(_SECONDS, cost / _MOST_OF_A_CPU)
        due += random.uniform(0.8, 1.2) * pause  # noqa: S311 - no secret
        due = max(due, loop.time() - _MOST_BEHIND)
        await asyncio.sleep(max(0.0, due - loop.time()))
