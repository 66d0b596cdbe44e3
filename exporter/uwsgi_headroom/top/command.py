"""Shows a live screen on a terminal, and one snapshot anywhere else. Needs rich, unlike `start`."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence

from msgspec.structs import replace

from uwsgi_headroom.check.request import UNKNOWN
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.top import loop
from uwsgi_headroom.top.feeds import Attached, Feed
from uwsgi_headroom.top.navigation import Navigation, select_server
from uwsgi_headroom.top.poll import Poller
from uwsgi_headroom.top.start import exit_status, run_feeds
from uwsgi_headroom.top.terminal import Painter, detect_capabilities, takes_unicode
from uwsgi_headroom.top.view.screen import draw_plain, list_keys

_PIPE_WIDTH = 120  # columns if the width is unknown
_UNCUT = 500  # columns of a list, whose lines end with a sentence; COLUMNS may be any number


def main(attached: Attached, interval: float, seconds: float, *, once: bool) -> int:
    """Run `top` and return its exit status: for a snapshot, 3 if a server could not be read."""
    navigation = Navigation(interval=interval)
    if attached.server:
        navigation = replace(navigation, server=attached.server, chosen=True, view="workers")
    capabilities = detect_capabilities(os.environ, sys.stdout.fileno()) if sys.stdout.isatty() else None
    if capabilities and capabilities.addressable and not once:
        asyncio.run(loop.run(attached.feeds, navigation, capabilities))
        return 0
    lines, status = asyncio.run(_snapshot(attached.feeds, navigation, seconds))
    print_lines(lines)
    return status


async def _snapshot(feeds: Sequence[Feed], navigation: Navigation, seconds: float) -> tuple[list[str], int]:
    """Return the lines of a snapshot, and its exit status."""
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
    if asked_for:
        states = [model.server.state] if model.server else []
    else:
        states = [entry.summary.state for entry in model.entries]
    # Troubles mean that an exporter has not answered, so that its servers are missing.
    return lines, UNKNOWN if model.troubles else exit_status(states)
