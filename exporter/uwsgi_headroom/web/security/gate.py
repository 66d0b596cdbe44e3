"""Guards the whole application: the rate limit, the login and the configured headers, as ASGI middleware; and who may
read where servers are watched that nobody configured.

The login treats clients evenly. An address alone names no client: every local user may connect from any of the 16
million addresses of 127.0.0.0/8, and from this machine's other addresses. So a client on this machine is its user: the
kernel says which user has made the socket at the other end of a connection.
"""

from __future__ import annotations

import functools
import ipaddress
import math
import os
import pwd
import socket
import struct
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.web.host_check import LIVENESS
from uwsgi_headroom.web.security.live_config import LiveConfig
from uwsgi_headroom.web.security.tls_stream import TlsStream
from uwsgi_headroom.web.security.web_config_file import RateLimit, WebConfig

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.login import Decided, Login


_ESTABLISHED = 1  # include/net/tcp_states.h

_inet_diag_msg = struct.Struct("=xB62xI4x")  # state and uid

Address = tuple[str, int | None] | None
"""Host and port, as ASGI has them; None for a UNIX socket."""


def name_client(peer: Address, here: Address) -> str:
    """Name the client of a connection by its two addresses.

    A client on this machine is its user, whichever local address it has. Another one is its IPv4 address, or its IPv6
    network of 64 bits, as a host has that many addresses.
    """
    if not peer or not (network := find_network(peer[0])):
        return ""
    user = ask_user(peer, here)
    return network if user is None else f"user {user}"


def find_network(host: str) -> str:
    """The part of an IP address that stands for a client; "" if it is none. All of loopback is one."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return "loopback"
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def ask_user(peer: Address, here: Address) -> int | None:
    """The user id of the socket at the other end, which takes the kernel 0.05 ms; None if it is no socket of this
    machine, or if the kernel does not say."""
    if not peer or not here or not peer[1] or not here[1]:
        return None
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    ports = [port.to_bytes(2, "big") for port in (peer[1], here[1])]
    with suppress(OSError, struct.error, ValueError):
        packed = [socket.inet_pton(family, host.partition("%")[0]) for host, _ in (peer, here)]
        request = sock_diag.inet_request(family, 0xFFFFFFFF, ports, packed, cookie=sock_diag.NO_COOKIE)
        payloads, _ = sock_diag.ask(request, dump=False)
        state, user = _inet_diag_msg.unpack_from(payloads[0])
        if state == _ESTABLISHED:  # the kernel has forgotten the user of a socket that is closed, and says 0
            return int(user)
    return None


class RateLimiter:
    """Allows a burst of all clients' requests, then one in each interval: a token bucket, as the key `rate_limit` asks
    for."""

    def __init__(self) -> None:
        self._limit: RateLimit | None = None
        self._tokens, self._last = 0.0, 0.0

    def allows(self, limit: RateLimit) -> bool:
        """Whether one more request may be answered. With another limit than before, the bucket is full again."""
        now = time.monotonic()
        if limit != self._limit:
            self._limit, self._tokens = limit, float(limit.burst)
        else:
            self._tokens = min(float(limit.burst), self._tokens + (now - self._last) / limit.interval)
        self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


_CHALLENGE = 'Basic realm="uwsgi-headroom", charset="UTF-8"'

_SENTENCES = {
    HTTPStatus.UNAUTHORIZED: "401: a user name and a password are needed, or these are wrong.\n",
    HTTPStatus.TOO_MANY_REQUESTS: "429: too many requests or wrong passwords; retry with the same login.\n",
    HTTPStatus.SERVICE_UNAVAILABLE: "503: too many passwords wait to be checked; retry with the same login.\n",
}

_ADDED = (b"content-security-policy",)
"""Added beside the header of the same name that a response has already: browsers enforce both."""


class Gate:
    """Lets a request pass to `app` if the configuration in force allows it."""

    def __init__(self, app: ASGIApp, live: LiveConfig) -> None:
        self._app, self._live = app, live
        self._limiter = RateLimiter()
        self._login: Login | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # nothing else is served, so nothing else passes
            return
        config = self._live.config
        send = _with_headers(send, config.headers) if config.headers else send
        refusal = await self._refuse(config, scope)
        await (refusal or self._app)(scope, receive, send)

    async def _refuse(self, config: WebConfig, scope: Scope) -> ASGIApp | None:
        limit = config.rate_limit
        if limit and not self._limiter.allows(limit):
            return _respond(HTTPStatus.TOO_MANY_REQUESTS, limit.interval)
        if config.users:
            verdict = await self._judge(config, scope)
            if verdict.status != HTTPStatus.OK:
                return _respond(verdict.status, verdict.retry_after)
        return None

    async def _judge(self, config: WebConfig, scope: Scope) -> Decided:
        if self._login is None:
            from uwsgi_headroom.web.security.login import Login  # noqa: PLC0415 - needs bcrypt

            self._login = Login()
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return await self._login.judge(config.users, header, name_client(scope.get("client"), scope.get("server")))

    def close(self) -> None:
        """Answer the logins that wait with 503, because the exporter ends."""
        if self._login:
            self._login.close()


def _respond(status: HTTPStatus, retry_after: float) -> PlainTextResponse:
    headers = {"Cache-Control": "no-store"}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = _CHALLENGE
    else:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after)))
    return PlainTextResponse(_SENTENCES[status], status, headers)


def _with_headers(send: Send, headers: tuple[tuple[bytes, bytes], ...]) -> Send:
    replaced = {name for name, _ in headers if name not in _ADDED}

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [header for header in message.get("headers", ()) if header[0].lower() not in replaced]
            message = {**message, "headers": [*kept, *headers]}
        await send(message)

    return send_with_headers


def protect(application: ASGIApp, live: LiveConfig) -> tuple[Gate, Callable[[], TlsStream] | None]:
    """Return the application behind its gate, and what makes the TLS of a connection; None for plain HTTP."""
    live.follow()
    return Gate(application, live), functools.partial(TlsStream, live) if live.active.context else None


_NO_READER = (
    "403: this exporter watches the servers of all users (--discover), so it answers only root, its own user and the "
    "users of --web.readers.\nStart it with --web.readers NAME for another user, or set up a login with "
    "--web.config.file.\n"
)


def find_readers(names: Collection[str]) -> frozenset[int]:
    """The ids of these users, as far as they exist, of root, of this process, and of who started it with `sudo`."""
    users = {0, os.geteuid()}
    if os.geteuid() == 0:
        with suppress(ValueError):
            users.add(int(os.environ.get("SUDO_UID", "0")))
    for name in names:
        with suppress(KeyError):
            users.add(pwd.getpwnam(name).pw_uid)
    return frozenset(users)


class ReaderCheck:
    """ASGI middleware that responds 403 to all other users, because the kernel shows the exporter what other users may
    not see. Who connects to a UNIX socket is a matter of its permissions. Other machines are no users here: beyond
    loopback, servers are found only behind a login."""

    def __init__(self, app: ASGIApp, users: Collection[int]) -> None:
        self._app, self._users = app, users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] not in LIVENESS and not self._may_read(scope):
            app = PlainTextResponse(_NO_READER, 403, {"Cache-Control": "no-store"})
        await app(scope, receive, send)

    def _may_read(self, scope: Scope) -> bool:
        here = scope["server"]
        is_unix = here and here[1] is None
        return is_unix or ask_user(scope["client"], here) in self._users
