"""The interface of feeds, which bring documents from a running exporter or from servers that `top` itself watches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from uwsgi_headroom.documents.schema import Server, Servers
from uwsgi_headroom.errors import HeadroomError


class FeedError(HeadroomError):
    """A feed returned nothing this time; the message says why."""


class Concurrency(Struct, frozen=True):
    """The drawn part of `history.Concurrency`."""

    observed: list[float | None] = []


class Headroom(Struct, frozen=True):
    """The drawn part of `history.Headrooms`."""

    factor: list[float | None] = []


class Capacity(Struct, frozen=True):
    """The drawn part of `history.Capacity`."""

    available: list[float | None] = []


class ResponseTimes(Struct, frozen=True):
    """The drawn part of `history.ResponseTimeHistory`; empty from an exporter that does not know it."""

    shares: tuple[float, ...] = ()
    seconds: list[list[float | None]] = []
    finest: list[float | None] = []

    def column(self, share: float) -> list[float | None]:
        """Return the history of one percentile, such as 0.95; empty if there is none."""
        return next((column for each, column in zip(self.shares, self.seconds, strict=False) if each == share), [])


class Trend(Struct, frozen=True):
    """The drawn part of `history.History`: a value for each slice of `step` seconds. time: the end of each slice, in
    epoch seconds."""

    step: float = 1.0
    concurrency: Concurrency = Concurrency()
    headroom: Headroom = Headroom()
    time: list[float] = []
    throughput: list[float | None] = []
    queue_wait: list[float | None] = []
    threads: Capacity = Capacity()
    response_times: ResponseTimes = ResponseTimes()


NO_TREND = Trend()
"""The trend before the first one arrives."""


class Feed(Protocol):
    """A source of documents. `where` says what the feed is attached to. Every method may raise FeedError."""

    where: str

    async def servers(self, window: float | None) -> Servers:
        """Return the list of servers, with figures of this window (seconds; None: the feed's default)."""

    async def server(self, name: str, window: float | None) -> Server:
        """Return the document of one server."""

    async def trend(self, name: str, seconds: float, points: int) -> Trend:
        """Return the last `seconds` of a server's history in at most `points` slices."""

    async def run(self) -> None:
        """Run the feed's background work until cancelled."""

    async def pause(self) -> None:
        """End the reads under way, and start none until `resume`."""

    def resume(self) -> None:
        """Read again after `pause`."""

    async def close(self) -> None:
        """End the reads under way, permanently."""


async def pause_all(feeds: Iterable[Feed]) -> None:
    """Pause all feeds."""
    await asyncio.gather(*(feed.pause() for feed in feeds))


def resume_all(feeds: Iterable[Feed]) -> None:
    """Resume all feeds."""
    for feed in feeds:
        feed.resume()


async def close_all(feeds: Iterable[Feed]) -> None:
    """Close all feeds."""
    await asyncio.gather(*(feed.close() for feed in feeds))
