"""Parses settings from the text of a flag, an environment variable or the configuration file.

`where` names the origin of the text, for the message of a ConfigError.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterable

from uwsgi_headroom.config.defaults import (
    HISTORY_MAX_SIZE_RANGE,
    HISTORY_SECONDS,
    LISTEN_ADDRESS,
    MOST_BACKENDS,
    SIZE_CAP,
    STUCK_SECONDS_RANGE,
    TIMEOUT_SECONDS,
)
from uwsgi_headroom.config.model import ServerConfig
from uwsgi_headroom.config.names import default_name
from uwsgi_headroom.errors import AddressError, ConfigError
from uwsgi_headroom.routes.templates import parse_template, refuse_too_many
from uwsgi_headroom.source.address import parse_address

_GLOB = re.compile(r"[*?[]")
_HOST_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?", re.ASCII)
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([MGT])B", re.ASCII)
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)


def make_server(
    stats: str,
    *,
    name: str = "",
    timeout: float = TIMEOUT_SECONDS,
    size_cap: int = SIZE_CAP,
    where: str = "",
) -> ServerConfig:
    """Make a server from its address, which may be a glob of UNIX sockets. Raises AddressError."""
    stats = _as_path(stats)
    pattern = stats.removeprefix("unix://").removeprefix("unix:")
    if _GLOB.search(pattern) and pattern.startswith(("/", "./", "../")):
        if name:
            raise AddressError(f"{stats!r} is a glob, which takes no name: each of its sockets is named after its file")
        return ServerConfig("", None, pattern, timeout, size_cap, where)
    address = parse_address(stats)
    return ServerConfig(name or default_name(address), address, "", timeout, size_cap, where)


def _as_path(text: str) -> str:
    """Prefix a text with `./` if it is not an address but the path of an existing file, or a relative glob."""
    try:
        parse_address(text)
    except AddressError:
        is_relative = not text.startswith(("/", "./", "../", "~")) and "://" not in text and "\0" not in text
        if is_relative and (os.path.exists(text) or (_GLOB.search(text) and "/" in text)):
            return f"./{text}"
    return text


def parse_server_argument(text: str, where: str) -> ServerConfig:
    """Parse a server from `ADDRESS` or `NAME=ADDRESS`. Raises ConfigError."""
    named = _NAMED.fullmatch(text.strip())
    try:
        return make_server(named[2], name=named[1], where=where) if named else make_server(text, where=where)
    except AddressError as error:
        raise ConfigError(f"{where}: {error}") from None


def parse_listen_address(text: str, where: str = "--web.listen-address") -> tuple[str, int]:
    """Parse `host:port`, `:port` (every address of the host) or `[ipv6]:port`. Raises ConfigError."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%\w]+\]|[^:\s]*):(\d{1,5})", text.strip())
    if not match or int(match[2]) > 65535:
        raise ConfigError(f"{where}: {text!r} is not a listen address; write host:port, such as {LISTEN_ADDRESS}")
    return match[1].strip("[]"), int(match[2])


def parse_host_name(text: str, where: str) -> str:
    """Parse a host name without a port; returns it in lower case. Raises ConfigError."""
    if not _HOST_NAME.fullmatch(text.strip()):
        raise ConfigError(f"{where}: {text!r} is not a host name without a port, such as headroom.example.com")
    return text.strip().lower().removesuffix(".")


def parse_windows(texts: Iterable[str], where: str) -> tuple[float, ...]:
    """Parse window lengths such as `90s`, `5m` or `1h` to seconds, ascending. Raises ConfigError."""
    lengths = set()
    for text in texts:
        seconds = _parse_length(text)
        if not 10 <= seconds <= HISTORY_SECONDS:
            raise ConfigError(f"{where}: {text!r} is not a window; write a length from 10s to 1h, such as 5m")
        lengths.add(seconds)
    return tuple(sorted(lengths))


