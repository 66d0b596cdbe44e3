"""What an argument of `top` means: the URL of an exporter, or the address of a stats server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.model import ServerConfig
from uwsgi_headroom.config.names import refuse_duplicate_names
from uwsgi_headroom.config.values import parse_server_argument
from uwsgi_headroom.errors import HeadroomError, SourceError
from uwsgi_headroom.exporter_client import is_exporter
from uwsgi_headroom.source import Http, Tcp, parse_address
from uwsgi_headroom.top.feeds.feed import Feed
from uwsgi_headroom.top.feeds.local import LocalFeed
from uwsgi_headroom.top.feeds.remote import RemoteFeed


def attach(arguments: Sequence[str], discovered: Callable[[], tuple[ServerConfig, ...]]) -> list[Feed]:
    """A feed for each exporter, and one for all stats servers together.

    Without arguments: the exporter of this machine, which has an hour of history and reads uWSGI already, or else the
    servers that are `discovered`. Raises ConfigError, and HeadroomError where there is nothing to show.
    """
    if not arguments:
        local = parse_address(f"http://{defaults.LISTEN_ADDRESS}")
        assert isinstance(local, Http)
        if asyncio.run(_probe([local])) == [True]:
            return [RemoteFeed(local)]
        return [LocalFeed(discovered())]
    servers = refuse_duplicate_names(parse_server_argument(argument, "top") for argument in arguments)
    exporters: list[Feed] = []
    watched: list[ServerConfig] = []
    urls = [_as_url(server) for server in servers]
    for server, url, answer in zip(servers, urls, asyncio.run(_probe(urls)), strict=True):
        if answer is None and isinstance(server.address, Http):
            raise HeadroomError(f"{server.address}: nothing listens here, neither an exporter nor a stats server")
        if url and answer:
            exporters.append(RemoteFeed(url))
        else:
            watched.append(server)
    return [*exporters, *([LocalFeed(watched)] if watched else [])]


def _as_url(server: ServerConfig) -> Http | None:
    match server.address:
        case Http() as url:
            return url
        case Tcp(host, port):
            return Http(host, port)
    return None


async def _probe(urls: Sequence[Http | None]) -> list[bool | None]:
    """Ask all at once whether an exporter answers there; None where nobody listens."""
    return await asyncio.gather(*(_is_exporter(url) for url in urls))


async def _is_exporter(url: Http | None) -> bool | None:
    try:
        return url is not None and await is_exporter(url)
    except SourceError:
        return None
