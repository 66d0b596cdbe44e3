"""Parses the addresses of stats servers into one of four types, and holds what access to one takes; does no I/O."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from uwsgi_headroom.errors import AddressError

if TYPE_CHECKING:
    import ssl


_PID_DIGITS = 10
_UNIX_PATH_BYTES = 107  # sockaddr_un.sun_path holds 108 with its closing NUL (unix(7))
_HOST = re.compile(r"[A-Za-z0-9._%:-]+")
_FORMS = "unix:///path, unix:@abstract, tcp://host:port, http://host:port or file:///path"


class Unix(Struct, frozen=True):
    """A UNIX stream socket. An abstract name begins with `@`, as uWSGI writes it."""

    path: str

    @property
    def sockaddrs(self) -> tuple[str, ...]:
        """The socket names to pass to the kernel, the likelier one first. An abstract name begins with a NUL byte;
        uWSGI's own names also end with one."""
        if not self.path.startswith("@"):
            return (self.path,)
        name = "\0" + self.path[1:]
        return (name + "\0", name)

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path.startswith("@") else f"unix://{self.path}"


class Tcp(Struct, frozen=True):
    """A raw TCP stats server. is_guarded: whether its name must not lead to what `stream.refuse_local` refuses."""

    host: str
    port: int
    is_guarded: bool = False

    def __str__(self) -> str:
        return f"tcp://{_netloc(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Http:
    """A stats server with `stats-http`, a proxy in front of one, or an exporter. `tls` is True for https. is_guarded:
    as of Tcp. access: for an exporter only."""

    host: str
    port: int
    target: str = "/"
    tls: bool = False
    is_guarded: bool = False
    access: HttpAccess | None = field(default=None, compare=False, repr=False)

    @property
    def netloc(self) -> str:
        return _netloc(self.host, self.port)

    def __str__(self) -> str:
        """The address for pages and logs: without the query, which may hold a secret (`?token=...`)."""
        path, mark, _ = self.target.partition("?")
        shown = path + (f"{mark}..." if mark else "")
        return f"{'https' if self.tls else 'http'}://{self.netloc}{'' if shown == '/' else shown}"


class File(Struct, frozen=True):
    """A file that holds a stats document to replay."""

    path: str

    def __str__(self) -> str:
        return f"file://{self.path}"


class ProcessOfApp(Struct, frozen=True):
    """A uWSGI without stats, by the PID here of one of its processes."""

    pid: int

    def __str__(self) -> str:
        return f"pid:{self.pid}"


class SocketOfApp(Struct, frozen=True):
    """A uWSGI without stats, by a socket on which its workers wait for requests."""

    place: Unix | Tcp

    def __str__(self) -> str:
        return f"app:{self.place.path}" if isinstance(self.place, Unix) else f"app:{str(self.place)[len('tcp://') :]}"


Address = Unix | Tcp | Http | File | ProcessOfApp | SocketOfApp


def parse_address(text: str) -> Address:
    """Parse an address: a URL with the scheme unix, tcp, http, https or file, a bare path, `@abstract`, `host:port`
    or `:port`.

    Raises AddressError, whose message gives the valid forms.
    """
    text = text.strip()
    scheme, separator, rest = text.partition(":")
    if scheme == "pid" and rest.isascii() and rest.isdecimal() and len(rest) <= _PID_DIGITS:
        return ProcessOfApp(int(rest))
    if scheme == "app" and rest:
        place = parse_address(rest)
        if isinstance(place, Unix) or (isinstance(place, Tcp) and _is_number(place.host)):
            return SocketOfApp(place)
        raise AddressError(f"{text!r}: write app:/path, app:@abstract or app:ADDRESS:PORT, with an IP address")
    if separator and scheme in ("unix", "file"):
        return _path(scheme, rest, text)
    if separator and scheme in ("tcp", "http", "https") and rest.startswith("//"):
        return _url(text)
    if "://" in text:
        raise AddressError(f"{text!r}: unknown scheme {scheme}://; use {_FORMS}")
    if text.startswith(("/", "@", "./", "../", "~")):
        return _path("unix", text, text)
    if re.fullmatch(r"(\[[^]]*\]|[^:/\s]*):\d+", text):
        return _url(f"tcp://{text}")
    raise AddressError(f"{text!r} is not a stats address: use {_FORMS} (a bare /path and host:port also work)")


def _is_number(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def _path(scheme: str, rest: str, text: str) -> Unix | File:
    path = rest.removeprefix("//")
    if path.startswith("~"):
        raise AddressError(f"{text!r}: write the path out; ~ is a different directory for each user")
    if not path or path == "@":
        raise AddressError(f"{text!r} has no path: write {scheme}:///path")
    if "\0" in path:
        raise AddressError(f"{text!r}: a path cannot hold a NUL byte")
    if scheme == "file":
        return File(path)
    if len(path.encode("utf-8", "surrogateescape")) > _UNIX_PATH_BYTES:
        raise AddressError(f"{text!r}: a UNIX socket's path is at most {_UNIX_PATH_BYTES} bytes long on Linux")
    return Unix(path)


def _url(text: str) -> Tcp | Http:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise AddressError(f"{text!r}: {error}; write {_FORMS}") from None
    if url.username is not None:
        raise AddressError(
            "the address holds a user name or password, which pages and logs would show: remove it from the address"
        )
    host = url.hostname or "127.0.0.1"  # uWSGI's short form ":1717" listens on every address
    labels = [host] if ":" in host else host.removesuffix(".").split(".")
    if not _HOST.fullmatch(host) or not all(0 < len(label) < 64 for label in labels):
        raise AddressError(f"{text!r}: {host!r} is not a host name; write it in ASCII (international names as xn--...)")
    if url.scheme == "tcp":
        if not port or url.path.strip("/") or url.query:
            raise AddressError(f"{text!r}: write tcp://host:port")
        return Tcp(host, port)
    tls = url.scheme == "https"
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    if not target.isascii() or not target.isprintable() or " " in target:
        raise AddressError(f"{text!r}: the path has characters that HTTP cannot carry; percent-encode them")
    return Http(host, port or (443 if tls else 80), target, tls)


def _netloc(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HttpAccess:
    """What the exporter's client shows to an HTTP server, and what it trusts."""

    authorization: str = ""
    """The value of that header, "" for none."""
    context: ssl.SSLContext | None = None
    """The context of TLS, None for that of the system."""
    server_name: str = ""
    """The name to expect in the server's certificate, "" for the host of the URL."""


def basic(user: str, password: str) -> str:
    """The header of a user and a password: RFC 7617."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def bearer(token: str) -> str:
    """The header of a token: RFC 6750."""
    return f"Bearer {token}"
