"""Puts TLS and login in front of an application and of its connections, and follows the file that configures them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from starlette.types import ASGIApp

from uwsgi_headroom.web.connection_limits import LimitedProtocol
from uwsgi_headroom.web.connection_slots import ConnectionSlots
from uwsgi_headroom.web.security.gate import Gate
from uwsgi_headroom.web.security.live_config import LiveConfig
from uwsgi_headroom.web.security.tls_connection import TlsConnection


def protect(
    application: ASGIApp, slots: ConnectionSlots, live: LiveConfig
) -> tuple[Gate, Callable[..., asyncio.Protocol]]:
    """Return the application behind its gate, and the factory of protocols, for uvicorn's `http`."""
    live.follow()
    if live.active.context is None:
        return Gate(application, live), functools.partial(LimitedProtocol, slots=slots)
    return Gate(application, live), functools.partial(TlsConnection, live=live, slots=slots)
