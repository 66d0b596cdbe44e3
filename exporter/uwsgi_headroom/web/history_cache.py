"""Histories that were made lately: they cost more than any other answer, and several pages ask for the same."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass

import msgspec

from uwsgi_headroom.documents.history import history, step_of
from uwsgi_headroom.watch.reader import Clock
from uwsgi_headroom.watch.watch import Watch

GZIP_LEVEL = 1
"""Level 6 makes an answer a fifth smaller and costs three times the CPU: the wrong trade beside a busy server."""

_KEPT = 8


@dataclass(frozen=True, slots=True)
class Body:
    """A document, as it is and compressed."""

    plain: bytes
    packed: bytes


class Histories:
    """Makes one at a time, and once until there is a new slice for it, however many ask."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._made: dict[object, tuple[object, asyncio.Task[Body]]] = {}

    async def get(self, watch: Watch, seconds: float, points: int, until: float | None) -> Body:
        """The history of a server; arguments as for `history`."""
        key = watch, seconds, points, until
        newest = watch.history.newest_slice(step_of(seconds, points))
        made = self._made.pop(key, None)
        if made is None or made[0] != newest:
            made = newest, asyncio.create_task(self._make(watch, seconds, points, until), name="history")
        self._made[key] = made
        while len(self._made) > _KEPT:
            del self._made[next(iter(self._made))]
        return await asyncio.shield(made[1])

    async def _make(self, watch: Watch, seconds: float, points: int, until: float | None) -> Body:
        async with self._turn:
            document = await history(watch, self._clock, seconds, points, until)
        plain = msgspec.json.encode(document)
        return Body(plain, await asyncio.to_thread(gzip.compress, plain, GZIP_LEVEL, mtime=0))
