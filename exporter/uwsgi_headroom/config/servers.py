"""The servers to watch: parses their addresses, names those without a name, and refuses what would collide. Then the
addresses that `/probe` may read.

A name is the value of the label `server`, under which years of history are kept. So every name is unique, and depends
only on the server's address and the configuration, never on which servers run or which started first.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import os
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, count, takewhile

from msgspec import Struct

from uwsgi_headroom.config.defaults import SIZE_CAP, TIMEOUT_SECONDS
from uwsgi_headroom.config.parsers import NAMED
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import AddressError, ConfigError
from uwsgi_headroom.source import Address, File, Http, ProcessOfApp, SocketOfApp, Tcp, Unix, parse_address
from uwsgi_headroom.terminal_text import escape_text

_GLOB = re.compile(r"[*?[]")
_WILDCARD = re.compile(r"\[[^\]]*\]|[*?]")

_APPLICATION = re.compile(r"/run/uwsgi/app/([^/]+)/(?:stats|socket)")
"""Where Debian's uWSGI keeps the sockets of an application, and where `discover` proposes a stats socket."""


class ServerConfig(Struct, frozen=True):
    """One server, or a glob of UNIX sockets, each of which is named after its file."""

    name: str
    address: Address | None
    """None for a glob."""
    pattern: str = ""
    timeout: float = TIMEOUT_SECONDS
    """Of one read, in seconds."""
    size_cap: int = SIZE_CAP
    """Of one document, in bytes."""
    where: str = ""
    """The line or flag that sets the server."""
    log: str = ""
    """The absolute path of uWSGI's log, or `journal:UNIT`; "" for none."""
    code: bool | None = None
    """Whether to look at its code; None for the setting of all servers."""
    code_prefixes: tuple[str, ...] = ()
    """Of its application's files; empty for those of all servers."""
    slo: Slo | None = None
    """None for the objective of all servers."""
    stuck_seconds: float | None = None
    """None for the age of all servers."""
    expect_names: tuple[str, ...] = ()
    """Of a glob: servers that are down if they are not there."""
    expect_number: int = 0
    """Of a glob: how many servers there should be at least."""


def make_server(stats: str, *, name: str = "", where: str = "", directory: str = "") -> ServerConfig:
    """Make a server from its address, which may be a glob of UNIX sockets. directory: that of relative paths, "" for
    the working directory. Raises AddressError."""
    stats = _as_path(stats, directory)
    pattern = stats.removeprefix("unix://").removeprefix("unix:")
    if _GLOB.search(pattern) and pattern.startswith(("/", "./", "../")):
        if name:
            raise AddressError(f"{stats!r} is a glob, which takes no name: each of its sockets is named after its file")
        return ServerConfig("", None, join(directory, pattern), where=where)
    address = parse_address(stats)
    if directory and isinstance(address, Unix | File) and not address.path.startswith("@"):
        scheme = "file" if isinstance(address, File) else "unix"
        address = parse_address(f"{scheme}://{join(directory, address.path)}")
    return ServerConfig(name or default_name(address), address, where=where)


def join(directory: str, path: str) -> str:
    """Return the path from a directory, "" for the working directory; an absolute one stays as it is."""
    return os.path.join(directory, path.removeprefix("./")) if directory else path


def _as_path(text: str, directory: str) -> str:
    """Prefix a text with `./` if it is no address, but an existing file or a relative glob."""
    try:
        parse_address(text)
    except AddressError:
        is_relative = not text.startswith(("/", "./", "../", "~")) and "://" not in text and "\0" not in text
        if is_relative and (os.path.exists(join(directory, text)) or (_GLOB.search(text) and "/" in text)):
            return f"./{text}"
    return text


def parse_server_argument(text: str, where: str, directory: str = "") -> ServerConfig:
    """Parse a server from `ADDRESS` or `NAME=ADDRESS`. directory: as of `make_server`. Raises ConfigError."""
    named = NAMED.fullmatch(text.strip())
    name, stats = (named[1], named[2]) if named else ("", text)
    try:
        return make_server(stats, name=name, where=where, directory=directory)
    except AddressError as error:
        raise ConfigError(f"{where}: {error}") from None


def default_name(address: Address) -> str:
    """The default name: the application's, the socket's file name without its ending, or host and port."""
    match address:
        case Unix(path) if application := _APPLICATION.fullmatch(path):
            return printable_name(application[1])
        case Unix(path) | File(path):
            file_name = path.rstrip("/").rpartition("/")[2].removeprefix("@")
            return printable_name(file_name.rpartition(".")[0] or file_name)
        case Tcp(host, port) | Http(host, port):
            return f"{host}:{port}"
        case ProcessOfApp():
            return str(address)
        case SocketOfApp(place):
            return default_name(place)


def address_name(address: Address) -> str:
    return _escaped(str(address).removeprefix("unix://"))


