"""The loop: look, draw, obey keys and signals, and leave the terminal as it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from uwsgi_headroom.top import json_dump
from uwsgi_headroom.top.feeds.feed import Feed, close, pause, resume
from uwsgi_headroom.top.navigation import Looking, press
from uwsgi_headroom.top.poll import Sight, choose
from uwsgi_headroom.top.terminal.paint import Painter
from uwsgi_headroom.top.terminal.terminal import Abilities, Terminal
from uwsgi_headroom.top.view.screen import draw
from uwsgi_headroom.watch import suspend

_NOTICE_SECONDS = 5.0
_NOT_OUT_YET_SECONDS = 0.1
_AT_FIRST_SECONDS = 0.2  # between looks at a server that has not been read yet


async def run(feeds: Sequence[Feed], looking: Looking, can: Abilities) -> None:
    """Show what the feeds bring until a key or a signal ends it."""
    top = _Top(feeds, looking, can)
    try:
        await top.run()
    finally:
        try:
            await close(feeds)
        finally:
            top.terminal.leave()  # which may take a second, in which no read may be under way


class _Top:
    def __init__(self, feeds: Sequence[Feed], looking: Looking, can: Abilities) -> None:
        self._feeds = feeds
        self._looking = looking
        self._sight = Sight(feeds)
        self._ended = asyncio.Event()
        self._fault: BaseException | None = None
        self._again: asyncio.TimerHandle | None = None
        self._look_now = asyncio.Event()
        unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        self._painter = Painter(colour=can.colour, styles=True, unicode=unicode)
        self.terminal = Terminal(sys.stdin.fileno(), sys.stdout.fileno(), self._ended.set)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(each, self._ended.set)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        self.terminal.enter()
        suspend.between_reads(self._suspend, self._resume)
        self.terminal.listen(self._pressed)
        tasks = [asyncio.create_task(feed.run(), name="watching") for feed in self._feeds]
        tasks.append(asyncio.create_task(self._look(), name="looking"))
        ended = asyncio.create_task(self._ended.wait())
        done, _ = await asyncio.wait({*tasks, ended}, return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, ended):
            task.cancel()
        for task in done:
            task.result()  # an exception of ours is for whoever started us to see
        if self._fault:
            raise self._fault

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that nobody waits for, of a key perhaps."""
        self._fault = self._fault or context.get("exception") or RuntimeError(context["message"])
        self._ended.set()

    async def _look(self) -> None:
        """Look again and again; at once after a key that wants something else."""
        while True:
            began = time.monotonic()
            if not self._looking.paused:
                await self._sight.look(self._looking)
                self._looking = choose(self._looking, self._sight.seen.entries)  # keys may have changed it meanwhile
            self._draw()
            server = self._sight.seen.server
            interval = _AT_FIRST_SECONDS if server and server.age is None else self._looking.interval
            left = interval - (time.monotonic() - began)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._look_now.wait(), max(0.05, left))
            self._look_now.clear()

    def _draw(self) -> None:
        if self._again:
            self._again.cancel()
            self._again = None
        if self.terminal.busy:
            self._again = asyncio.get_running_loop().call_later(_NOT_OUT_YET_SECONDS, self._draw)
            return
        columns, lines = self.terminal.size
        drawn = draw(self._sight.seen, self._looking, columns, lines, time.time())
        self.terminal.show([self._painter.paint(line, columns) for line in drawn])

    def _pressed(self, key: str) -> None:
        seen = self._sight.seen
        windows = [it.asked for it in seen.server.windows] if seen.server else []
        wanted = press(key, self._looking, [it.key for it in seen.entries], windows)
        if wanted == "quit":
            self._ended.set()
        elif wanted == "dump":
            self._say(json_dump.write(seen.server, os.getcwd()) if seen.server else "there is nothing to write yet")
        else:
            elsewhere = (wanted.server, wanted.window) != (self._looking.server, self._looking.window)
            self._looking = wanted
            if elsewhere or not wanted.paused:
                self._look_now.set()
        self._draw()

    def _say(self, notice: str) -> None:
        self._sight.seen = replace(self._sight.seen, notice=notice)
        asyncio.get_running_loop().call_later(_NOTICE_SECONDS, partial(self._unsay, notice))

    def _unsay(self, notice: str) -> None:
        if self._sight.seen.notice == notice:
            self._sight.seen = replace(self._sight.seen, notice="")

    def _resized(self) -> None:
        self.terminal.clear()
        self._draw()

    async def _suspend(self) -> None:
        await pause(self._feeds)
        self.terminal.leave()

    def _resume(self) -> None:
        self.terminal.enter()  # which stops us again where the shell has us in the background: nothing is read then
        resume(self._feeds)
        self._look_now.set()
        self._draw()
