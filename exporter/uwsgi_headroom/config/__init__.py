"""What the exporter is told: flags first, then environment variables, then the configuration file, then defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from uwsgi_headroom import source
from uwsgi_headroom.errors import AddressError, ConfigError
from uwsgi_headroom.history.window import HISTORY_SECONDS
from uwsgi_headroom.logs import Format
from uwsgi_headroom.source.address import Address, File, Http, Tcp, Unix
from uwsgi_headroom.watch.pace import DEFAULT_SAMPLES_PER_SECOND
from uwsgi_headroom.watch.reader import TIMEOUT_SECONDS

LISTEN_ADDRESS = "127.0.0.1:9238"
LOG_LEVELS = ("debug", "info", "warning", "error")
SAMPLES_PER_SECOND_RANGE = (0.1, 20.0)
"""The fewest and the most. Below, windows say little; above, uWSGI's master would notice, and figures gain nothing."""

_GLOB = re.compile(r"[*?[]")
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server, or a glob of UNIX sockets (then `address` is None and every socket is named after its file).

    timeout in seconds for one read, size_cap in bytes for one document; where: the line or flag it came from.
    """

    name: str
    address: Address | None
    pattern: str = ""
    timeout: float = TIMEOUT_SECONDS
    size_cap: int = source.SIZE_CAP
    where: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """How every server is watched.

    windows: lengths in seconds, ascending; figures of single workers are for the last. cpu_residency: look at every
    thread of the workers too, for workers x CPUs more series.
    """

    samples_per_second: float = DEFAULT_SAMPLES_PER_SECOND
    windows: tuple[float, ...] = (60.0, 300.0)
    cpu_residency: bool = False


SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class Config:
    """Everything `serve` needs to know."""

    servers: tuple[ServerConfig, ...] = ()
    listen: tuple[tuple[str, int], ...] = field(default_factory=lambda: (parse_listen_address(LISTEN_ADDRESS),))
    settings: Settings = SETTINGS
    log_level: str = "info"
    log_format: Format = "logfmt"


def make_server(
    stats: str,
    *,
    name: str = "",
    timeout: float = TIMEOUT_SECONDS,
    size_cap: int = source.SIZE_CAP,
    where: str = "",
) -> ServerConfig:
    """One server from its address, which may be a glob of UNIX sockets. Raises AddressError."""
    pattern = stats.removeprefix("unix://").removeprefix("unix:")
    if _GLOB.search(pattern) and pattern.startswith(("/", "./", "../")):
        if name:
            raise AddressError(f"{stats!r} is a glob: each of its sockets is named after its file, so it takes no name")
        return ServerConfig("", None, pattern, timeout, size_cap, where)
    address = source.parse_address(stats)
    return ServerConfig(name or default_name(address), address, "", timeout, size_cap, where)


def parse_server_argument(text: str, where: str) -> ServerConfig:
    """One server from `ADDRESS` or `NAME=ADDRESS`. Raises ConfigError."""
    named = _NAMED.fullmatch(text.strip())
    try:
        return make_server(named[2], name=named[1], where=where) if named else make_server(text, where=where)
    except AddressError as error:
        raise ConfigError(f"{where}: {error}") from None


def default_name(address: Address) -> str:
    """The name of a server that was given none: its socket's file name without the ending, or its host and port."""
    match address:
        case Unix(path) | File(path):
            file_name = path.rstrip("/").rpartition("/")[2].removeprefix("@")
            return printable_name(file_name.rpartition(".")[0] or file_name)
        case Tcp(host, port) | Http(host, port):
            return f"{host}:{port}"


def printable_name(path: str) -> str:
    """A path as a name: bytes in it that are no UTF-8, which no label can hold, are spelled out."""
    return path.encode("utf-8", "backslashreplace").decode()


def refuse_duplicate_names(servers: Iterable[ServerConfig]) -> tuple[ServerConfig, ...]:
    """The same servers, or ConfigError where two have one name: their series would be one series."""
    by_name: dict[str, ServerConfig] = {}
    kept: list[ServerConfig] = []
    for it in servers:
        if it.address is not None:
            other = by_name.setdefault(it.name, it)
            if other is not it:
                raise ConfigError(
                    f"{it.where}: a server named {it.name!r} is there already ({other.where}); give each its own name: "
                    f"NAME={it.address}"
                )
        kept.append(it)
    return tuple(kept)


def parse_listen_address(text: str, where: str = "--web.listen-address") -> tuple[str, int]:
    """`host:port`, `:port` (every address of the host) or `[ipv6]:port`. Raises ConfigError."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%\w]+\]|[^:\s]*):(\d{1,5})", text.strip())
    if not match or int(match[2]) > 65535:
        raise ConfigError(f"{where}: {text!r} is no address to listen on; write host:port, such as {LISTEN_ADDRESS}")
    return match[1].strip("[]"), int(match[2])


def parse_windows(texts: Iterable[str], where: str) -> tuple[float, ...]:
    """Window lengths such as `90s`, `5m` or `1h`, in seconds, ascending. Raises ConfigError."""
    lengths = set()
    for text in texts:
        match = re.fullmatch(r"(\d+)([smh])", text.strip())
        seconds = int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else 0
        if not 10 <= seconds <= HISTORY_SECONDS:
            raise ConfigError(f"{where}: {text!r} is no window; write one from 10s to 1h, such as 5m")
        lengths.add(float(seconds))
    return tuple(sorted(lengths))


def parse_boolean(text: str, where: str) -> bool:
    """`true` or `false`. Raises ConfigError."""
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{where}: {text!r} is neither true nor false")
    return text.lower() == "true"
