"""Opens the sockets that the exporter listens on, logs their addresses, and warns about those that others can reach.

A warning says what other machines can read or overhear at a listener. Routes of requests and lines of code are refused
there, not only warned about, unless there is a login.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from uwsgi_headroom import __version__
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web import bounds

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.live_config import LiveConfig
    from uwsgi_headroom.web.security.web_config_file import WebConfig

_log = logging.getLogger(__name__)


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises ConfigError with the address in its message."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if host and ":" not in host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=bounds.LISTEN_QUEUE
            )
        return socket.create_server((host, port), family=family, backlog=bounds.LISTEN_QUEUE)
    except OSError as error:
        what = "is in use by another program" if error.errno == 98 else f"is not available ({error.strerror})"
        advice = "choose another address with --web.listen-address HOST:PORT"
        raise ConfigError(f"{host or '*'}:{port} {what}; {advice}") from None


def announce(listeners: Sequence[socket.socket], live: LiveConfig | None) -> None:
    """Log each address, and a warning about each that others reach without TLS or a login. live: None without both."""
    for listener in listeners:
        if listener.family == socket.AF_UNIX:
            _log.info("listening", extra={"fields": {"path": listener.getsockname(), "version": __version__}})
            continue
        host, port = listener.getsockname()[:2]
        scheme = "https" if live and live.active.context else "http"
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
        _log.info("listening", extra={"fields": {"url": url, "version": __version__}})
        if is_exposed(host) and (warning := describe_exposure(live.config if live else None)):
            _log.warning(warning, extra={"fields": {"url": url}})


_OPEN = "anyone who can reach this address can read the page, the API and the metrics: "
_NEITHER = (
    f"{_OPEN}there is no login and no TLS; configure both with --web.config.file, listen on 127.0.0.1 behind a proxy "
    "with both, or restrict access with a firewall"
)
_NO_LOGIN = (
    f"{_OPEN}there is no login; add basic_auth_users, or client_auth_type: RequireAndVerifyClientCert, to the web "
    "configuration"
)
_NO_TLS = (
    "passwords and everything else travel over the network in clear: there is a login, but no TLS; add "
    "tls_server_config to the web configuration, or listen on 127.0.0.1"
)


def is_exposed(host: str) -> bool:
    return not ipaddress.ip_address(host.partition("%")[0]).is_loopback


def describe_exposure(config: WebConfig | None) -> str | None:
    """The warning for a listener that other machines can reach; None if there are both a login and TLS."""
    if config is None or not (config.needs_identity or config.tls):
        return _NEITHER
    if not config.needs_identity:
        return _NO_LOGIN
    return None if config.tls else _NO_TLS


ROUTES, CODE, FOUND = (
    ("routes", "routes come from the paths of your users' requests", "allow it with --routes-beyond-loopback"),
    ("code", "the names of functions and files say much about an application", "allow it with --code-beyond-loopback"),
    ("discover", "it shows servers of all users of this machine", "name your servers, and give --no-discover"),
)
"""What is opt-in: its flag, why not everybody may see it, and what else to do."""


def find_places(sockets: Sequence[socket.socket]) -> list[tuple[str, int]]:
    """Return the IP address and port of each listener, not of UNIX sockets: their permissions decide who connects."""
    return [listener.getsockname()[:2] for listener in sockets if listener.family != socket.AF_UNIX]


def resolve_places(addresses: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the IP address and port that `open_listener` would listen on, for each address. Raises ConfigError."""
    try:
        return [
            (str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]) if host else "::", port)
            for host, port in addresses
        ]
    except OSError as error:
        raise ConfigError(
            f"--web.listen-address: {', '.join(host for host, _ in addresses)}: {error.strerror}"
        ) from None


def refuse_exposed(what: tuple[str, str, str], places: Sequence[tuple[str, int]]) -> None:
    """Raise ConfigError if other machines can reach one of these addresses, where there is no login."""
    flag, why, otherwise = what
    for host, port in places:
        if is_exposed(host):
            raise ConfigError(
                f"--{flag}: other machines can reach {host}:{port}, where there is no login, and {why}; configure a "
                f"login with --web.config.file, listen on 127.0.0.1 behind a proxy with a login, or {otherwise}"
            )
