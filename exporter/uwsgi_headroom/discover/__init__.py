"""Finds the uWSGI servers of this machine, how to turn on their stats, and settings that cause trouble."""

from __future__ import annotations

import asyncio
import logging

from uwsgi_headroom.config.servers import ServerConfig, address_name
from uwsgi_headroom.discover.find import FoundMaster, find_masters, user_name
from uwsgi_headroom.errors import HeadroomError

__all__ = ["FoundMaster", "discover_servers", "find_masters", "user_name"]

_log = logging.getLogger(__name__)


def discover_servers() -> tuple[ServerConfig, ...]:
    """Find the servers on this machine that can be read, or that do not answer now. Raises HeadroomError with advice if
    there is none."""
    masters = asyncio.run(find_masters())
    readable = {master.pid for master in masters if master.address and not master.trouble}
    pids = {
        master.address: master.pid
        for master in masters
        # In cheap mode a master waits for requests too: its other, silent sockets may be application sockets.
        if master.address and (not master.trouble or (master.silent and master.pid not in readable))
    }
    if not pids:
        from uwsgi_headroom.discover.report import render_report  # noqa: PLC0415 - a megabyte that an exporter seldom needs

        raise HeadroomError("no stats server was given, and none was found", render_report(masters))
    for address in pids:
        _log.info("found", extra={"fields": {"server": address_name(address), "address": str(address)}})
    return tuple(ServerConfig(address_name(each), each, where=f"uWSGI master {pid}") for each, pid in pids.items())
