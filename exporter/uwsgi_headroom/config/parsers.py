"""Parses settings from the text of a flag, an environment variable or the configuration file.

`where` is the origin of the text, with which the message of a ConfigError begins. A setting that is repeatable has one
for each of its texts, because in a file each has its own line.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uwsgi_headroom.config.defaults import (
    HISTORY_MAX_SIZE_RANGE,
    HISTORY_SECONDS,
    JOURNAL,
    LISTEN_ADDRESS,
    MOST_BACKENDS,
    MOST_PREFIXES,
    READER,
    STUCK_SECONDS_RANGE,
)
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.numbers import BYTES, SECONDS, parse_number, parse_quantity
from uwsgi_headroom.routes import parse_template, refuse_too_many

Texts = Sequence[tuple[str, str]]
"""Texts of one setting, each with its origin."""

_HOST_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?", re.ASCII)
_USER = re.compile(r"\w[\w.@-]*\$?")
NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
"""`NAME=TEXT`: a server or a backend with its name."""

_UNIT = re.compile(r"[\w:.\\@-]{1,255}", re.ASCII)
"""Names of systemd's units: systemd.unit(5)."""


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Parses a number from `least` to `most`. is_whole: drops what is behind the decimal point."""

    least: float
    most: float
    is_whole: bool = False

    def __call__(self, text: str, where: str) -> float:
        """Parse a number. Raises ConfigError."""
        try:
            number = parse_number(text, self.least, self.most)
        except ValueError:
            raise ConfigError(f"{where}: expected a number {self}, not {text!r}") from None
        return int(number) if self.is_whole else number

    def __str__(self) -> str:
        return f"from {self.least:g} to {self.most:g}"


def one_of(known: Sequence[str]) -> Callable[[str, str], str]:
    def parse(text: str, where: str) -> str:
        if text not in known:
            raise ConfigError(f"{where}: {text!r} is not one of {', '.join(known)}")
        return text

    return parse


def parse_text(text: str, _where: str) -> str:
    return text


def parse_boolean(text: str, where: str) -> bool:
    """Parse `true` or `false`. Raises ConfigError."""
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{where}: {text!r} is neither true nor false")
    return text.lower() == "true"


def parse_listen_addresses(texts: Texts) -> tuple[tuple[str, int], ...]:
    """Parse the addresses to listen on. Raises ConfigError."""
    return tuple(parse_listen_address(text, where) for text, where in texts)


def parse_listen_address(text: str, where: str) -> tuple[str, int]:
    """Parse `host:port`, `:port` (every address of the host) or `[ipv6]:port`. Raises ConfigError."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%\w]+\]|[^:\s]*):(\d{1,5})", text.strip())
    with contextlib.suppress(UnicodeError):  # as `getaddrinfo` raises for a label that is empty or too long
        if match and int(match[2]) <= 65535 and match[1].encode("idna") is not None:
            return match[1].strip("[]"), int(match[2])
    raise ConfigError(f"{where}: {text!r} is not a listen address; write host:port, such as {LISTEN_ADDRESS}")


def parse_users(texts: Texts) -> tuple[str, ...]:
    """Parse names of local users, who may not exist yet. Raises ConfigError."""
    for text, where in texts:
        if not _USER.fullmatch(text):
            raise ConfigError(f"{where}: {text!r} is not the name of a user, such as {READER}")
    return tuple(text for text, _ in texts)


def parse_host_names(texts: Texts) -> tuple[str, ...]:
    """Parse host names without a port; returns them in lower case. Raises ConfigError."""
    for text, where in texts:
        if not _HOST_NAME.fullmatch(text.strip()):
            raise ConfigError(f"{where}: {text!r} is not a host name without a port, such as headroom.example.com")
    return tuple(text.strip().lower().removesuffix(".") for text, _ in texts)


def parse_windows(texts: Texts) -> tuple[float, ...]:
    """Parse window lengths such as `90s`, `5m` or `1h` to seconds, ascending. Raises ConfigError."""
    lengths = set()
    for text, where in texts:
        seconds = parse_quantity(text, SECONDS)
        if not 10 <= seconds <= HISTORY_SECONDS:
            raise ConfigError(f"{where}: {text!r} is not a window; write a length from 10s to 1h, such as 5m")
        lengths.add(seconds)
    return tuple(sorted(lengths))


def parse_stuck(text: str, where: str) -> float:
    """Parse the age of a stuck request, such as `30s` or `12h`, to seconds. Raises ConfigError."""
    seconds = parse_quantity(text, SECONDS)
    if not STUCK_SECONDS_RANGE[0] <= seconds <= STUCK_SECONDS_RANGE[1]:
        raise ConfigError(f"{where}: {text!r} is not an age from 1s to 24h, such as 30s or 5m")
    return seconds


