"""Reads the documents for one snapshot, for output that is not a terminal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial

from uwsgi_headroom.check.exit_status import UNKNOWN
from uwsgi_headroom.documents.schema import Server, State
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.top.feeds.attach import Attached
from uwsgi_headroom.top.feeds.feed import Feed, close_all, pause_all, resume_all
from uwsgi_headroom.top.feeds.local import LocalFeed
from uwsgi_headroom.watch import suspend


async def read_documents(attached: Attached, seconds: float) -> list[Server]:
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
