"""Where documents come from: a running exporter, or servers that are watched from here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from uwsgi_headroom.documents.schema import Server, Servers
from uwsgi_headroom.errors import HeadroomError


class FeedError(HeadroomError):
    """A feed brought nothing this time; a sentence says why."""


class Concurrency(Struct, frozen=True):
    """Of a history, what is drawn."""

    observed: list[float | None] = []


class Headroom(Struct, frozen=True):
    """Of a history, what is drawn."""

    factor: list[float | None] = []


class Capacity(Struct, frozen=True):
    """Of a history, what is drawn."""

    available: list[float | None] = []


class Trend(Struct, frozen=True):
    """The part of `history.History` that is drawn: a value for each slice of `step` seconds. time: the end of each
    slice, in epoch seconds."""

    step: float = 1.0
    concurrency: Concurrency = Concurrency()
    headroom: Headroom = Headroom()
    time: list[float] = []
    throughput: list[float | None] = []
    queue_wait: list[float | None] = []
    threads: Capacity = Capacity()


NO_TREND = Trend()
"""Before there is one."""


class Feed(Protocol):
    """`where` says what it is attached to. Every method may raise FeedError."""

    where: str

    async def servers(self, window: float | None) -> Servers:
        """The list, with figures of this window (seconds; None: the feed's own choice)."""

    async def server(self, name: str, window: float | None) -> Server:
        """The document of one server."""

    async def trend(self, name: str, seconds: float, points: int) -> Trend:
        """Its last `seconds`, in at most so many points."""

    async def run(self) -> None:
        """Whatever has to go on meanwhile, until cancelled."""

    async def pause(self) -> None:
        """End reads of servers that are under way, and begin none until `resume_all`."""

    def resume(self) -> None:
        """Read again."""

    async def close(self) -> None:
        """End reads of servers that are under way, for good."""


async def pause_all(feeds: Iterable[Feed]) -> None:
    """Pause them all."""
    await asyncio.gather(*(feed.pause() for feed in feeds))


def resume_all(feeds: Iterable[Feed]) -> None:
    """Resume them all."""
    for feed in feeds:
        feed.resume()


async def close_all(feeds: Iterable[Feed]) -> None:
    """Close them all."""
    await asyncio.gather(*(feed.close() for feed in feeds))
