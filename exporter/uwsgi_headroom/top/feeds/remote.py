"""Documents from a running exporter's API."""

from __future__ import annotations

import asyncio
from typing import Literal, TypeVar

import msgspec

from uwsgi_headroom import source
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.schema import Server, Servers
from uwsgi_headroom.errors import ReadError, SourceError
from uwsgi_headroom.source import Http
from uwsgi_headroom.top.feeds.feed import FeedError, Identified, Identity, Trend

T = TypeVar("T")

Answer = Literal["exporter", "other", "silent", "nobody"]
"""Who answers: silent: something listens and says nothing; nobody: nothing listens."""

_SECONDS = 8.0  # the exporter itself waits five for a server that it has never read
_PROBE_SECONDS = 3.0
_WHY = {
    "refused": "nothing listens there",
    "timeout": "it does not answer in time",
    "http": "it does not answer as an exporter does, or no longer has this server",
}


class _Description(msgspec.Struct):
    """What only an exporter has."""

    openapi: str


class RemoteFeed:
    """The exporter at a URL."""

    def __init__(self, url: Http) -> None:
        self.where = str(url)
        self._url = url

    async def servers(self, window: float | None) -> Servers:
        """The list."""
        return await self._get(build.SERVERS_PATH + _window(window), Servers)

    async def server(self, name: str, window: float | None) -> tuple[Server, Identity | None]:
        """The document of one server."""
        body = await self._read(build.server_path(name) + _window(window))
        return self._decode(body, Server), self._decode(body, Identified).identity

    async def trend(self, name: str, seconds: float, points: int) -> Trend:
        """The newest part of its history."""
        return await self._get(f"{build.server_path(name)}/history?seconds={seconds:g}&points={points}", Trend)

    async def run(self) -> None:
        """Nothing: the exporter watches."""
        await asyncio.Event().wait()

    async def pause(self) -> None:
        """Nothing: no server is read from here."""

    def resume(self) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Nothing."""

    async def _get(self, path: str, kind: type[T]) -> T:
        return self._decode(await self._read(path), kind)

    async def _read(self, path: str) -> bytes:
        try:
            return await _fetch(self._url, path, _SECONDS)
        except ReadError as error:
            raise FeedError(f"{self.where}: {_WHY.get(error.reason, str(error))}") from None

    def _decode(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise FeedError(f"{self.where}: its answer is not of this version's API") from None


async def probe(url: Http) -> Answer:
    """Who answers at a URL.

    A uWSGI with stats-http answers every path with its stats, and a raw one whoever connects: either is read once.
    """
    try:
        msgspec.json.decode(await _fetch(url, "/api/v1/openapi.json", _PROBE_SECONDS), type=_Description)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "other"
    except SourceError as error:
        return "nobody" if error.reason == "refused" else "silent" if error.reason == "timeout" else "other"
    return "exporter"


async def _fetch(url: Http, path: str, seconds: float) -> bytes:
    target = url.target.partition("?")[0].rstrip("/") + path
    return (await source.read_document(Http(url.host, url.port, target, url.tls), timeout=seconds)).body


def _window(seconds: float | None) -> str:
    return "" if seconds is None else f"?window={seconds:g}"
