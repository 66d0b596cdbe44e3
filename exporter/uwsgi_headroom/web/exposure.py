"""Says what other machines can read or overhear at a listener that they can reach, and refuses what they must not."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from uwsgi_headroom.errors import ConfigError

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.model import WebConfig

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
    """Whether other machines can reach a listener at this IP address, which may have a zone."""
    return not ipaddress.ip_address(host.partition("%")[0]).is_loopback


def describe_exposure(config: WebConfig | None) -> str | None:
    """The warning for a listener that other machines can reach; None if there are both a login and TLS."""
    if config is None or not (config.needs_identity or config.tls):
        return _NEITHER
    if not config.needs_identity:
        return _NO_LOGIN
    return None if config.tls else _NO_TLS


def refuse_exposed_routes(sockets: Sequence[socket.socket]) -> None:
    """Raise ConfigError if other machines can reach one of these listeners, which have no login: routes come from the
    paths of requests."""
    for listener in sockets:
        if listener.family == socket.AF_UNIX:
            continue  # its permissions decide who may connect
        host, port = listener.getsockname()[:2]
        if is_exposed(host):
            raise ConfigError(
                f"--routes: other machines can reach {host}:{port}, where there is no login, and routes come from the "
                "paths of your users' requests; configure a login with --web.config.file, listen on 127.0.0.1 behind "
                "a proxy with a login, or allow it with --routes-beyond-loopback"
            )