def parse_backends(texts: Texts) -> tuple[tuple[str, str], ...]:
    """Parse the names of backends, each as `NAME=ADDRESS`. Raises ConfigError."""
    backends: dict[str, str] = {}
    for text, where in texts:
        named = NAMED.fullmatch(text.strip())
        if not named:
            raise ConfigError(f"{where}: {text!r} is not a backend; write NAME=ADDRESS, such as postgres=10.0.0.5:5432")
        if named[1] in backends:
            raise ConfigError(f"{where}: two backends are called {named[1]!r}")
        address = _backend_address(named[2], where)
        if address in backends.values():
            raise ConfigError(f"{where}: two backends have the same address")
        backends[named[1]] = address
    if len(backends) > MOST_BACKENDS:
        _, where = texts[MOST_BACKENDS]
        raise ConfigError(f"{where}: {len(backends)} backends are too many; {MOST_BACKENDS} can have a name")
    return tuple(backends.items())


def parse_logs(texts: Texts) -> tuple[tuple[str, str], ...]:
    """Parse the logs of servers, each as `NAME=PATH` or `NAME=journal:UNIT`. Raises ConfigError."""
    logs: dict[str, str] = {}
    for text, where in texts:
        name, equals, path = text.strip().partition("=")
        if not (name and equals and path):
            raise ConfigError(
                f"{where}: {text!r} is not a log; write NAME=PATH, such as shop=/var/log/uwsgi/shop.log, or "
                "NAME=journal:UNIT"
            )
        if name in logs:
            raise ConfigError(f"{where}: {name!r} has two logs")
        logs[name] = parse_log_path(path, where)
    return tuple(logs.items())


def parse_log_path(text: str, where: str) -> str:
    """Parse the path of a log, or `journal:UNIT`. Raises ConfigError."""
    if text.startswith(JOURNAL):
        unit = text[len(JOURNAL) :]
        if not _UNIT.fullmatch(unit):
            raise ConfigError(f"{where}: {text!r} names no unit of systemd; write journal:UNIT, such as {JOURNAL}shop")
        return text if unit.endswith(".service") else f"{text}.service"
    if not text or "\0" in text:
        raise ConfigError(f"{where}: {text!r} is not the path of a file")
    return os.path.abspath(text)


def _backend_address(text: str, where: str) -> str:
    """Parse `10.0.0.5:5432`, `[::1]:5432`, `*:5432` or an absolute path. Raises ConfigError."""
    if text.startswith(("/", "@")):
        return text
    host, _, port = text.rpartition(":")
    try:
        number = int(port) if port.isascii() and port.isdigit() else 0
        if not 0 < number <= 65535:
            raise ValueError("no port")
        return f"{host if host == '*' else _kernels_name(host)}:{number}"
    except ValueError:
        raise ConfigError(
            f"{where}: {text!r} is not the address of a backend; write an IP address and a port (10.0.0.5:5432 or "
            "[::1]:5432), *:5432 for that port on any host, or the path of a UNIX socket, but no host name"
        ) from None


def _kernels_name(host: str) -> str:
    """An IPv4 address, or an IPv6 address in brackets, as the kernel's list of sockets has it: an IPv4 address that is
    mapped to IPv6 is an IPv4 address, and none has a scope (`%eth0`). Raises ValueError."""
    import ipaddress  # noqa: PLC0415 - help needs this module
    import socket  # noqa: PLC0415

    if not host.startswith("["):
        return str(ipaddress.IPv4Address(host))
    address = ipaddress.IPv6Address(host[1:].removesuffix("]"))
    if address.scope_id or not host.endswith("]"):
        raise ValueError("no plain address")
    return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{socket.inet_ntop(socket.AF_INET6, address.packed)}]"


def parse_templates(texts: Texts) -> tuple[str, ...]:
    """Parse the templates of routes, such as `/orders/{id}`. Raises ConfigError."""
    templates: tuple[str, ...] = ()
    for text, where in texts:
        templates = refuse_too_many([*templates, parse_template(text, where)], where)
    return templates


def parse_prefixes(texts: Texts) -> tuple[str, ...]:
    """Parse the beginnings of the paths of an application's files. Raises ConfigError."""
    for text, where in texts:
        if not text or len(texts) > MOST_PREFIXES:
            raise ConfigError(f"{where}: {text!r}: write the beginning of a path; {MOST_PREFIXES} at most")
    return tuple(text for text, _ in texts)


def parse_size(text: str, where: str) -> int:
    """Parse a size such as `500MB` or `1GB` to bytes, of which a megabyte has 10**6. Raises ConfigError."""
    size = parse_quantity(text.upper(), BYTES)
    least, most = HISTORY_MAX_SIZE_RANGE
    if not least <= size <= most:
        raise ConfigError(f"{where}: {text!r} is not a size from 1MB to 1TB, such as 500MB")
    return round(size)
