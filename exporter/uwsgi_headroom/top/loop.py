"""Shows a live screen on a terminal, and one snapshot anywhere else.

The main loop polls feeds, draws, handles keys and signals, and restores the terminal at the end.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from uwsgi_headroom.check.exporter_client import ApiError
from uwsgi_headroom.check.tables import find_field
from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.top.feeds import NO_TREND, Attached, Feed, exit_status, list_fleets, run_feeds
from uwsgi_headroom.top.navigation import (
    LIST,
    Key,
    Navigation,
    ScreenModel,
    ServerEntry,
    arrange_entries,
    handle_key,
    select_server,
)
from uwsgi_headroom.top.terminal import Capabilities, Painter, Terminal, detect_capabilities, takes_unicode
from uwsgi_headroom.top.view.screen import draw, draw_plain, list_keys
from uwsgi_headroom.watch import suspend
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
        """Take the answers that arrived into the model. Raises errors other than ApiError."""
        done = [request for request in self._requests if request.task.done()]
        self._requests = [request for request in self._requests if request not in done]
        for request in done:
            try:
                answer = request.task.result()
            except ApiError as error:
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
        for task in self.under_way:
            task.cancel()
        self._requests, self._wanted = [], None

    def _request(self, place: int, answer: Coroutine[Any, Any, object], page: _Page | None = None) -> None:
        task = asyncio.create_task(answer, name="asking")
        self._requests.append(_Request(task, self._clock(), place, page))

    def _ask_page(self, navigation: Navigation) -> None:
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
        """Read the server, and a new trend if it has a new point; else return the last one."""
        place, name = page.key
        server = await self._feeds[place].server(name, page.window)
        if server.kind != "server":
            return server, NO_TREND
        spans = _SPANS if page.points == _PLOT_POINTS else _SPANS[:-1]
        past = server.sampling.history_seconds
        span = max([seconds for seconds in spans if seconds <= past], default=_SPANS[0])
        newest = page.key, span, page.points, server.time // max(span / page.points, _TREND_SECONDS)
        if newest == self._trend_key:
            return server, self.model.trend
        trend = await self._feeds[place].trend(name, span, page.points)
        self._trend_key = newest
        return server, trend

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


_PIPE_WIDTH = 120  # columns if the width is unknown
_UNCUT = 500  # columns of a list, whose lines end with a sentence; COLUMNS may be any number

_NOTICE_SECONDS = 5.0
_TERMINAL_BUSY_SECONDS = 0.1
_FIRST_POLL_SECONDS = 0.2  # between polls of a server that has not been read yet
_CLOCK_SECONDS = 1.0  # longest time between two redraws, because the ages on the screen grow


def main(attached: Attached, interval: float, seconds: float, *, once: bool) -> int:
    """Run `top` and return its exit status: for a snapshot, 3 if a server could not be read."""
    navigation = Navigation(interval=interval)
    if attached.server:
        navigation = replace(navigation, server=attached.server, chosen=True, view="workers")
    capabilities = detect_capabilities(os.environ, sys.stdout.fileno()) if sys.stdout.isatty() else None
    if capabilities and capabilities.addressable and not once:
        asyncio.run(run(attached.feeds, navigation, capabilities))
        return 0
    lines, status = asyncio.run(_snapshot(attached.feeds, navigation, seconds))
    print_lines(lines)
    return status


async def _snapshot(feeds: Sequence[Feed], navigation: Navigation, seconds: float) -> tuple[list[str], int]:
    width = min(shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns, _UNCUT)
    painter = Painter(colour=False, styles=False, unicode=takes_unicode(sys.stdout.encoding))
    asked_for = navigation.server
    async with run_feeds(feeds, seconds):
        poller = Poller(feeds)
        await poller.poll(navigation)
    model = poller.model
    listed, shown = [entry.key for entry in model.entries], list_keys(model, navigation)
    navigation = select_server(navigation, listed, shown, complete=model.complete)
    if navigation.view == "servers":
        width = _UNCUT
    lines = [painter.paint(line, width).rstrip() for line in draw_plain(model, navigation, width, time.time())]
    states = [entry.summary.state for entry in model.entries if not asked_for or entry.key == asked_for]
    # Troubles mean that an exporter has not answered, so that its servers are missing.
    return lines, exit_status(["stale"] if model.troubles else states)


async def run(feeds: Sequence[Feed], navigation: Navigation, capabilities: Capabilities) -> None:
    top = _Loop(feeds, navigation, capabilities)
    try:
        await top.run()
    finally:
        try:
            for fleet in list_fleets(feeds):
                await fleet.close()
        finally:
            top.terminal.leave()  # may take a second, during which no read may be under way


def _wanted(navigation: Navigation) -> tuple[object, ...]:
    return navigation.server, navigation.window, navigation.view == "plots"


class _Loop:
    def __init__(self, feeds: Sequence[Feed], navigation: Navigation, capabilities: Capabilities) -> None:
        self._feeds, self._fleets = feeds, list_fleets(feeds)
        self._navigation = navigation
        self._poller = Poller(feeds)
        self._ended = asyncio.Event()
        self._fault: BaseException | None = None
        self._redraw_timer: asyncio.TimerHandle | None = None
        self._poll_now = asyncio.Event()
        unicode = takes_unicode(sys.stdout.encoding)
        self._painter = Painter(colour=capabilities.colour, styles=True, unicode=unicode)
        self.terminal = Terminal(sys.stdin.fileno(), sys.stdout.fileno(), self._on_key, self._ended.set)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_exception)
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(each, self._ended.set)
        loop.add_signal_handler(signal.SIGWINCH, self._on_resize)
        self.terminal.enter()
        suspend.between_reads(self._suspend, self._resume)
        tasks = [asyncio.create_task(fleet.run(), name="watching") for fleet in self._fleets]
        tasks.append(asyncio.create_task(self._poll_repeatedly(), name="looking"))
        ended = asyncio.create_task(self._ended.wait())
        try:
            done, _ = await asyncio.wait({*tasks, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, ended):
                task.cancel()
            self._poller.cancel()
        for task in done - {ended}:
            task.result()  # raises the error of a failed task
        if self._fault:
            raise self._fault

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End with an exception that no task awaits, such as one from the handler of a key or a signal. Other messages
        of asyncio, such as "Task was destroyed", go to its log."""
        exception = context.get("exception")
        if exception is None:
            loop.default_exception_handler(context)
            return
        self._fault = self._fault or exception
        self._ended.set()

    async def _poll_repeatedly(self) -> None:
        due = time.monotonic()
        while True:
            if self._poll_now.is_set() or time.monotonic() >= due:
                self._poll_now.clear()
                if not self._navigation.paused:
                    self._poller.ask(self._navigation)
                due = time.monotonic() + self._interval
            await self._wait_for_answer(min(_CLOCK_SECONDS, max(0.0, due - time.monotonic())))
            self._poller.take_answers()
            if not self._select():
                self._draw()

    @property
    def _interval(self) -> float:
        server = self._poller.model.server
        return _FIRST_POLL_SECONDS if server and server.age is None else self._navigation.interval

    async def _wait_for_answer(self, seconds: float) -> None:
        wake = asyncio.create_task(self._poll_now.wait(), name="waiting")
        try:
            await asyncio.wait({wake, *self._poller.under_way}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wake.cancel()

    def _select(self) -> bool:
        """Select a listed server. Returns whether the selection changed; the new server is then polled at once."""
        before, model = self._navigation.server, self._poller.model
        listed = [entry.key for entry in model.entries]
        shown = list_keys(model, self._navigation)
        self._navigation = select_server(self._navigation, listed, shown, complete=model.complete)
        if self._navigation.server == before:
            return False
        if before is not None and before not in listed and self._navigation.view == LIST:
            notice = f"server {before[1]} not found ({self._feeds[before[0]].where})"
            self._poller.model = replace(self._poller.model, notice=notice)
            asyncio.get_running_loop().call_later(_NOTICE_SECONDS, partial(self._clear_notice, notice))
        self._poll_now.set()
        return True

    def _draw(self) -> None:
        if self._redraw_timer:
            self._redraw_timer.cancel()
            self._redraw_timer = None
        if self.terminal.busy:
            self._redraw_timer = asyncio.get_running_loop().call_later(_TERMINAL_BUSY_SECONDS, self._draw)
            return
        columns, lines = self.terminal.size
        screen = draw(self._poller.model, self._navigation, columns, lines, time.time())
        self._navigation = replace(self._navigation, first=screen.first, column=screen.column)
        self.terminal.show([self._painter.paint(line, columns) for line in screen.lines])

    def _on_key(self, key: str) -> None:
        model = self._poller.model
        windows = [window.asked for window in find_field(model.server, "windows") or ()]
        action = handle_key(key, self._navigation, list_keys(model, self._navigation), windows)
        if action is None:
            self._ended.set()
        else:
            wanted = _wanted(self._navigation)
            resumed = self._navigation.paused and not action.paused
            self._navigation = action
            self._select()
            if resumed or _wanted(self._navigation) != wanted:
                self._poll_now.set()
        self._draw()

    def _clear_notice(self, notice: str) -> None:
        if self._poller.model.notice == notice:
            self._poller.model = replace(self._poller.model, notice="")

    def _on_resize(self) -> None:
        self.terminal.clear()
        self._draw()

    async def _suspend(self) -> None:
        for fleet in self._fleets:
            await fleet.pause()
        self.terminal.leave()

    def _resume(self) -> None:
        self.terminal.enter()  # stops the process again if it is in the background: nothing is read then
        for fleet in self._fleets:
            fleet.resume()
        self._poll_now.set()
        self._draw()
