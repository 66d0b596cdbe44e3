"""A feed that reads the API of a running exporter."""

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
    """Documents of the exporter at a URL."""

    def __init__(self, url: Http) -> None:
        self.where = str(url)
        self._url = url

    async def servers(self, window: float | None) -> Servers:
        """Return the list of servers."""
        return await self._get(build.SERVERS_PATH + _window(window), Servers)

    async def server(self, name: str, window: float | None) -> Server:
        """Return the document of one server."""
        return await self._get(build.server_path(name) + _window(window), Server)

    async def trend(self, name: str, seconds: float, points: int) -> Trend:
        """Return the newest part of a server's history."""
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
