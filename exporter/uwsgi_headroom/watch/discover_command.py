"""Runs `discover`."""

from __future__ import annotations

import asyncio

from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.watch.discover import find_masters
from uwsgi_headroom.watch.discover_report import render_report


def run() -> int:
    """Print the uWSGI masters on this machine and return the exit status: 1 if none has a stats server."""
    masters = asyncio.run(find_masters())
    print_lines(render_report(masters))
    return 0 if any(master.address for master in masters) else 1
