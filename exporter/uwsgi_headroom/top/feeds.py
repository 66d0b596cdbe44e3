"""Reads the documents that `top` shows, from running exporters or from servers that `top` itself watches.

A `Feed` is one such source. `attach` makes feeds from the arguments of `top`: each is a page of an exporter or the
address of a stats server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from uwsgi_headroom.check import exporter_client
from uwsgi_headroom.check.exporter_client import Answer, ApiError, find_page, find_who_answers
from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.servers import ServerConfig, parse_server_argument, refuse_duplicate_names
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.history import build_history
from uwsgi_headroom.documents.schema import ServerDocument, Servers
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.kernel.host import wait_until_ready
from uwsgi_headroom.source import Http, HttpAccess, parse_address
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch


class FeedError(HeadroomError):
    """A feed returned nothing this time; the message says why."""


class Concurrency(Struct, frozen=True):
    """The drawn part of `history.Concurrency`."""

    observed: list[float | None] = []


class Headroom(Struct, frozen=True):
    """The drawn part of `history.Headrooms`."""

    factor: list[float | None] = []


class Capacity(Struct, frozen=True):
    """The drawn part of `history.Capacity`."""

    available: list[float | None] = []


class ResponseTimes(Struct, frozen=True):
    """The drawn part of `history.ResponseTimeHistory`; empty from an exporter that does not know it."""

    shares: tuple[float, ...] = ()
    seconds: list[list[float | None]] = []
    finest: list[float | None] = []

    def column(self, share: float) -> list[float | None]:
        """Return the history of one percentile, such as 0.95; empty if there is none."""
        return next((column for each, column in zip(self.shares, self.seconds, strict=False) if each == share), [])


class Trend(Struct, frozen=True):
    """The drawn part of `history.History`: a value for each slice of `step` seconds."""

    step: float = 1.0
    concurrency: Concurrency = Concurrency()
    headroom: Headroom = Headroom()
    time: list[float] = []
    """The end of each slice, in epoch seconds."""
    throughput: list[float | None] = []
    queue_wait: list[float | None] = []
    threads: Capacity = Capacity()
    response_times: ResponseTimes = ResponseTimes()


NO_TREND = Trend()
"""The trend before the first one arrives."""


class Feed(Protocol):
    """A source of documents. `where` says what the feed is attached to. Every method may raise FeedError."""

    where: str

    async def servers(self, window: float | None) -> Servers:
        """Return the list of servers, with figures of this window (seconds; None: the feed's default)."""

    async def server(self, name: str, window: float | None) -> ServerDocument:
        """Return the document of one server."""

    async def trend(self, name: str, seconds: float, points: int) -> Trend:
        """Return the last `seconds` of a server's history in at most `points` slices."""

    async def run(self) -> None:
        """Run the feed's background work until cancelled."""

    async def pause(self) -> None:
        """End the reads under way, and start none until `resume`."""

    def resume(self) -> None:
        """Read again after `pause`."""

    async def close(self) -> None:
        """End the reads under way, permanently."""


async def pause_all(feeds: Iterable[Feed]) -> None:
    await asyncio.gather(*(feed.pause() for feed in feeds))


def resume_all(feeds: Iterable[Feed]) -> None:
    for feed in feeds:
        feed.resume()


async def close_all(feeds: Iterable[Feed]) -> None:
    await asyncio.gather(*(feed.close() for feed in feeds))


WINDOWS = (60.0, 300.0, 900.0)
"""The windows of the figures of servers that `top` itself watches, in seconds."""


class LocalFeed:
    """Documents of a fleet in this process."""

    def __init__(self, servers: Sequence[ServerConfig]) -> None:
        wait_until_ready()
        self._fleet = Fleet(servers, Settings(windows=WINDOWS))
        self.where = "read directly"

    async def servers(self, window: float | None) -> Servers:
        documents = await build.build_servers(self._fleet.watches(), self._fleet.clock, window or WINDOWS[0], WINDOWS)
        return build.build_server_list(documents, self._fleet.clock)

    async def server(self, name: str, window: float | None) -> ServerDocument:
        watch = self._find(name)
        if watch is None:
            raise FeedError(f"server {name!r} no longer exists")
        return build.build_server(watch, self._fleet.clock, window or WINDOWS[0], WINDOWS)

    async def trend(self, name: str, seconds: float, points: int) -> Trend:
        watch = self._find(name)
        if watch is None:
            return NO_TREND
        whole = await build_history(watch, self._fleet.clock, seconds, points)
        return msgspec.convert(whole, Trend, from_attributes=True)

    def _find(self, name: str) -> Watch | None:
        return next((watch for watch in self._fleet.watches() if watch.name == name), None)

    async def run(self) -> None:
        """Sample all servers until cancelled."""
        await self._fleet.run()

    async def pause(self) -> None:
        """End the reads under way, and start none until `resume`."""
        await self._fleet.pause()

    def resume(self) -> None:
        """Sample again after `pause`."""
        self._fleet.resume()

    async def close(self) -> None:
        """End the reads under way, permanently."""
        await self._fleet.close()


T = TypeVar("T")


class RemoteFeed:
    """Documents of the exporter at a URL."""

    def __init__(self, url: Http) -> None:
        self.where = str(url)
        self._url = url

    async def servers(self, window: float | None) -> Servers:
        return await self._get(build.SERVERS_PATH + _window(window), Servers)

    async def server(self, name: str, window: float | None) -> ServerDocument:
        return await self._get(build.server_path(name) + _window(window), ServerDocument)

    async def trend(self, name: str, seconds: float, points: int) -> Trend:
        return await self._get(f"{build.server_path(name)}/history?seconds={seconds:g}&points={points}", Trend)

    async def run(self) -> None:
        """Do nothing until cancelled: the exporter watches."""
        await asyncio.Event().wait()

    async def pause(self) -> None:
        """Do nothing: this feed reads no uWSGI server."""

    def resume(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def _get(self, path: str, kind: type[T]) -> T:
        try:
            return await exporter_client.get_document(self._url, path, kind)
        except ApiError as error:
            raise FeedError(str(error)) from None


def _window(seconds: float | None) -> str:
    return "" if seconds is None else f"?window={seconds:g}"


_ASCII = "".join(map(chr, range(0x21, 0x7F)))


@dataclass(frozen=True, slots=True)
class Attached:
    feeds: Sequence[Feed]
    server: tuple[int, str] | None = None
    """The server to show first: index of its feed, and its name. None: show the list."""


def attach(
    arguments: Sequence[str], discovered: Callable[[], tuple[ServerConfig, ...]], access: HttpAccess | None = None
) -> Attached:
    """Make a feed for each exporter, and one feed for all stats servers.

    Without arguments, attach to the exporter on this machine, which has an hour of history and already reads uWSGI, or
    else to the servers that `discovered` returns. The URL of a server's page selects that server. access: for every
    exporter. Raises ConfigError, and HeadroomError if there is nothing to show.
    """
    if not arguments:
        local = parse_address(f"http://{defaults.LISTEN_ADDRESS}")
        assert isinstance(local, Http)
        local = replace(local, access=access)
        if asyncio.run(_probe([local])) == ["exporter"]:
            return Attached([RemoteFeed(local)])
        return Attached([LocalFeed(discovered())])
    servers = [parse_server_argument(_quote(argument), "top") for argument in arguments]
    pages = [find_page(server.address, access) for server in servers]
    answers = asyncio.run(_probe([page and page.base for page in pages]))
    exporters: dict[Http, Feed] = {}
    watched: list[ServerConfig] = []
    selected: list[tuple[int, str]] = []
    for server, page, answer in zip(servers, pages, answers, strict=True):
        if answer == "nobody" and isinstance(server.address, Http):
            raise HeadroomError(f"{server.address}: nothing listens here, neither an exporter nor a stats server")
        # A stats server is usually given as host:port, so a silent http:// address is more likely an exporter.
        if page and (answer == "exporter" or (answer == "silent" and isinstance(server.address, Http))):
            url, name = page
            exporters.setdefault(url, RemoteFeed(url))
            selected += [(list(exporters).index(url), name)] if name else []
        else:
            watched.append(server)
    local_feeds = [LocalFeed(refuse_duplicate_names(watched))] if watched else []
    return Attached([*exporters.values(), *local_feeds], selected[0] if selected else None)


def _quote(argument: str) -> str:
    """Percent-encode a URL: some browsers copy URLs in decoded form."""
    return quote(argument.strip(), safe=_ASCII) if argument.strip().startswith(("http://", "https://")) else argument


async def _probe(urls: Sequence[Http | None]) -> list[Answer | None]:
    """Find out who answers at each URL, at the same time and only once per URL."""
    known = dict.fromkeys(url for url in urls if url)
    answers = dict(zip(known, await asyncio.gather(*map(find_who_answers, known)), strict=True))
    return [answers[url] if url else None for url in urls]