def parse_stuck(text: str, where: str) -> float:
    """Parse the age from which on a request counts as stuck, such as `30s`, `5m` or `12h`, to seconds. Raises
    ConfigError."""
    seconds = _parse_length(text)
    if not STUCK_SECONDS_RANGE[0] <= seconds <= STUCK_SECONDS_RANGE[1]:
        raise ConfigError(f"{where}: {text!r} is not an age from 1s to 24h, such as 30s or 5m")
    return seconds


def _parse_length(text: str) -> float:
    """Parse `90s`, `5m` or `1h` to seconds; 0 for anything else."""
    match = re.fullmatch(r"(\d{1,5})([smh])", text.strip(), re.ASCII)
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0


def parse_backends(texts: Iterable[str], where: str) -> tuple[tuple[str, str], ...]:
    """Parse the names of backends, each as `NAME=ADDRESS`. Raises ConfigError."""
    backends: dict[str, str] = {}
    for text in texts:
        named = _NAMED.fullmatch(text.strip())
        if not named:
            raise ConfigError(f"{where}: {text!r} is not a backend; write NAME=ADDRESS, such as postgres=10.0.0.5:5432")
        if named[1] in backends:
            raise ConfigError(f"{where}: two backends are called {named[1]!r}")
        backends[named[1]] = _backend_address(named[2], where)
    if len(backends) > MOST_BACKENDS:
        raise ConfigError(f"{where}: {len(backends)} backends are too many; {MOST_BACKENDS} can have a name")
    if len(set(backends.values())) < len(backends):
        raise ConfigError(f"{where}: two backends have the same address")
    return tuple(backends.items())


def _backend_address(text: str, where: str) -> str:
    """Parse `10.0.0.5:5432`, `[::1]:5432`, `*:5432` or an absolute path. Raises ConfigError."""
    if text.startswith(("/", "@")):
        return text
    host, _, port = text.rpartition(":")
    try:
        number = int(port) if port.isascii() and port.isdigit() else 0
        if not 0 < number <= 65535:
            raise ValueError("no port")
        if host == "*":
            return f"*:{number}"
        return f"{_kernels_name(host)}:{number}"
    except ValueError:
        raise ConfigError(
            f"{where}: {text!r} is not the address of a backend; write an IP address and a port (10.0.0.5:5432 or "
            "[::1]:5432), *:5432 for that port on any host, or the path of a UNIX socket, but no host name"
        ) from None


def _kernels_name(host: str) -> str:
    """An IPv4 address, or an IPv6 address in brackets, as the kernel's list of sockets has it: an IPv4 address that is
    mapped to IPv6 is an IPv4 address, and none has a scope (`%eth0`). Raises ValueError."""
    if not host.startswith("["):
        return str(ipaddress.IPv4Address(host))
    address = ipaddress.IPv6Address(host[1:].removesuffix("]"))
    if address.scope_id or not host.endswith("]"):
        raise ValueError("no plain address")
    return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{socket.inet_ntop(socket.AF_INET6, address.packed)}]"


def parse_templates(texts: Iterable[str], where: str) -> tuple[str, ...]:
    """Parse the templates of routes, such as `/orders/{id}`. Raises ConfigError."""
    return refuse_too_many([parse_template(text, where) for text in texts], where)


def parse_size(text: str, where: str) -> int:
    """Parse a size such as `500MB` or `1GB` to bytes, of which a megabyte has 10**6. Raises ConfigError."""
    match = _SIZE.fullmatch(text.strip().upper())
    size = round(float(match[1]) * 10 ** {"M": 6, "G": 9, "T": 12}[match[2]]) if match else 0
    least, most = HISTORY_MAX_SIZE_RANGE
    if not least <= size <= most:
        raise ConfigError(f"{where}: {text!r} is not a size from 1MB to 1TB, such as 500MB")
    return size


def parse_boolean(text: str, where: str) -> bool:
    """Parse `true` or `false`. Raises ConfigError."""
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{where}: {text!r} is neither true nor false")
    return text.lower() == "true"
