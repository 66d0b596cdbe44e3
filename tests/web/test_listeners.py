"""The sockets that the exporter listens on."""

from __future__ import annotations

import socket

import pytest
from starlette.responses import PlainTextResponse

from tests.support.real_uwsgi import wait_until
from tests.support.web_server import limited_server
from uwsgi_headroom.web.listeners import open_listener


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "systemd"])
def test_answers_do_not_wait_for_acknowledgements(host: str) -> None:
    """An answer may be several segments: with Nagle's algorithm, the second one waits for the client's delayed ACK.
    Sockets that systemd has opened do not have the option."""
    listener = socket.create_server(("127.0.0.1", 0)) if host == "systemd" else open_listener(host, 0)
    with (
        limited_server(PlainTextResponse("ok"), listener=listener) as server,
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        wait_until(lambda: server.connections, what="the connection")
        (connection,) = server.connections
        accepted = connection._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
