"""Starts `top`: attaches to its arguments, then prints documents as JSON or shows a screen.

Nothing here needs rich, so that `--json` works without it; `command` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial

import msgspec

from uwsgi_headroom import extras, logs
from uwsgi_headroom.check.request import UNKNOWN
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.discover import discover_servers
from uwsgi_headroom.documents.schema import ServerDocument, State
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.top.feeds import Attached, Feed, LocalFeed, attach, close_all, pause_all, resume_all
from uwsgi_headroom.watch import suspend


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
        print_lines(render_json(documents if len(documents) > 1 else documents[0]).splitlines())
        return exit_status(server.state for server in documents)
    try:
        from uwsgi_headroom.top import command  # noqa: PLC0415 - needs rich, unlike --json
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        missing = extras.describe_missing(["rich"])
        raise HeadroomError(f"top needs {missing} (--json works without rich)") from None
    return command.main(attached, interval, seconds, once=once)


async def read_documents(attached: Attached, seconds: float) -> list[ServerDocument]:
    """Read the documents of all servers, or of the selected one; if `top` itself watches them, after `seconds`.

    Raises FeedError, and HeadroomError if there is no server.
    """
    feeds = attached.feeds
    async with run_feeds(feeds, seconds):
        if attached.server:
            place, name = attached.server
            return [await feeds[place].server(name, None)]
        lists = await asyncio.gather(*(feed.servers(None) for feed in feeds))
        documents = await asyncio.gather(
            *(
                feed.server(summary.name, None)
                for feed, listed in zip(feeds, lists, strict=True)
                for summary in listed.servers
            )
        )
    if not documents:
        raise HeadroomError("there is no server to show")
    return documents


def exit_status(states: Iterable[State]) -> int:
    """Return the exit status of a snapshot: 3, as for `check`, if a server is not up or there is none; else 0."""
    known = list(states)
    return 0 if known and all(state == "up" for state in known) else UNKNOWN


@contextlib.asynccontextmanager
async def run_feeds(feeds: Sequence[Feed], seconds: float) -> AsyncIterator[None]:
    """Run feeds while the block runs. The block starts after `seconds` of sampling."""
    suspend.between_reads(partial(pause_all, feeds), partial(resume_all, feeds))
    tasks = [asyncio.create_task(feed.run(), name="watching") for feed in feeds]
    try:
        if any(isinstance(feed, LocalFeed) for feed in feeds):
            await asyncio.sleep(seconds)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await close_all(feeds)


def render_json(document: object) -> str:
    """Write JSON in ASCII, so that no name in it can affect a terminal."""
    return json.dumps(msgspec.to_builtins(document, str_keys=True), indent=2)
