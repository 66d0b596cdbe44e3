"""Attaches `top` to its arguments, each a page of an exporter or the address of a stats server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.servers import ServerConfig, parse_server_argument, refuse_duplicate_names
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.exporter_client import Answer, ExporterPage, find_who_answers, parse_page
from uwsgi_headroom.source import Http, HttpAccess, Tcp, parse_address
from uwsgi_headroom.top.feeds.feed import Feed
from uwsgi_headroom.top.feeds.local import LocalFeed
from uwsgi_headroom.top.feeds.remote import RemoteFeed

_ASCII = "".join(map(chr, range(0x21, 0x7F)))


@dataclass(frozen=True, slots=True)
class Attached:
    """The feeds, and the server to show first: index of its feed, and its name. None: show the list."""

    feeds: Sequence[Feed]
    server: tuple[int, str] | None = None


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
    pages = [_as_page(server, access) for server in servers]
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


def _as_page(server: ServerConfig, access: HttpAccess | None) -> ExporterPage | None:
    """Return the page that an address means if it is an exporter's; None if it cannot be."""
    match server.address:
        case Http() as url:
            return parse_page(replace(url, access=access))
        case Tcp(host, port):
            return ExporterPage(Http(host, port, access=access), None)
    return None


async def _probe(urls: Sequence[Http | None]) -> list[Answer | None]:
    """Find out who answers at each URL, at the same time and only once per URL."""
    known = dict.fromkeys(url for url in urls if url)
    answers = dict(zip(known, await asyncio.gather(*map(find_who_answers, known)), strict=True))
    return [answers[url] if url else None for url in urls]
