"""Puts TLS and login in front of an application, and follows the file that configures them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from starlette.types import ASGIApp

from uwsgi_headroom.web.security.gate import Gate
from uwsgi_headroom.web.security.live_config import LiveConfig
from uwsgi_headroom.web.security.tls_stream import TlsStream


def protect(application: ASGIApp, live: LiveConfig) -> tuple[Gate, Callable[[], TlsStream] | None]:
    """Return the application behind its gate, and what makes the TLS of a connection; None for plain HTTP."""
    live.follow()
    return Gate(application, live), functools.partial(TlsStream, live) if live.active.context else None
