"""Refuses requests whose Host header is a foreign name: pages of that name must not read this exporter (DNS rebinding).

A web page can have its own name resolve to 127.0.0.1, and its scripts then read everything there as their own site. The
Host header still has that name. Metrics and probes are never checked: scrapers reach them by any name.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_UNCHECKED = frozenset({"/metrics", "/probe", "/-/healthy", "/-/ready"})

_REFUSAL = (
    "421: this exporter does not answer for the host name in this address, which could be a foreign site's (DNS "
    "rebinding).\nIf the name is yours, start the exporter with --web.allowed-hosts NAME, or use an IP address.\n"
)


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """Which names are answered for, beside IP addresses and localhost, and on which listeners others are refused.

    names: in lower case. listeners: host and port of those that are checked; None: all.
    """

    names: frozenset[str] = frozenset()
    listeners: frozenset[tuple[str, int]] | None = frozenset()

    def allows(self, host: str) -> bool:
        """Whether a Host header, with or without a port, names this exporter."""
        name = _without_port(host)
        return not host.strip() or name in self.names or _is_local(name) or _is_ip_address(name)

    def checks(self, listener: object) -> bool:
        """Whether requests that arrived at this local address, as ASGI's `server` has it, are checked."""
        return self.listeners is None or (isinstance(listener, (tuple, list)) and tuple(listener) in self.listeners)


def make_policy(allowed: Iterable[str], sockets: Iterable[socket.socket]) -> HostPolicy:
    """The policy of an exporter that listens on these sockets: loopback is checked, and all if names are `allowed`.

    Resolves nothing: a resolver may hang.
    """
    own = socket.gethostname().lower()
    names = frozenset({own, own.partition(".")[0], *(_without_port(name) for name in allowed)})
    addresses = (listener.getsockname()[:2] for listener in sockets)
    loopback = frozenset((host, port) for host, port in addresses if ipaddress.ip_address(host).is_loopback)
    return HostPolicy(names, None if allowed else loopback)


class HostCheck:
    """ASGI middleware that answers 421 where the policy does not allow the Host header. A missing one is allowed."""

    def __init__(self, app: ASGIApp, policy: HostPolicy) -> None:
        self._app, self._policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] not in _UNCHECKED and self._policy.checks(scope["server"]):
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            if not all(map(self._policy.allows, hosts)):
                app = PlainTextResponse(_REFUSAL, 421)
        await app(scope, receive, send)


def _without_port(host: str) -> str:
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def _is_local(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