class GlobNames:
    """Names the sockets that match the patterns of a configuration.

    A name is the part of the path that the patterns leave open: the path without the directory that all patterns share,
    and without its ending. `/run/uwsgi/*.stats` finds `shop`, `/run/*/*.stats` finds `uwsgi/shop`, `/srv/*/run/stats`
    finds `shop`. Endings stay if two patterns could give one name without them, as `/run/*.a` and `/run/*.b` could.
    Without them, `/run/*.stats` and `/run/app/*/stats` give names with different numbers of slashes. If a configured
    server already has that name, the whole path is the name.
    """

    def __init__(self, patterns: Sequence[str], given: Collection[str] = ()) -> None:
        self._given = given
        directories = [_WILDCARD.split(pattern)[0].split("/")[:-1] for pattern in patterns]
        common = takewhile(lambda names: len(set(names)) == 1, zip(*directories, strict=False))
        self._prefix = "".join(f"{names[0]}/" for names in common)  # the directory that all matches share
        # Every match ends with the part after the last wildcard.
        endings = {(pattern.count("/"), _WILDCARD.split(pattern)[-1]) for pattern in patterns}
        by_path = {slashes for slashes, _ in endings}  # `*` matches no slash, so a path has as many as its pattern
        by_name = {slashes - ending.count("/") for slashes, ending in endings}
        self._endings = dict(endings) if len(by_path) == len(by_name) == len(endings) else {}

    def name(self, path: str) -> str:
        """Return the name of the socket at a path that one of the patterns matches."""
        short = path.removeprefix(self._prefix).removesuffix(self._endings.get(path.count("/"), ""))
        names = chain((_escaped(short), _escaped(path)), (f"{_escaped(path)}#{number}" for number in count(2)))
        return next(name for name in names if name and name not in self._given)

    def path(self, name: str, pattern: str) -> str | None:
        """The path of the socket that has this name by a pattern of these; None without one, or if it has escapes."""
        if not name or "\\" in name:
            return None
        ending = self._endings.get(pattern.count("/"), "")
        paths = (f"{self._prefix}{name}{ending}", name)
        return next((path for path in paths if _matches(path, pattern) and self.name(path) == name), None)


