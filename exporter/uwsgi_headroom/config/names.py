"""Names of servers: those that nobody chose, and those that two servers would have.

A name is the value of the label `server`, so no two servers share one, and a server that is watched keeps its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain, count

from uwsgi_headroom.config.model import ServerConfig
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source.address import Address, File, Http, Tcp, Unix


def default_name(address: Address) -> str:
    """The name of a server that was given none: its socket's file name without the ending, or its host and port."""
    match address:
        case Unix(path) | File(path):
            file_name = path.rstrip("/").rpartition("/")[2].removeprefix("@")
            return printable_name(file_name.rpartition(".")[0] or file_name)
        case Tcp(host, port) | Http(host, port):
            return f"{host}:{port}"


def free_name(address: Address, taken: Collection[str]) -> str:
    """The default name of a server; where that is taken its path, and where that is taken too its path and a number."""
    path = printable_name(str(address).removeprefix("unix://"))
    names = chain((default_name(address), path), (f"{path}#{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def name_servers(addresses: Collection[Address]) -> dict[Address, str]:
    """Names of servers that nobody watches yet: those of one default name are all named after their paths."""
    names: dict[Address, str] = {}
    for address in addresses:
        others = {default_name(other) for other in addresses if other != address}
        names[address] = free_name(address, others.union(names.values()))
    return names


def printable_name(path: str) -> str:
    """A path as a name: bytes in it that are no UTF-8, which no label can hold, are spelled out."""
    return path.encode("utf-8", "backslashreplace").decode()


def refuse_duplicate_names(servers: Iterable[ServerConfig]) -> tuple[ServerConfig, ...]:
    """The same servers, or ConfigError where two have one name: their series would be one series."""
    by_name: dict[str, ServerConfig] = {}
    kept: list[ServerConfig] = []
    for server in servers:
        if server.address is not None:
            other = by_name.setdefault(server.name, server)
            if other is not server:
                raise ConfigError(
                    f"{server.where}: a server named {server.name!r} is there already ({other.where}); "
                    f"give each its own name: NAME={server.address}"
                )
        kept.append(server)
    return tuple(kept)
