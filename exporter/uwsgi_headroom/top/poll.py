"""Looking: from feeds to what there is to show. What a feed does not bring stays as it was last seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from uwsgi_headroom.documents.build import urgency
from uwsgi_headroom.documents.schema import Server, Summary
from uwsgi_headroom.top.feeds.feed import NO_TREND, Feed, FeedError, Trend
from uwsgi_headroom.top.model import ScreenModel, ServerEntry
from uwsgi_headroom.top.navigation import Key, Navigation

_LIST_SECONDS = 5.0
"""How often the list is asked for while one server is looked at."""

_TREND_SECONDS = 3.0
"""How often a trend is asked for, at most: it costs an exporter more than anything else."""

_POINTS = 60
_SPANS = (60.0, 300.0, 900.0)
"""Seconds a trend is of: the longest that there is a history for."""


class Poller:
    """`model` is what the last poll brought."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self.model = ScreenModel(where=", ".join(feed.where for feed in feeds))
        self._feeds = feeds
        self._listed: dict[int, tuple[Summary, ...]] = {}
        self._listed_at = float("-inf")
        self._trouble = ""
        self._trend_key: tuple[object, ...] = ()

    async def poll(self, navigation: Navigation) -> None:
        """Look once."""
        if navigation.view == "servers" or time.monotonic() - self._listed_at >= _LIST_SECONDS:
            await self._poll_list(navigation.window)
        trouble = self._trouble
        entries = _sort_entries(self._listed)
        navigation = select_server(navigation, entries)
        server, trend = self.model.server, self.model.trend
        if navigation.server is not None:
            try:
                server = await self._feeds[navigation.server[0]].server(navigation.server[1], navigation.window)
                trend = await self._poll_trend(navigation.server, server)
            except FeedError as error:
                trouble = str(error)
                if server and server.name != navigation.server[1]:
                    server, trend = None, NO_TREND
        self.model = replace(self.model, entries=entries, server=server, trend=trend, trouble=trouble)

    async def _poll_list(self, window: float | None) -> None:
        self._trouble = ""
        for place, feed in enumerate(self._feeds):
            try:
                self._listed[place] = (await feed.servers(window)).servers
            except FeedError as error:
                self._trouble = str(error)
        self._listed_at = time.monotonic()

    async def _poll_trend(self, key: Key, server: Server) -> Trend:
        """A new one when there is one more point for it."""
        if server.kind != "server":
            return NO_TREND
        span = max([seconds for seconds in _SPANS if seconds <= server.sampling.history_seconds], default=_SPANS[0])
        newest = key, span, server.time // max(span / _POINTS, _TREND_SECONDS)
        if newest != self._trend_key:
            trend = await self._feeds[key[0]].trend(key[1], span, _POINTS)
            self._trend_key = newest
            return trend
        return self.model.trend


def _sort_entries(listed: dict[int, tuple[Summary, ...]]) -> tuple[ServerEntry, ...]:
    """All of them, in the order that each list has by itself."""
    entries = [
        ServerEntry((place, summary.name), summary) for place, summaries in listed.items() for summary in summaries
    ]
    return tuple(sorted(entries, key=lambda entry: urgency(entry.summary)))


def select_server(navigation: Navigation, entries: Sequence[ServerEntry]) -> Navigation:
    """The same, at a server that there is; a lone one is looked into."""
    keys = [entry.key for entry in entries]
    if navigation.server not in keys:
        navigation = replace(navigation, server=keys[0] if keys else None, view="servers")
        if len(keys) == 1:
            navigation = replace(navigation, view="workers")
    return navigation
