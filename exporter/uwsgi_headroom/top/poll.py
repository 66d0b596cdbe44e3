"""Polls feeds and keeps the model up to date. If a feed does not answer, its servers stay as last seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from uwsgi_headroom.documents.schema import ServerDocument, Servers
from uwsgi_headroom.top.feeds import NO_TREND, Feed, FeedError, Trend
from uwsgi_headroom.top.navigation import LIST, Navigation
from uwsgi_headroom.top.servers import Key, ScreenModel, ServerEntry, arrange_entries
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


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Request(Generic[T]):
    task: asyncio.Task[T]
    asked_at: float


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
        self._lists: dict[int, _Request[Servers]] = {}
        self._page: _Request[tuple[ServerDocument, Trend]] | None = None
        self._page_key: tuple[Key, float | None, int] | None = None
        self._shown: Key | None = None
        self._errors: dict[int, str] = {}
        self._trend_key: tuple[object, ...] = ()

    @property
    def under_way(self) -> set[asyncio.Task[Any]]:
        """Requests whose answers have not arrived, or have not been taken."""
        tasks: set[asyncio.Task[Any]] = {request.task for request in self._lists.values()}
        return tasks | {self._page.task} if self._page else tasks

    def ask(self, navigation: Navigation) -> None:
        """Start the requests that are due, except those that are already under way. Does not wait."""
        if navigation.view == LIST or self._clock() - self._listed_at >= _LIST_SECONDS:
            self._listed_at = self._clock()
            for place, feed in enumerate(self._feeds):
                if place not in self._lists:
                    self._lists[place] = self._request(feed.servers(navigation.window))
        self._ask_page(navigation)
        self._update()

    def take_answers(self) -> None:
        """Take the answers that have arrived into the model. Raises the error of a request, except FeedError."""
        for place in [place for place, request in self._lists.items() if request.task.done()]:
            answer = self._take(place, self._lists.pop(place))
            if answer is not None:
                now = time.time()
                self._listed[place] = [ServerEntry((place, each.name), each, now) for each in answer.servers]
        if self._page and self._page.task.done() and self._page_key:
            page, self._page = self._page, None
            answered = self._take(self._page_key[0][0], page)
            if answered is not None:
                self._shown = self._page_key[0]
                server, trend = answered
                self.model = replace(self.model, server=server, trend=trend)
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
        self._lists, self._page, self._page_key = {}, None, None

    def _request(self, answer: Coroutine[Any, Any, T]) -> _Request[T]:
        return _Request(asyncio.create_task(answer, name="asking"), self._clock())

    def _ask_page(self, navigation: Navigation) -> None:
        """Request the page shown, and cancel a request for another page."""
        key = navigation.server
        points = _PLOT_POINTS if navigation.view == "plots" else _POINTS
        wanted = None if key is None else (key, navigation.window, points)
        if self._page and self._page_key == wanted:
            return
        if self._page:
            self._page.task.cancel()
            self._page = None
        self._page_key = wanted
        if key is not None:
            self._page = self._request(self._read_page(key, navigation.window, points))

    async def _read_page(self, key: Key, window: float | None, points: int) -> tuple[ServerDocument, Trend]:
        server = await self._feeds[key[0]].server(key[1], window)
        return server, await self._read_trend(key, server, points)

    async def _read_trend(self, key: Key, server: ServerDocument, points: int) -> Trend:
        """Read a new trend if it has a new point; else return the last one."""
        if server.kind != "server":
            return NO_TREND
        past = server.sampling.history_seconds
        longest = _SPANS[-1 if points == _PLOT_POINTS else -2]
        span = max([seconds for seconds in _SPANS if seconds <= min(past, longest)], default=_SPANS[0])
        newest = key, span, points, server.time // max(span / points, _TREND_SECONDS)
        if newest != self._trend_key:
            trend = await self._feeds[key[0]].trend(key[1], span, points)
            self._trend_key = newest
            return trend
        return self.model.trend

    def _take(self, place: int, request: _Request[T]) -> T | None:
        try:
            answer = request.task.result()
        except FeedError as error:
            self._errors[place] = str(error)
            return None
        self._errors.pop(place, None)
        return answer

    def _update(self) -> None:
        """Update the model with answers and with requests that have waited too long."""
        troubles = dict(self._errors)
        asked = [(place, request.asked_at) for place, request in self._lists.items()]
        if self._page and self._page_key:
            asked.append((self._page_key[0][0], self._page.asked_at))
        for place, at in asked:
            waited = self._clock() - at
            if waited >= _LATE_SECONDS:
                troubles[place] = f"{self._feeds[place].where}: no answer for {duration(waited)}"
        self.model = replace(
            self.model,
            entries=tuple(arrange_entries(list(chain(*self._listed.values())))),
            troubles=dict(sorted(troubles.items())),
            complete=len(self._listed) == len(self._feeds),
        )
        wanted = self._page_key and self._page_key[0]
        if wanted != self._shown and (wanted is None or wanted[0] in troubles):
            self._shown = None
            self.model = replace(self.model, server=None, trend=NO_TREND)
