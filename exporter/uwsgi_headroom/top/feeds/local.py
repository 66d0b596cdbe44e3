"""A feed that watches servers in this process, as an exporter does."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.history import build_history
from uwsgi_headroom.documents.schema import Server, Servers
from uwsgi_headroom.top.feeds.feed import NO_TREND, FeedError, Trend
from uwsgi_headroom.watch.fleet import Fleet

WINDOWS = (60.0, 300.0, 900.0)


class LocalFeed:
    """Documents of a fleet in this process."""

    def __init__(self, servers: Sequence[ServerConfig]) -> None:
        self._fleet = Fleet(servers, Settings(windows=WINDOWS))
        self.where = "read directly"

    async def servers(self, window: float | None) -> Servers:
        """Return the list of servers."""
        documents = await build.build_servers(self._fleet.watches(), self._fleet.clock, window or WINDOWS[0], WINDOWS)
        return build.build_server_list(documents, self._fleet.clock)

    async def server(self, name: str, window: float | None) -> Server:
        """Return the document of one server."""
        for watch in self._fleet.watches():
            if watch.name == name:
                return build.build_server(watch, self._fleet.clock, window or WINDOWS[0], WINDOWS)
        raise FeedError(f"server {name!r} no longer exists")

    async def trend(self, name: str, seconds: float, points: int) -> Trend:
        """Return the history of one server."""
        for watch in self._fleet.watches():
            if watch.name == name:
                whole = await build_history(watch, self._fleet.clock, seconds, points)
                return msgspec.convert(whole, Trend, from_attributes=True)
        return NO_TREND

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
