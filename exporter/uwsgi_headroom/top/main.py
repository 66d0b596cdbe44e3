"""On a terminal, live; anywhere else, one snapshot."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence

from uwsgi_headroom.top import live
from uwsgi_headroom.top.feed import Feed
from uwsgi_headroom.top.looking import Looking
from uwsgi_headroom.top.once import watching
from uwsgi_headroom.top.paint import Painter
from uwsgi_headroom.top.screen import plain
from uwsgi_headroom.top.sight import Sight, choose
from uwsgi_headroom.top.terminal import abilities

_PIPE_WIDTH = 120  # columns where nothing says how many there are
_UNCUT = 500  # columns for a list, whose lines end with a sentence


def main(feeds: Sequence[Feed], interval: float, seconds: float, *, once: bool) -> int:
    """Run; the exit status."""
    can = abilities(os.environ, sys.stdout.fileno()) if sys.stdout.isatty() else None
    if can and can.addressable and not once:
        asyncio.run(live.run(feeds, Looking(interval=interval), can))
        return 0
    lines = asyncio.run(_snapshot(feeds, seconds))
    print("\n".join(lines))
    return 0


async def _snapshot(feeds: Sequence[Feed], seconds: float) -> list[str]:
    width = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
    painter = Painter(colour=False, styles=False, unicode=(sys.stdout.encoding or "").lower() in ("utf-8", "utf8"))
    async with watching(feeds, seconds):
        sight = Sight(feeds)
        await sight.look(Looking())
    looking = choose(Looking(), sight.seen.entries)
    if looking.view == "servers":
        width = _UNCUT
    return [painter.paint(line, width).rstrip() for line in plain(sight.seen, looking, width, time.time())]
