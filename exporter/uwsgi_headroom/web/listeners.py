"""Opens the sockets that the exporter listens on, and logs their addresses."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from uwsgi_headroom import __version__
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.exposure import describe_exposure, is_exposed

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.live_config import LiveConfig

_log = logging.getLogger(__name__)


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises ConfigError with the address in its message."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if host and ":" not in host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        if not host and socket.has_dualstack_ipv6():
            listener = socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=bounds.LISTEN_QUEUE
            )
        else:
            listener = socket.create_server((host, port), family=family, backlog=bounds.LISTEN_QUEUE)
        return listener
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
