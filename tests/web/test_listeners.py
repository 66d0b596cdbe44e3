"""The sockets that the exporter listens on."""

from __future__ import annotations

import socket

import pytest

from uwsgi_headroom.web.listeners import open_listener


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_answers_do_not_wait_for_acknowledgements(host: str) -> None:
    """Head and body are two segments: with Nagle's algorithm, the second one waits for the client's delayed ACK."""
    with (
        open_listener(host, 0) as listener,
        socket.create_connection(("127.0.0.1", listener.getsockname()[1])),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
