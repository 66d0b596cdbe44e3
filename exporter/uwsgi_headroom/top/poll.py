"""Looking: from feeds to what there is to show. What a feed does not bring stays as it was last seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from uwsgi_headroom.documents.schema import Server, Summary
from uwsgi_headroom.top.feeds.feed import NOTHING, Feed, GoneError, Trend
from uwsgi_headroom.top.model import Entry, Seen
from uwsgi_headroom.top.navigation import Key, Looking

_LIST_SECONDS = 5.0
"""How often the list is asked for while one server is looked at."""

_TREND_SECONDS = 3.0
"""How often a trend is asked for, at most: it costs an exporter more than anything else."""

_POINTS = 60
_SPANS = (60.0, 300.0, 900.0)
"""Seconds a trend is of: the longest that there is a history for."""


class Sight:
    """`seen` is what the last look brought."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self.seen = Seen(where=", ".join(feed.where for feed in feeds))
        self._feeds = feeds
        self._listed: dict[int, tuple[Summary, ...]] = {}
        self._listed_at = float("-inf")
        self._trouble = ""
        self._trend_of: tuple[object, ...] = ()

    async def look(self, looking: Looking) -> None:
        """Look once."""
        if looking.view == "servers" or time.monotonic() - self._listed_at >= _LIST_SECONDS:
            await self._list(looking.window)
        trouble = self._trouble
        entries = _sorted(self._listed)
        looking = choose(looking, entries)
        server, trend = self.seen.server, self.seen.trend
        if looking.server is not None:
            try:
                server = await self._feeds[looking.server[0]].server(looking.server[1], looking.window)
                trend = await self._trend(looking.server, server)
            except GoneError as error:
                trouble = str(error)
                if server and server.name != looking.server[1]:
                    server, trend = None, NOTHING
        self.seen = replace(self.seen, entries=entries, server=server, trend=trend, trouble=trouble)

    async def _list(self, window: float | None) -> None:
        self._trouble = ""
        for place, feed in enumerate(self._feeds):
            try:
                self._listed[place] = (await feed.servers(window)).servers
            except GoneError as error:
                self._trouble = str(error)
        self._listed_at = time.monotonic()

    async def _trend(self, key: Key, server: Server) -> Trend:
        """A new one when there is one more point for it."""
        if server.kind != "server":
            return NOTHING
        span = max([it for it in _SPANS if it <= server.sampling.history_seconds], default=_SPANS[0])
        newest = key, span, server.time // max(span / _POINTS, _TREND_SECONDS)
        if newest != self._trend_of:
            trend = await self._feeds[key[0]].trend(key[1], span, _POINTS)
            self._trend_of = newest
            return trend
        return self.seen.trend


def _sorted(listed: dict[int, tuple[Summary, ...]]) -> tuple[Entry, ...]:
    """All of them, in the order that each list has by itself."""
    entries = [Entry((place, it.name), it) for place, summaries in listed.items() for it in summaries]

    def urgency(entry: Entry) -> tuple[bool, float, str]:
        it = entry.summary
        return it.state != "down", float("inf") if it.headroom is None else it.headroom, it.name

    return tuple(sorted(entries, key=urgency))


def choose(looking: Looking, entries: Sequence[Entry]) -> Looking:
    """The same, at a server that there is; a lone one is looked into."""
    keys = [it.key for it in entries]
    if looking.server not in keys:
        looking = replace(looking, server=keys[0] if keys else None, view="servers")
        if len(keys) == 1:
            looking = replace(looking, view="workers")
    return looking
