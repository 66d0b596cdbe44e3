"""Reads the documents that `top` shows, from running exporters or from servers that `top` itself watches.

A `Feed` is one such source. `attach` makes feeds from the arguments of `top`: each is a page of an exporter or the
address of a stats server. `run` prints their documents as JSON, or shows a screen. Nothing here needs rich, so that
`--json` works without it; `loop` does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from uwsgi_headroom import extras, logs
from uwsgi_headroom.check.exporter_client import (
    NOBODY_LISTENS,
    ApiError,
    find_local_exporter,
    get_document,
    sort_targets,
)
from uwsgi_headroom.check.request import UNKNOWN
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.config.servers import ServerConfig, parse_server_argument, refuse_duplicates
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.discover import discover_servers
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.history import HistoryDocument, build_history
from uwsgi_headroom.documents.schema import ServerDocument, Servers, State
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.kernel.host import wait_until_ready
from uwsgi_headroom.source import Http, HttpAccess
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch

T = TypeVar("T")


NO_TREND = HistoryDocument(name="", step=1.0, since=0.0, until=0.0)
"""The history before the first one arrives."""


WINDOWS = (60.0, 300.0, 900.0)
"""The windows of the figures of servers that `top` itself watches, in seconds."""


class LocalFeed:
    """Documents of a fleet in this process. window: of the figures, None for the feed's default; `where` says what the
    feed is attached to, and `fleet` has the servers that `top` watches for it."""

    where = "read directly"

    def __init__(self, servers: Sequence[ServerConfig]) -> None:
        wait_until_ready()
        self.fleet = Fleet(servers, Settings(windows=WINDOWS))

    async def servers(self, window: float | None) -> Servers:
        documents = await build.build_servers(self.fleet.watches(), self.fleet.clock, window or WINDOWS[0], WINDOWS)
        return build.build_server_list(documents, self.fleet.clock)

    async def server(self, name: str, window: float | None) -> ServerDocument:
        return build.build_server(self._find(name), self.fleet.clock, window or WINDOWS[0], WINDOWS)

    async def trend(self, name: str, seconds: float, points: int) -> HistoryDocument:
        """The last `seconds` of a server's history in at most `points` slices."""
        return await build_history(self._find(name), self.fleet.clock, seconds, points)

    def _find(self, name: str) -> Watch:
        for watch in self.fleet.watches():
            if watch.name == name:
                return watch
        raise ApiError(f"server {name!r} no longer exists", "not_found")


class RemoteFeed:
    """The same documents of the exporter at a URL. Every method raises ApiError if it answers none."""

    fleet = None

    def __init__(self, url: Http) -> None:
        self.where = str(url)
        self._url = url

    async def servers(self, window: float | None) -> Servers:
        return await self._get(build.SERVERS_PATH, Servers, window)

    async def server(self, name: str, window: float | None) -> ServerDocument:
        return await self._get(build.server_path(name), ServerDocument, window)

    async def trend(self, name: str, seconds: float, points: int) -> HistoryDocument:
        path = f"{build.server_path(name)}/history?seconds={seconds:g}&points={points}"
        return await get_document(self._url, path, HistoryDocument)

    async def _get(self, path: str, kind: type[T], window: float | None) -> T:
        return await get_document(self._url, path if window is None else f"{path}?window={window:g}", kind)


Feed = LocalFeed | RemoteFeed


def list_fleets(feeds: Sequence[Feed]) -> list[Fleet]:
    """What `top` itself reads: one fleet at most."""
    return [feed.fleet for feed in feeds if feed.fleet]


class Attached(NamedTuple):
    feeds: Sequence[Feed]
    server: tuple[int, str] | None = None
    """The server to show first: index of its feed, and its name. None: show the list."""


def attach(
    arguments: Sequence[str], discovered: Callable[[], tuple[ServerConfig, ...]], access: HttpAccess | None = None
) -> Attached:
    """Make a feed for each exporter, and one feed for all stats servers.

    Without arguments, attach to the exporter on this machine, or else to the servers that `discovered` returns. The URL
    of a server's page selects that server. access: for every exporter. Raises ConfigError, and HeadroomError if there
    is nothing to show.
    """
    if not arguments:
        local = find_local_exporter(access)
        return Attached([RemoteFeed(local) if local else LocalFeed(discovered())])
    servers = [parse_server_argument(_quote(argument), "top") for argument in arguments]
    targets = asyncio.run(sort_targets(servers, access, slow_is_exporter=True))
    if targets.silent:
        raise HeadroomError(NOBODY_LISTENS.format(targets.silent[0]))
    urls = list(dict.fromkeys(page.base for page in targets.exporters))
    feeds: list[Feed] = [*map(RemoteFeed, urls)]
    if targets.watched:
        feeds.append(LocalFeed(refuse_duplicates(targets.watched)))
    selected = [(urls.index(page.base), page.server) for page in targets.exporters if page.server]
    return Attached(feeds, next(iter(selected), None))


_ASCII = "".join(map(chr, range(0x21, 0x7F)))


def _quote(argument: str) -> str:
    """Percent-encode a URL: some browsers copy URLs in decoded form."""
    text = argument.strip()
    return quote(text, safe=_ASCII) if text.startswith(("http://", "https://")) else argument


def run(options: argparse.Namespace) -> int:
    """Run `top` and return its exit status. Raises HeadroomError if there is nothing to show or rich is missing."""
    logs.configure("critical", "logfmt")  # the screen shows errors
    attached = attach(options.addresses, discover_servers, load_optional(options.http_config_file))
    if options.json:
        documents = asyncio.run(read_documents(attached, options.seconds))
        shown = documents if len(documents) > 1 else documents[0]
        print_lines(json.dumps(msgspec.to_builtins(shown, str_keys=True), indent=2).splitlines())
        return exit_status(server.state for server in documents)
    try:
        from uwsgi_headroom.top import loop  # noqa: PLC0415 - needs rich, unlike --json
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        missing = extras.describe_missing(["rich"])
        raise HeadroomError(f"top needs {missing} (--json works without rich)") from None
    return loop.main(attached, options.interval, options.seconds, once=options.once)


async def read_documents(attached: Attached, seconds: float) -> list[ServerDocument]:
    """Read the documents of all servers, or of the selected one; if `top` itself watches them, after `seconds`.

    Raises HeadroomError if there is no server, or if an exporter does not answer.
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
    """The exit status of a snapshot: 3, as for `check`, if a server is not up or there is none."""
    return 0 if {*states} == {"up"} else UNKNOWN


@contextlib.asynccontextmanager
async def run_feeds(feeds: Sequence[Feed], seconds: float) -> AsyncIterator[None]:
    """Watch the servers of feeds in the block, which starts after `seconds` of sampling."""
    fleets = list_fleets(feeds)
    for fleet in fleets:
        suspend.between_reads(fleet.pause, fleet.resume)
    tasks = [asyncio.create_task(fleet.run(), name="watching") for fleet in fleets]
    try:
        if tasks:
            await asyncio.sleep(seconds)
        yield
    finally:
        for task in tasks:
            task.cancel()
        for fleet in fleets:
            await fleet.close()
