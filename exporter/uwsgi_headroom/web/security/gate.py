"""ASGI middleware around the whole application: the rate limit, the login, and the configured headers."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from uwsgi_headroom.web.security.clients import name_client
from uwsgi_headroom.web.security.live_config import LiveConfig
from uwsgi_headroom.web.security.model import WebConfig
from uwsgi_headroom.web.security.rate_limiter import RateLimiter

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.login import Login
    from uwsgi_headroom.web.security.login_queue import Verdict

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
        if not self._limiter.allows(config.rate_limit):
            return _respond(
                HTTPStatus.TOO_MANY_REQUESTS, math.ceil(config.rate_limit.interval if config.rate_limit else 1)
            )
        if not config.users:
            return None
        verdict = await self._judge(config, scope)
        return None if verdict.status == HTTPStatus.OK else _respond(verdict.status, math.ceil(verdict.retry_after))

    async def _judge(self, config: WebConfig, scope: Scope) -> Verdict:
        if self._login is None:
            from uwsgi_headroom.web.security.login import Login  # noqa: PLC0415 - needs bcrypt

            self._login = Login()
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return await self._login.judge(config.users, header, name_client(scope.get("client"), scope.get("server")))

    def close(self) -> None:
        """Answer the logins that wait with 503, because the exporter ends."""
        if self._login:
            self._login.close()


def _respond(status: HTTPStatus, retry_after: int) -> PlainTextResponse:
    headers = {"Cache-Control": "no-store"}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = _CHALLENGE
    else:
        headers["Retry-After"] = str(max(1, retry_after))
    return PlainTextResponse(_SENTENCES[status], status, headers)


def _with_headers(send: Send, headers: tuple[tuple[bytes, bytes], ...]) -> Send:
    replaced = {name for name, _ in headers if name not in _ADDED}

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [header for header in message.get("headers", ()) if header[0].lower() not in replaced]
            message = {**message, "headers": [*kept, *headers]}
        await send(message)

    return send_with_headers
