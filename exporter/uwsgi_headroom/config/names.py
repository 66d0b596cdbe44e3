"""Names of servers: those that nobody chose, and those that two servers would have.

A name is the value of the label `server`: years of history are kept under it. So no two servers share one, and it
depends on the server's address and on the configuration alone, never on which servers run, or which were there first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, count, takewhile

from uwsgi_headroom.config.model import ServerConfig
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source.address import Address, File, Http, Tcp, Unix

_WILDCARD = re.compile(r"\[[^\]]*\]|[*?]")


def default_name(address: Address) -> str:
    """The name of a server that was given none: its socket's file name without the ending, or its host and port."""
    match address:
        case Unix(path) | File(path):
            file_name = path.rstrip("/").rpartition("/")[2].removeprefix("@")
            return printable_name(file_name.rpartition(".")[0] or file_name)
        case Tcp(host, port) | Http(host, port):
            return f"{host}:{port}"


def address_name(address: Address) -> str:
    """The name of a server that was found without a pattern: its address, whatever else is found."""
    return _escaped(str(address).removeprefix("unix://"))


class GlobNames:
    """Names of the sockets that the patterns of a configuration find.

    A name is the part of the path that the patterns leave open: what is behind the directory that all of them are in,
    without the ending that all of them have. `/run/uwsgi/*.stats` finds `shop`, `/run/*/*.stats` finds `uwsgi/shop`,
    `/srv/*/run/stats` finds `shop`. Where a server of the configuration has that name, the whole path is the name.
    """

    def __init__(self, patterns: Sequence[str], given: Collection[str]) -> None:
        self._given = given
        self._prefix = _common_directory(patterns)
        endings = {_fixed_ending(pattern) for pattern in patterns}
        self._suffix = endings.pop() if len(endings) == 1 else ""

    def name(self, path: str) -> str:
        """The name of the socket at a path that one of the patterns matches."""
        short = path.removeprefix(self._prefix).removesuffix(self._suffix)
        names = chain((_escaped(short), _escaped(path)), (f"{_escaped(path)}#{number}" for number in count(2)))
        return next(name for name in names if name and name not in self._given)


def _common_directory(patterns: Sequence[str]) -> str:
    """The directory that all that they match is in, with a slash behind it."""
    directories = [_WILDCARD.split(pattern)[0].split("/")[:-1] for pattern in patterns]
    common = takewhile(lambda names: len(set(names)) == 1, zip(*directories, strict=False))
    return "".join(f"{names[0]}/" for names in common)


def _fixed_ending(pattern: str) -> str:
    """What is behind its last wildcard: all that it matches ends so."""
    return _WILDCARD.split(pattern)[-1]


def _escaped(path: str) -> str:
    """A path as a name, of which no other path has the same."""
    return printable_name(path.replace("\\", "\\\\"))


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


def refuse_duplicate_addresses(servers: Iterable[ServerConfig]) -> None:
    """Raise ConfigError where two servers have one address: uWSGI's master, which serves its stats itself, would be
    read by two. A file has no master and may be replayed under several names."""
    by_address: dict[Address, ServerConfig] = {}
    for server in servers:
        if server.address is None or isinstance(server.address, File):
            continue
        other = by_address.setdefault(server.address, server)
        if other is not server:
            raise ConfigError(
                f"{server.where}: {server.address} is there already as {other.name!r} ({other.where}); "
                "give each stats server one name"
            )
