"""How to reach a Prometheus: its URL, login, tenant and certificate. Nothing here shows a secret."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from uwsgi_headroom.config.pem import load_authorities
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source import HttpAccess, basic, bearer

_PAGES = re.compile(r"/(?:graph|query|api/v1(?:/.*)?|api)?/?$")
"""Ends of the URLs of Prometheus' own pages, which people copy from their browser."""

_HEADER = re.compile(r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?P<value>[\x20-\x7e\t]*)")
_LONGEST_SECRET = 64 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A Prometheus. url: without login, to be shown; headers: more to send with each request, secrets included."""

    url: str
    access: HttpAccess = field(default_factory=HttpAccess, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def host(self) -> str:
        """The host's name or address."""
        return urlsplit(self.url).hostname or ""


def make_endpoint(
    url: str,
    *,
    user: str | None = None,
    password_file: str | None = None,
    token_file: str | None = None,
    headers: Sequence[str] = (),
    ca_file: str | None = None,
) -> Endpoint:
    """Check and combine the options of a Prometheus. Raises ConfigError, whose message contains no secret."""
    shown, from_url = _split_url(url)
    logins = [login for login in (from_url, _login(user, password_file), _bearer(token_file)) if login]
    if len(logins) > 1:
        raise ConfigError("give one login for Prometheus: in its URL, or a user and password file, or a token file")
    sent = dict(_parse_header(header) for header in headers)
    if logins and any(name.lower() == "authorization" for name in sent):
        raise ConfigError("give one login for Prometheus: a header Authorization, or another way")
    context = None if ca_file is None else _trust(Path(ca_file))
    return Endpoint(shown, HttpAccess(logins[0] if logins else "", context), sent)


def _trust(authorities: Path) -> ssl.SSLContext:
    """The certificates of the system, and those of a file."""
    if not authorities.is_file():
        raise ConfigError(f"--ca-file: {authorities} is not a file")
    context = ssl.create_default_context()
    load_authorities(context, authorities, "--ca-file")
    return context


def _split_url(url: str) -> tuple[str, str | None]:
    """The URL without login and without the page, and the login as a header's value."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("--prometheus: the URL cannot be understood; an example is http://127.0.0.1:9090") from None
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", host):
        raise ConfigError("--prometheus: expected a URL such as http://127.0.0.1:9090 or https://prometheus.example")
    netloc = f"[{host}]" if _is_ipv6(host) else host
    netloc += f":{port}" if port else ""
    shown = urlunsplit((parts.scheme, netloc, _PAGES.sub("", parts.path), "", ""))
    if parts.username is None:
        return shown, None
    return shown, basic(unquote(parts.username), unquote(parts.password or ""))


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version == 6
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _login(user: str | None, password_file: str | None) -> str | None:
    if user is None and password_file is None:
        return None
    if user is None or password_file is None:
        raise ConfigError("--prometheus-user and --prometheus-password-file belong together")
    return basic(user, _read_secret("--prometheus-password-file", password_file))


def _bearer(token_file: str | None) -> str | None:
    return None if token_file is None else bearer(_read_secret("--prometheus-token-file", token_file))


def _read_secret(option: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LONGEST_SECRET).decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a text file"
        raise ConfigError(f"{option}: cannot read {path}: {reason}") from None
    secret = text.strip()
    if not secret or not secret.isprintable():
        raise ConfigError(f"{option}: {path} must contain one line of text")
    return secret


def _parse_header(text: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(text)
    if not match:
        raise ConfigError('--prometheus-header: expected "NAME: VALUE", such as "X-Scope-OrgID: shop"')
    return match["name"], match["value"].strip()
