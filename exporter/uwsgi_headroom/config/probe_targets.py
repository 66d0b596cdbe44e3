"""The addresses that `/probe` may read: patterns of the configuration, and the targets that they allow. Does no I/O.

A target has exactly one form for each address, and everything else is refused before any pattern is tried: no user, no
path, no percent encoding, no default port, no IPv4 address in another form than four decimal numbers. So a text cannot
mean one address to the pattern and another one to the resolver.

* `10.0.3.*:1717`: an IPv4 address, in which `*` is one whole number. The first number has no `*`.
* `[fd00::5]:1717`: one IPv6 address.
* `*.uwsgi.internal:1717`: a name, in which `*` is any part of one label: it matches no dot.
* `http://` or `https://` before one of them: for `stats-http`. A pattern allows targets of its own scheme only.
* `/run/uwsgi/*.stats`: a UNIX socket, in which `*` matches no slash, and no dot at the beginning of a name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from uwsgi_headroom.errors import AddressError, ConfigError
from uwsgi_headroom.source import Address, Http, Tcp, Unix, parse_address

MOST_STARS = 2
"""Most `*` in one label or file name: matching takes a time that grows with the length of a text to this power."""

_NETWORK = re.compile(r"(?:(tcp|http|https)://)?([a-z0-9_.*-]+|\[[0-9a-f:.]+\]):([1-9][0-9]{0,4})", re.IGNORECASE)
_NUMBERS = re.compile(r"[0-9]+(\.([0-9]+|\*)){3}")
_LABEL = re.compile(r"[a-z0-9_*]([a-z0-9_*-]{0,61}[a-z0-9_*])?")
_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class TargetPattern:
    """A pattern of addresses. place: the host, or the path of a socket; port: 0 for a socket."""

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
        address = parse_address(path)
    except (AddressError, UnicodeError):
        raise ValueError("no path of a socket") from None
    if address != Unix(path):
        raise ValueError("no path of a socket")
    return Unix(path)


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
    """Return the scheme, the host or path, and the port."""
    match address:
        case Tcp(host, port):
            return "tcp", host, port
        case Http(host, port, _, tls):
            return "https" if tls else "http", host, port
        case _:
            return "unix", address.path, 0


def _expression(place: str, separator: str) -> re.Pattern[str]:
    """Make the expression of a host or path: `*` matches no separator, and no part that is empty."""
    parts = []
    for part in place.split(separator):
        any_text = f"[^{separator}]*".join(map(re.escape, part.split("*")))
        visible = r"(?!\.)" if separator == "/" and part.startswith("*") else ""
        parts.append(visible + any_text)
    return re.compile(re.escape(separator).join(parts), re.DOTALL)
