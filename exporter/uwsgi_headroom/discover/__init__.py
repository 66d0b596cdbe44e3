"""Finds the uWSGI servers of this machine, how to turn on their stats, and settings that cause trouble."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.config.servers import ServerConfig, address_name
from uwsgi_headroom.discover.find import NOT_ALLOWED, FoundMaster, find_masters, sees_all_processes, user_name
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.source import ProcessOfApp

_log = logging.getLogger(__name__)

MOST_FOUND = 200
"""How many servers are looked at: users take turns, so that nobody's processes hide those of another user."""

_READ_SECONDS = 1.0
"""For the first reading of all stats servers. One that does not answer is looked at by its PID: it may be a socket of
the application, on which a master in cheap mode waits, and must not be read again."""


class Everything(Struct, frozen=True):
    """Every uWSGI of this machine: those that can be looked at, by their stats or, without stats, by the PID of their
    master. users: of each of these, by its name; hidden: the user of each other one, which is another user's; sees_all:
    whether /proc shows the processes of all users."""

    servers: tuple[ServerConfig, ...]
    users: Mapping[str, str]
    hidden: tuple[str, ...] = ()
    left_out: int = 0
    sees_all: bool = True


def find_everything() -> Everything:
    """Find every uWSGI of this machine, in well under a second on an ordinary one."""
    from uwsgi_headroom.discover.report import choose_names  # noqa: PLC0415 - as below

    masters = asyncio.run(find_masters(_READ_SECONDS))
    readable = {master.pid for master in masters if master.address and not master.trouble}
    emperors = {master.emperor for master in masters}
    everybody = os.geteuid() == 0
    own, hidden, addresses = list[FoundMaster](), list[str](), set[object]()
    for master in masters:
        is_read = master.address and not master.trouble
        address = master.address if is_read else ProcessOfApp(master.pid)
        if not is_read and master.pid in readable:  # a socket of its application
            continue
        if not (is_read or everybody or (master.user == user_name(os.geteuid()) and master.trouble != NOT_ALLOWED)):
            hidden.append(master.user)
        elif address not in addresses and (is_read or master.pid not in emperors):
            own.append(replace(master, address=address))
            addresses.add(address)
    own = [each for each in own if each.role != "emperor" or not isinstance(each.address, ProcessOfApp)] or own
    own, left_out = own[:MOST_FOUND], len(own[MOST_FOUND:])
    names = choose_names(own)
    return Everything(
        tuple(ServerConfig(name, master.address) for name, master in zip(names, own, strict=True)),
        {name: master.user for name, master in zip(names, own, strict=True)},
        tuple(hidden),
        left_out,
        sees_all_processes(),
    )


def discover_servers(*, trusted: bool = False) -> tuple[ServerConfig, ...]:
    """Find the servers on this machine that can be read, or that do not answer now. trusted: only those of root, and of
    this user. Raises HeadroomError with advice if there is none."""
    users = "root", user_name(os.geteuid())
    masters = [master for master in asyncio.run(find_masters()) if not trusted or master.user in users]
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
