"""Addresses without a listener: files, folders, links, sockets of another kind, and nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from tests.support.hostile.listeners import Place, Site, bind_unix, host_and_port, on_unix
from tests.support.hostile.peer import Behaviour


def no_stream(kind: socket.SocketKind) -> Place:
    """A UNIX socket of another kind."""

    def place(site: Site) -> str:
        bind_unix(site, kind, None)
        return f"unix://{site.path}"

    return place


def stale(site: Site) -> str:
    """A UNIX socket on which no process listens any more."""
    bind_unix(site, socket.SOCK_STREAM, None).close()
    return f"unix://{site.path}"


def closed_port(site: Site) -> str:
    """A TCP port that is bound, so that nobody else gets it, and that does not listen."""
    bound = site.closing.enter_context(socket.socket())
    bound.bind(("127.0.0.1", 0))
    return f"tcp://{host_and_port(bound)}"


def made(make: Callable[[Path], object], scheme: str = "unix") -> Place:
    """Creates something other than a listener at the path."""

    def place(site: Site) -> str:
        make(site.path)
        return f"{scheme}://{site.path}"

    return place


def elsewhere(address: str) -> Place:
    """An existing address, or one that does not exist."""
    return lambda site: address.format(path=site.path)


def behind_link(behave: Behaviour) -> Place:
    """A symbolic link to a UNIX listener."""

    def place(site: Site) -> str:
        address = on_unix(behave)(site)
        moved = site.path.with_suffix(".moved")
        site.path.rename(moved)
        site.path.symlink_to(moved)
        return address

    return place


def circle(path: Path) -> None:
    """A symbolic link to itself."""
    path.symlink_to(path)


def huge(path: Path) -> None:
    """A sparse regular file of a terabyte."""
    path.touch()
    os.truncate(path, 2**40)
