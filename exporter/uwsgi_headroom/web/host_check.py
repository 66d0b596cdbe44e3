"""Refuses requests that a web page of another site causes.

A website can have its own name resolve to 127.0.0.1, so that its scripts can read everything there as their own site
(DNS rebinding). The Host header still contains that name. Metrics and health are not checked, since scrapers use any
name; `/probe` is, since it connects to the address that the request names.

Without that, a page cannot read an answer, but its requests have answers built, as many as it likes. Browsers say so in
`Sec-Fetch-Site` (Fetch Metadata, W3C), to https and to loopback. A link is no such request: a person follows it, to one
answer. `/probe` refuses those too.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_UNCHECKED = frozenset({"/metrics", "/-/healthy", "/-/ready"})

_LIVENESS = frozenset({"/-/healthy", "/-/ready"})
_OWN_SITE = frozenset({b"none", b"same-origin"})
"""`none`: a person has typed the address or opened a bookmark. `same-site` is any other port of this host."""

_FROM_A_PAGE = (
    "403: a web page of another site caused this request, which is for scrapers and for this exporter's page\n"
)

_REFUSAL = (
    "421: this exporter does not accept the host name in this address, because the name could be a foreign site's (DNS "
    "rebinding).\nIf the name is yours, start the exporter with --web.allowed-hosts NAME, or use an IP address.\n"
)


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The host names that are allowed besides IP addresses and localhost, and the listeners that refuse other names.

    names: in lower case. listeners: host and port of each listener that is checked; None: all listeners.
    """

    names: frozenset[str] = frozenset()
    listeners: frozenset[tuple[str, int]] | None = frozenset()

    def allows(self, host: str) -> bool:
        """Whether a Host header, with or without a port, names this exporter."""
        name = _without_port(host)
        return not host.strip() or name in self.names or _is_local(name) or _is_ip_address(name)

    def checks(self, listener: object) -> bool:
        """Whether requests to this local address, in the form of ASGI's `server`, are checked."""
        return self.listeners is None or (isinstance(listener, (tuple, list)) and tuple(listener) in self.listeners)


def make_policy(allowed: Iterable[str], sockets: Iterable[socket.socket]) -> HostPolicy:
    """Make the policy of an exporter with these sockets: it checks loopback, or all of them if `allowed` has names.

    Resolves no names, because a resolver may hang.
    """
    own = socket.gethostname().lower()
    names = frozenset({own, own.partition(".")[0], *(_without_port(name) for name in allowed)})
    addresses = (listener.getsockname()[:2] for listener in sockets if listener.family != socket.AF_UNIX)
    loopback = frozenset((host, port) for host, port in addresses if ipaddress.ip_address(host).is_loopback)
    return HostPolicy(names, None if allowed else loopback)


class HostCheck:
    """ASGI middleware that responds 421 if the policy does not allow the Host header, and 403 to requests of a foreign
    page. A missing header is allowed."""

    def __init__(self, app: ASGIApp, policy: HostPolicy) -> None:
        self._app, self._policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] not in _UNCHECKED and self._policy.checks(scope["server"]):
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            if not all(map(self._policy.allows, hosts)):
                app = PlainTextResponse(_REFUSAL, 421)
        if scope["type"] == "http" and scope["path"] not in _LIVENESS and _is_of_a_page(scope):
            app = PlainTextResponse(_FROM_A_PAGE, 403, {"Cache-Control": "no-store"})
        await app(scope, receive, send)


def _is_of_a_page(scope: Scope) -> bool:
    """Whether a page of another site caused a request, and no person who followed a link."""
    headers = dict(scope["headers"])
    if headers.get(b"sec-fetch-site", b"none") in _OWN_SITE:
        return False
    is_prefetched = b"sec-purpose" in headers  # a page may have fifty links prefetched, which nobody follows
    is_page = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    is_link = is_page and not is_prefetched
    return not is_link or scope["path"] == "/probe"


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
