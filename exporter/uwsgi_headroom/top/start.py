"""Starts `top`: attaches to its arguments, then prints documents or shows a screen."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence

from uwsgi_headroom import logs
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.discover import discover_servers
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.top import json_dump
from uwsgi_headroom.top.feeds.attach import attach
from uwsgi_headroom.top.once import exit_status, read_documents

NEEDED_FOR_SCREEN = "rich>=13.7,<16"
"""The requirement of the extra `top` in setup.cfg. Not the extra's name, because no index has this package."""


def run(
    addresses: Sequence[str],
    interval: float,
    seconds: float,
    *,
    once: bool,
    as_json: bool,
    http_config: str | None = None,
) -> int:
    """Run `top` and return its exit status. http_config: the path of an HTTP client configuration. Raises
    HeadroomError if there is nothing to show or rich is missing."""
    logs.configure("critical", "logfmt")  # the screen shows errors
    attached = attach(addresses, discover_servers, load_optional(http_config))
    if as_json:
        documents = asyncio.run(read_documents(attached, seconds))
        print_lines(json_dump.render_json(documents if len(documents) > 1 else documents[0]).splitlines())
        return exit_status(server.state for server in documents)
    try:
        from uwsgi_headroom.top import command  # noqa: PLC0415 - needs rich, unlike --json
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        # The running Python belongs to the right environment, whether pip, pipx or a person made it.
        install = f"{shlex.quote(sys.executable)} -m pip install '{NEEDED_FOR_SCREEN}'"
        raise HeadroomError(f"top needs rich: {install} (--json works without rich)") from None
    return command.main(attached, interval, seconds, once=once)
