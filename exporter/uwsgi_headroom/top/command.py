"""On a terminal, live; anywhere else, one snapshot."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence

from uwsgi_headroom.check import UNREADABLE
from uwsgi_headroom.top import loop
from uwsgi_headroom.top.feeds.feed import Feed
from uwsgi_headroom.top.navigation import Looking
from uwsgi_headroom.top.once import exit_status, watching
from uwsgi_headroom.top.poll import Sight, choose
from uwsgi_headroom.top.terminal.paint import Painter
from uwsgi_headroom.top.terminal.terminal import abilities
from uwsgi_headroom.top.view.screen import plain

_PIPE_WIDTH = 120  # columns where nothing says how many there are
_UNCUT = 500  # columns for a list, whose lines end with a sentence


def main(feeds: Sequence[Feed], interval: float, seconds: float, *, once: bool) -> int:
    """Run, and return the exit status: of a snapshot, 3 if a server could not be read."""
    can = abilities(os.environ, sys.stdout.fileno()) if sys.stdout.isatty() else None
    if can and can.addressable and not once:
        asyncio.run(loop.run(feeds, Looking(interval=interval), can))
        return 0
    lines, status = asyncio.run(_snapshot(feeds, seconds))
    print("\n".join(lines))
    return status


async def _snapshot(feeds: Sequence[Feed], seconds: float) -> tuple[list[str], int]:
    """The lines of a snapshot, and its exit status."""
    width = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
    painter = Painter(colour=False, styles=False, unicode=(sys.stdout.encoding or "").lower() in ("utf-8", "utf8"))
    async with watching(feeds, seconds):
        sight = Sight(feeds)
        await sight.look(Looking())
    looking = choose(Looking(), sight.seen.entries)
    if looking.view == "servers":
        width = _UNCUT
    lines = [painter.paint(line, width).rstrip() for line in plain(sight.seen, looking, width, time.time())]
    # With trouble, an exporter has not answered, and its servers are missing.
    status = UNREADABLE if sight.seen.trouble else exit_status(entry.summary.state for entry in sight.seen.entries)
    return lines, status
