"""Runs an ASGI application behind the exporter's own protocol, on a free loopback port, in a thread."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from tools.support.real_uwsgi import wait_until
from uwsgi_headroom.web.bounds import KEEP_ALIVE_SECONDS
from uwsgi_headroom.web.connection_limits import LimitedProtocol
from uwsgi_headroom.web.connection_slots import ConnectionSlots


@contextlib.contextmanager
def limited_server(app: ASGIApp, connections: int = 8) -> Iterator[uvicorn.Server]:
    """Serves at most `connections` connections until the block ends."""
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_config=None,
        ws="none",
        http=functools.partial(LimitedProtocol, slots=ConnectionSlots(connections)),  # type: ignore[arg-type]
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, what="the server")
        yield server
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        assert not thread.is_alive(), "the server did not end"
