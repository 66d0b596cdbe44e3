"""Opens the sockets that the exporter listens on."""

from __future__ import annotations

import socket

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web import bounds


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises ConfigError with the address in its message."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if host and ":" not in host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        if not host and socket.has_dualstack_ipv6():
            listener = socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=bounds.BACKLOG
            )
        else:
            listener = socket.create_server((host, port), family=family, backlog=bounds.BACKLOG)
        # Connections inherit it. asyncio sets it only for sockets that know their protocol, which those of
        # create_server do not; without it, each answer on a kept connection waits 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        what = "is in use by another program" if error.errno == 98 else f"is not available ({error.strerror})"
        advice = "choose another address with --web.listen-address HOST:PORT"
        raise ConfigError(f"{host or '*'}:{port} {what}; {advice}") from None