def _matches(path: str, pattern: str) -> bool:
    """Whether `glob.glob` would find the path. In a glob, no wildcard matches a slash, or a dot at the beginning."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(
        fnmatch.fnmatchcase(part, like) and part.startswith(".") <= like.startswith(".")
        for part, like in zip(parts, wanted, strict=True)
    )


def _escaped(path: str) -> str:
    return printable_name(path.replace("\\", "\\\\"))


def printable_name(path: str) -> str:
    """Turn a path into a name: bytes that are not UTF-8, which a label cannot hold, and characters that a terminal
    obeys or does not show are written as escapes."""
    return escape_text(path.encode("utf-8", "backslashreplace").decode())


def refuse_duplicates(servers: Iterable[ServerConfig]) -> tuple[ServerConfig, ...]:
    """Return the servers. Raises ConfigError if two have the same name, because their series would be the same, or the
    same address: uWSGI's master would be read twice. A file has no master, so it may be
    replayed under several names."""
    kept = tuple(servers)
    by_name, by_address = dict[str, ServerConfig](), dict[Address, ServerConfig]()
    for server in kept:
        if server.address is None:
            continue
        other = by_name.setdefault(server.name, server)
        if other is not server:
            raise ConfigError(
                f"{server.where}: another server is already named {server.name!r} ({other.where}); "
                f"give each its own name: NAME={server.address}"
            )
        other = by_address.setdefault(server.address, server)
        if other is not server and not isinstance(server.address, File):
            raise ConfigError(
                f"{server.where}: {server.address} is already configured as {other.name!r} ({other.where}); "
                "give each stats server only one name"
            )
    return kept


def refuse_impossible_expectations(servers: Sequence[ServerConfig]) -> None:
    """Raise ConfigError if a glob expects a server with a name that none of its sockets can have."""
    names = GlobNames([server.pattern for server in servers if server.address is None])
    for server in servers:
        for name in server.expect_names:
            if names.path(name, server.pattern) is None:
                raise ConfigError(
                    f"{server.where}: expect: no socket that {server.pattern} matches is named {name!r}; a name is "
                    "the part of the path that all patterns leave open"
                )


MOST_STARS = 2
"""Most `*` in one label or file name: matching takes a time that grows with the length of a text to this power."""

_NETWORK = re.compile(r"(?:(tcp|http|https)://)?([a-z0-9_.*-]+|\[[0-9a-f:.]+\]):([1-9][0-9]{0,4})", re.IGNORECASE)
_NUMBERS = re.compile(r"[0-9]+(\.([0-9]+|\*)){3}")
_LABEL = re.compile(r"[a-z0-9_*]([a-z0-9_*-]{0,61}[a-z0-9_*])?")
_NAME_LENGTH = 253


class TargetPattern(Struct, frozen=True):
    """A pattern of addresses. place: the host, or the path of a socket; port: 0 for a socket.

    A target has exactly one form for each address, and everything else is refused before any pattern is tried: no user,
    no path, no percent encoding, no default port, no IPv4 address in another form than four decimal numbers. So a text
    cannot mean one address to the pattern and another one to the resolver.

    * `10.0.3.*:1717`: an IPv4 address, in which `*` is one whole number. The first number has no `*`.
    * `[fd00::5]:1717`: one IPv6 address.
    * `*.uwsgi.internal:1717`: a name, in which `*` is any part of one label: it matches no dot.
    * `http://` or `https://` before one of them: for `stats-http`. A pattern allows targets of its own scheme only.
    * `/run/uwsgi/*.stats`: a UNIX socket, in which `*` matches no slash, and no dot at the beginning of a name.
    """

    text: str
    scheme: str
    place: re.Pattern[str]
    port: int

    def allows(self, address: Address) -> bool:
        """Whether the pattern allows this address, which must come from `parse_target`."""
        scheme, place, port = _parts(address)
        return (scheme, port) == (self.scheme, self.port) and self.place.fullmatch(place) is not None


def parse_pattern(text: str, where: str) -> TargetPattern:
    """Parse a pattern. Raises ConfigError."""
    text = text.strip()
    try:
        address = _parse(text)
    except ValueError as error:
        raise ConfigError(
            f"{where}: {text!r} is not a pattern of addresses for probes ({error}); write 10.0.3.*:1717, "
            "*.uwsgi.internal:1717 or /run/uwsgi/*.stats, with the port in every address of a host"
        ) from None
    scheme, place, port = _parts(address)
    return TargetPattern(text, scheme, _expression(place, "/" if scheme == "unix" else "."), port)


def parse_target(text: str) -> Address | None:
    """Parse the address that a probe asks for; None if it is not written in the one form of an address."""
    try:
        return None if "*" in text else _parse(text)
    except ValueError:
        return None


def find_allowed(text: str, patterns: Iterable[TargetPattern]) -> Address | None:
    """Return the address of a target that one of the patterns allows; None if none does."""
    address = parse_target(text)
    return address if address and any(pattern.allows(address) for pattern in patterns) else None


def _parse(text: str) -> Address:
    """Parse an address, in which a host or a path may have `*`. Raises ValueError."""
    path = text.removeprefix("unix://")
    if path.startswith("/"):
        return _socket(path)
    match = _NETWORK.fullmatch(text)
    if not match or not text.isascii():
        raise ValueError("neither HOST:PORT nor an absolute path")
    host, port = match[2].lower(), int(match[3])
    if port > 65535:
        raise ValueError("no such port")
    is_name = not host.startswith("[") and not _NUMBERS.fullmatch(host)
    host = _name(host) if is_name else _number(host)
    scheme = (match[1] or "tcp").lower()
    if scheme == "tcp":
        return Tcp(host, port, is_guarded=is_name)
    return Http(host, port, tls=scheme == "https", is_guarded=is_name)


def _socket(path: str) -> Unix:
    names = path.split("/")[1:]
    if any(name in ("", ".", "..") for name in names) or not path.isprintable():
        raise ValueError("a path is written without empty parts, `.` and `..`")
    if any(name.count("*") > MOST_STARS for name in names):
        raise ValueError(f"more than {MOST_STARS} `*` in one name")
    try:
        if parse_address(path) == Unix(path):
            return Unix(path)
    except (AddressError, UnicodeError):
        pass
    raise ValueError("no path of a socket") from None


def _number(host: str) -> str:
    """Return an IP address in its usual form. Raises ValueError."""
    if not host.startswith("["):
        ipaddress.IPv4Address(host.replace("*", "0"))
        return host
    address = ipaddress.IPv6Address(host[1:-1])
    if address.ipv4_mapped:
        raise ValueError("an IPv4 address is written with four numbers")
    return str(address)


def _name(host: str) -> str:
    """Return a host name. Raises ValueError.

    The last label begins with a letter, as those of all host names do: resolvers take `2130706433`, `0x7f.1` and
    `127.1` for IPv4 addresses.
    """
    labels = host.split(".")
    if not all(map(_LABEL.fullmatch, labels)) or len(host) > _NAME_LENGTH:
        raise ValueError("no host name")
    if not labels[-1][0].isalpha():
        raise ValueError("the last part of a name begins with a letter; an IPv4 address is four decimal numbers")
    if any(label.count("*") > MOST_STARS for label in labels):
        raise ValueError(f"more than {MOST_STARS} `*` in one label")
    return host


def _parts(address: Address) -> tuple[str, str, int]:
    match address:
        case Tcp(host, port):
            return "tcp", host, port
        case Http(host, port, _, tls):
            return "https" if tls else "http", host, port
        case _:
            return "unix", getattr(address, "path", ""), 0


def _expression(place: str, separator: str) -> re.Pattern[str]:
    """Make the expression of a host or path: `*` matches no separator, and no part that is empty."""
    parts = []
    for part in place.split(separator):
        any_text = f"[^{separator}]*".join(map(re.escape, part.split("*")))
        visible = r"(?!\.)" if separator == "/" and part.startswith("*") else ""
        parts.append(visible + any_text)
    return re.compile(re.escape(separator).join(parts), re.DOTALL)
