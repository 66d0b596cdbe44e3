"""Sorts the addresses of `check` into stats servers and globs, which it watches itself, and exporters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from uwsgi_headroom.config.servers import (
    ServerConfig,
    parse_server_argument,
    refuse_duplicate_addresses,
    refuse_duplicate_names,
)
from uwsgi_headroom.exporter_client import ExporterPage, find_who_answers, parse_page
from uwsgi_headroom.source import Address, Http, HttpAccess, Tcp


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of a check.

    watched: servers and globs to watch; exporters: pages of exporters to read; silent: http:// addresses at which
    nothing listens, which could be either. single: whether the result is one document instead of a list.
    """

    watched: tuple[ServerConfig, ...] = ()
    exporters: tuple[ExporterPage, ...] = ()
    silent: tuple[Http, ...] = ()
    single: bool = False


def parse_targets(arguments: Sequence[str]) -> tuple[ServerConfig, ...]:
    """Parse arguments to servers, globs and URLs. Raises ConfigError."""
    servers = refuse_duplicate_names(parse_server_argument(argument, "check") for argument in arguments)
    refuse_duplicate_addresses(servers)
    return servers


async def sort_targets(servers: Sequence[ServerConfig], access: HttpAccess | None = None) -> Targets:
    """Find out which addresses are exporters, by asking all that may be one at the same time. access: for every
    exporter."""
    pages = [_as_page(server.address, access) for server in servers]
    answers = await asyncio.gather(*(_probe(page) for page in pages))
    sorted_out = list(zip(servers, pages, answers, strict=True))
    exporters = tuple(page for _, page, answer in sorted_out if page and answer)
    silent = [server for server, _, answer in sorted_out if answer is None and isinstance(server.address, Http)]
    return Targets(
        watched=tuple(server for server, _, answer in sorted_out if not answer and server not in silent),
        exporters=exporters,
        silent=tuple(server.address for server in silent if isinstance(server.address, Http)),
        single=len(servers) == 1
        and servers[0].address is not None
        and all(page.server is not None for page in exporters),
    )


def _as_page(address: Address | None, access: HttpAccess | None) -> ExporterPage | None:
    match address:
        case Http() as url:
            return parse_page(replace(url, access=access))
        case Tcp(host, port):
            return ExporterPage(Http(host, port, access=access), None)
    return None


async def _probe(page: ExporterPage | None) -> bool | None:
    """Whether an exporter answers at the base of a page; None if nothing listens there."""
    answer = "other" if page is None else await find_who_answers(page.base)
    return None if answer == "nobody" else answer == "exporter"
