"""On a terminal, live; anywhere else, one snapshot."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence

from uwsgi_headroom.check.exit_status import UNKNOWN
from uwsgi_headroom.top import loop
from uwsgi_headroom.top.feeds.feed import Feed
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.once import exit_status, run_feeds
from uwsgi_headroom.top.poll import Poller, select_server
from uwsgi_headroom.top.terminal.paint import Painter
from uwsgi_headroom.top.terminal.terminal import detect_capabilities
from uwsgi_headroom.top.view.screen import draw_plain

_PIPE_WIDTH = 120  # columns where nothing says how many there are
_UNCUT = 500  # columns for a list, whose lines end with a sentence


def main(feeds: Sequence[Feed], interval: float, seconds: float, *, once: bool) -> int:
    """Run, and return the exit status: of a snapshot, 3 if a server could not be read."""
    capabilities = detect_capabilities(os.environ, sys.stdout.fileno()) if sys.stdout.isatty() else None
    if capabilities and capabilities.addressable and not once:
        asyncio.run(loop.run(feeds, Navigation(interval=interval), capabilities))
        return 0
    lines, status = asyncio.run(_snapshot(feeds, seconds))
    print("\n".join(lines))  # painted, and so escaped
    return status


async def _snapshot(feeds: Sequence[Feed], seconds: float) -> tuple[list[str], int]:
    """The lines of a snapshot, and its exit status."""
    width = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
    painter = Painter(colour=False, styles=False, unicode=(sys.stdout.encoding or "").lower() in ("utf-8", "utf8"))
    async with run_feeds(feeds, seconds):
        poller = Poller(feeds)
        await poller.poll(Navigation())
    navigation = select_server(Navigation(), poller.model.entries)
    if navigation.view == "servers":
        width = _UNCUT
    lines = [painter.paint(line, width).rstrip() for line in draw_plain(poller.model, navigation, width, time.time())]
    # With troubles, an exporter has not answered, and its servers are missing.
    status = UNKNOWN if poller.model.troubles else exit_status(entry.summary.state for entry in poller.model.entries)
    return lines, status
