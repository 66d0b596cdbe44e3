"""A fleet that samples, and waiting for what has no event."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from uwsgi_headroom.watch.fleet import Fleet


@contextlib.asynccontextmanager
async def sampling(fleet: Fleet) -> AsyncIterator[None]:
    """Runs a fleet until the block ends, and closes it."""
    task = asyncio.create_task(fleet.run())
    try:
        yield
    finally:
        task.cancel()
        await fleet.close()


async def until(is_met: Callable[[], object], seconds: float = 60) -> None:
    """Waits until this holds, for so long at most."""
    end = time.monotonic() + seconds
    while not is_met():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)
