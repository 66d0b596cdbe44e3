"""Polls feeds and keeps the model up to date. If a feed does not answer, its servers stay as last seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.top.feeds import NO_TREND, Feed, FeedError
from uwsgi_headroom.top.navigation import LIST, Key, Navigation, ScreenModel, ServerEntry, arrange_entries
from uwsgi_headroom.words.formats import duration

_LIST_SECONDS = 5.0
"""Seconds between requests for the list while one server is shown."""

_TREND_SECONDS = 3.0
"""Least time in seconds between requests for a trend, the most expensive request for an exporter."""

_LATE_SECONDS = 2.0
"""Seconds after which a feed that has not answered is reported."""

_POINTS, _PLOT_POINTS = 60, 240
_SPANS = (60.0, 300.0, 900.0, 3600.0)
"""Lengths of a trend in seconds; the longest one within the history is used, the last one only for the plot."""


class _Page(NamedTuple):
    """What is asked for one server."""

    key: Key
    window: float | None
    points: int


class _Request(NamedTuple):
    task: asyncio.Task[Any]
    asked_at: float
    place: int
    """The index of the feed."""
    page: _Page | None
    """None: the list of servers is asked for."""


class Poller:
    """Requests documents from all feeds independently, so that a feed that hangs does not delay others.

    `model` contains the answers so far. `ask` starts requests, `take_answers` takes the answers that have arrived, and
    `poll` does both and waits. `clock` is monotonic.
    """

    def __init__(self, feeds: Sequence[Feed], clock: Callable[[], float] = time.monotonic) -> None:
        self.model = ScreenModel(where=", ".join(feed.where for feed in feeds))
        self._feeds = feeds
        self._clock = clock
        self._listed: dict[int, list[ServerEntry]] = {}  # by feed
        self._listed_at = float("-inf")
        self._requests: list[_Request] = []
        self._wanted: _Page | None = None
        self._shown: Key | None = None
        self._errors: dict[int, str] = {}
        self._trend_key: tuple[object, ...] = ()

    @property
    def under_way(self) -> set[asyncio.Task[Any]]:
        """Requests whose answers have not arrived, or have not been taken."""
        return {request.task for request in self._requests}

    def ask(self, navigation: Navigation) -> None:
        """Start the requests that are due and not under way. Does not wait."""
        if navigation.view == LIST or self._clock() - self._listed_at >= _LIST_SECONDS:
            self._listed_at = self._clock()
            asked = {request.place for request in self._requests if not request.page}
            for place, feed in enumerate(self._feeds):
                if place not in asked:
                    self._request(place, feed.servers(navigation.window))
        self._ask_page(navigation)
        self._update()

    def take_answers(self) -> None:
        """Take the answers that arrived into the model. Raises errors other than FeedError."""
        done = [request for request in self._requests if request.task.done()]
        self._requests = [request for request in self._requests if request not in done]
        for request in done:
            try:
                answer = request.task.result()
            except FeedError as error:
                self._errors[request.place] = str(error)
                continue
            self._errors.pop(request.place, None)
            if request.page:
                self._shown = request.page.key
                server, trend = answer
                self.model = replace(self.model, server=server, trend=trend)
            else:
                now = time.time()
                entries = [ServerEntry((request.place, each.name), each, now) for each in answer.servers]
                self._listed[request.place] = entries
        self._update()

    async def poll(self, navigation: Navigation) -> None:
        """Ask once and wait for all answers. If cancelled, cancels its requests."""
        try:
            self.ask(navigation)
            while self.under_way:
                await asyncio.wait(self.under_way)
                self.take_answers()
                if navigation.server is None and self.model.entries:
                    navigation = replace(navigation, server=self.model.entries[0].key)
                    self._ask_page(navigation)
        finally:
            self.cancel()

    def cancel(self) -> None:
        """End the requests under way."""
        for task in self.under_way:
            task.cancel()
        self._requests, self._wanted = [], None

    def _request(self, place: int, answer: Coroutine[Any, Any, object], page: _Page | None = None) -> None:
        task = asyncio.create_task(answer, name="asking")
        self._requests.append(_Request(task, self._clock(), place, page))

    def _ask_page(self, navigation: Navigation) -> None:
        """Request the page shown, and cancel a request for another page."""
        points = _PLOT_POINTS if navigation.view == "plots" else _POINTS
        wanted = navigation.server and _Page(navigation.server, navigation.window, points)
        asked = [request for request in self._requests if request.page]
        if asked and self._wanted == wanted:
            return
        for request in asked:
            request.task.cancel()
            self._requests.remove(request)
        self._wanted = wanted
        if wanted:
            self._request(wanted.key[0], self._read_page(wanted), wanted)

    async def _read_page(self, page: _Page) -> tuple[ServerDocument, HistoryDocument]:
        server = await self._feeds[page.key[0]].server(page.key[1], page.window)
        return server, await self._read_trend(page, server)

    async def _read_trend(self, page: _Page, server: ServerDocument) -> HistoryDocument:
        """Read a new trend if it has a new point; else return the last one."""
        if server.kind != "server":
            return NO_TREND
        spans = _SPANS if page.points == _PLOT_POINTS else _SPANS[:-1]
        past = server.sampling.history_seconds
        span = max([seconds for seconds in spans if seconds <= past], default=_SPANS[0])
        newest = page.key, span, page.points, server.time // max(span / page.points, _TREND_SECONDS)
        if newest == self._trend_key:
            return self.model.trend
        trend = await self._feeds[page.key[0]].trend(page.key[1], span, page.points)
        self._trend_key = newest
        return trend

    def _update(self) -> None:
        """Update the model, also with requests that have waited too long."""
        troubles = dict(self._errors)
        for request in self._requests:
            waited = self._clock() - request.asked_at
            if waited >= _LATE_SECONDS:
                troubles[request.place] = f"{self._feeds[request.place].where}: no answer for {duration(waited)}"
        self.model = replace(
            self.model,
            entries=tuple(arrange_entries(list(chain(*self._listed.values())))),
            troubles=dict(sorted(troubles.items())),
            complete=len(self._listed) == len(self._feeds),
        )
        wanted = self._wanted and self._wanted.key
        if wanted != self._shown and (wanted is None or wanted[0] in troubles):
            self._shown = None
            self.model = replace(self.model, server=None, trend=NO_TREND)
