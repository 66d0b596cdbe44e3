"""A fleet that samples, what it writes, and waiting for what has no event."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec import Struct, field

from uwsgi_headroom.store.record import Minute
from uwsgi_headroom.watch.fleet import Fleet


@contextlib.asynccontextmanager
async def sampling(fleet: Fleet) -> AsyncIterator[None]:
    task = asyncio.create_task(fleet.run())
    try:
        yield
    finally:
        task.cancel()
        await fleet.close()


async def until(is_met: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_met():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


class Written(Struct):
    """Takes the place of a history's writer, and keeps what it gets."""

    minutes: list[Minute] = field(default_factory=list)
    problem: str = ""
    size: int = 0
    dropped: int = 0
    path: str = "/nonexistent"

    def put(self, minute: Minute) -> None:
        self.minutes.append(minute)

    def close(self, _seconds: float) -> None:
        pass

    def of(self, server: str) -> list[tuple[int, Any]]:
        return [(each.minute, each.record) for each in self.minutes if each.server == server and each.record]
