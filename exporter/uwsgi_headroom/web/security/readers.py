"""Answers only some users of this machine, where servers are watched that nobody configured: the kernel shows the
exporter what other users may not see.

The kernel says which user has made the socket at the other end of a connection. Who connects to a UNIX socket is a
matter of its permissions. Other machines are no users here: beyond loopback, servers are found only behind a login.
"""

from __future__ import annotations

import os
import pwd
import struct
from collections.abc import Collection
from contextlib import suppress

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from uwsgi_headroom.web.host_check import LIVENESS
from uwsgi_headroom.web.security.gate import ask_user

_REFUSAL = (
    "403: this exporter watches the servers of all users (--discover), so it answers root, its own user and those of "
    "--web.readers alone.\nStart it with --web.readers NAME for another user, or set up a login with "
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
    """ASGI middleware that responds 403 to all other users."""

    def __init__(self, app: ASGIApp, users: Collection[int]) -> None:
        self._app, self._users = app, users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] not in LIVENESS and not self._may_read(scope):
            app = PlainTextResponse(_REFUSAL, 403, {"Cache-Control": "no-store"})
        await app(scope, receive, send)

    def _may_read(self, scope: Scope) -> bool:
        here = scope["server"]
        if here and here[1] is None:  # a UNIX socket
            return True
        try:
            return ask_user(scope["client"], here) in self._users
        except (OSError, struct.error, ValueError):  # no socket of this machine, or the kernel does not say
            return False
