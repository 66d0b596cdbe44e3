"""Refuses requests that a web page of another site causes.

A website can have its own name resolve to 127.0.0.1, so that its scripts can read everything there as their own site
(DNS rebinding). The Host header still contains that name. Metrics and health are not checked, since scrapers use any
name; `/probe` is, since it connects to the address that the request names.

Under its own name, such a page cannot read an answer, but its requests have answers built, as many as it likes.
Browsers mark these requests with `Sec-Fetch-Site` (Fetch Metadata, W3C), to https and to loopback. A link is no such
request: a person follows it, to one answer. `/probe` refuses links too.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LIVENESS = frozenset({"/-/healthy", "/-/ready"})
_UNCHECKED = LIVENESS | {"/metrics"}
_OWN_SITE = frozenset({b"none", b"same-origin"})
"""`none`: a person has typed the address or opened a bookmark. `same-site` is any other port of this host."""

_FROM_A_PAGE = (
    "403: a web page of another site caused this request, which is for scrapers and for this exporter's page\n"
)

_REFUSAL = (
    "421: this exporter does not accept the host name in this address, because the name could be a foreign site's (DNS "
    "rebinding).\nIf the name is yours, start the exporter with --web.allowed-hosts NAME, or use an IP address.\n"
)

_HOSTS_FILE = Path("/etc/hosts")


class HostPolicy(Struct, frozen=True):
    """The host names that are allowed besides IP addresses and localhost, in lower case.

    everywhere: whether all connections are checked, or only those that arrive at a loopback address.
    """

    names: frozenset[str] = frozenset()
    everywhere: bool = False

    def allows(self, host: str) -> bool:
        """Whether a Host header, with or without a port, names this exporter."""
        name = _without_port(host)
        is_local = name == "localhost" or name.endswith(".localhost")
        return not host.strip() or name in self.names or is_local or _parse_address(name) is not None

    def checks(self, arrived_at: object) -> bool:
        """Whether requests at this local address are checked. arrived_at: ASGI's `server`.

        A listener at 0.0.0.0 is checked at 127.0.0.1 too, where a foreign site can send the browsers of this machine.
        At its other addresses, scrapers and people use names that the exporter cannot know.
        """
        if self.everywhere or not isinstance(arrived_at, (tuple, list)):
            return self.everywhere
        address = _parse_address(str(arrived_at[0]))
        return address is not None and address.is_loopback


def make_policy(allowed: Iterable[str], hosts_file: Path = _HOSTS_FILE) -> HostPolicy:
    """Make the policy of an exporter with these allowed names: it checks all connections if there are any.

    This machine's own names are allowed. They are read from a file and not resolved, because a resolver may hang.
    """
    own = socket.gethostname().lower()
    given = frozenset(_without_port(name) for name in allowed)
    return HostPolicy(given | {own, own.partition(".")[0], *_loopback_names(hosts_file)}, everywhere=bool(given))


def _loopback_names(hosts_file: Path) -> Iterator[str]:
    """Yield the names that this machine has for its loopback addresses, such as Debian's `127.0.1.1 NAME`."""
    try:
        lines = hosts_file.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        host, *names = line.partition("#")[0].split() or [""]
        if (address := _parse_address(host)) and address.is_loopback:
            yield from (_without_port(name) for name in names)


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
        if scope["type"] == "http" and scope["path"] not in LIVENESS and _is_of_a_page(scope):
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


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address, as IPv4 if it is an IPv4 address in the form of IPv6; None for anything else."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
