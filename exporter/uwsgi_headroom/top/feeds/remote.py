"""Documents from a running exporter's API."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from uwsgi_headroom import exporter_client
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.schema import Server, Servers
from uwsgi_headroom.exporter_client import ApiError
from uwsgi_headroom.source import Http
from uwsgi_headroom.top.feeds.feed import FeedError, Trend

T = TypeVar("T")


class RemoteFeed:
    """The exporter at a URL."""

    def __init__(self, url: Http) -> None:
        self.where = str(url)
        self._url = url

    async def servers(self, window: float | None) -> Servers:
        """The list."""
        return await self._get(build.SERVERS_PATH + _window(window), Servers)

    async def server(self, name: str, window: float | None) -> Server:
        """The document of one server."""
        return await self._get(build.server_path(name) + _window(window), Server)

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
        try:
            return await exporter_client.get_document(self._url, path, kind)
        except ApiError as error:
            raise FeedError(str(error)) from None


def _window(seconds: float | None) -> str:
    return "" if seconds is None else f"?window={seconds:g}"
