"""Exporters that send themselves signals, each at a different moment: just before the first call of a function.

`python -m tests.signalled FOLDER ARGUMENTS` runs them in parallel, forked from one process that has imported
everything. Each writes to `FOLDER/MOMENT SIGNALS.log`; their exit statuses are printed as JSON. As soon as an exporter
listens, clients request a stream and metrics: both requests are in progress at every later moment. Another client
connects as the exporter ends.
"""

import asyncio
import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from uwsgi_headroom import cli, source
from uwsgi_headroom.config import precedence
from uwsgi_headroom.service.reload import Reloader
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import listeners, metrics_route, request_head, shared_builds
from uwsgi_headroom.web.http_server import HttpConnection, HttpServer

MOMENTS: dict[str, tuple[Any, str]] = {
    "settings are resolved": (precedence, "resolve_config"),
    "a port is opened": (listeners, "open_listener"),
    "there is no event loop yet": (asyncio, "run"),
    "the event loop is made": (asyncio.events, "new_event_loop"),
    "the main task begins": (suspend, "between_reads"),
    "the server starts": (HttpServer, "start"),
    "the server has started": (Reloader, "serving"),
    "a client connects": (HttpConnection, "connection_made"),
    "a request arrives": (request_head, "parse"),
    "a stream begins": (shared_builds.EventStreams, "response"),
    "servers are observed": (Fleet, "observe"),
    "a server is read": (source, "read_document"),
    "an answer is made": (metrics_route, "render_family"),
    "the server ends": (HttpServer, "stop"),
    "the event loop is closed": (asyncio.SelectorEventLoop, "close"),
}

ENDING = ("the server ends", "the event loop is closed")
"""Moments that occur only after a signal at another moment."""

SIGNALS = {
    "SIGINT": (signal.SIGINT,),
    "SIGTERM": (signal.SIGTERM,),
    "SIGINT twice": (signal.SIGINT, signal.SIGINT),
    "SIGTERM and SIGINT": (signal.SIGTERM, signal.SIGINT),
}

HANGUPS = (
    "settings are resolved",
    "the event loop is made",
    "the server starts",
    "a server is read",
    "the server ends",
    "the event loop is closed",
)
"""Moments of a SIGHUP, of two at once, before SIGTERM."""

_HANGUP = (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM)

_SECONDS = 60  # then SIGALRM kills an exporter that has not ended

_clients: list[socket.socket] = []


def _call_first(where: Any, name: str, first: Callable[[], None]) -> None:
    """Patches a function so that its first call runs `first` before."""
    function = getattr(where, name)

    def call(*arguments: Any, **more: Any) -> Any:
        setattr(where, name, function)
        first()
        return function(*arguments, **more)

    setattr(where, name, call)


def _listen(host: str, port: int) -> socket.socket:
    listener = listen(host, port)
    address = listener.getsockname()
    _ask(address, "/api/v2/events")
    _ask(address, "/metrics")
    _call_first(Fleet, "close", lambda: _ask(address, "/metrics"))
    return listener


def _ask(address: tuple[str, int], path: str) -> None:
    client = socket.create_connection(address)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    _clients.append(client)


def _send(signals: Sequence[int]) -> None:
    for sign in signals:
        signal.raise_signal(sign)


def _run(moment: str, signals: Sequence[int], arguments: list[str], log: Path) -> int:
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    signal.alarm(_SECONDS)
    _call_first(*MOMENTS[moment], lambda: _send(signals))
    if moment in ENDING:
        _call_first(*MOMENTS["an answer is made"], lambda: _send([s for s in signals if s != signal.SIGHUP][:1]))
    return cli.main(arguments)


def _main(folder: str, *arguments: str) -> int:
    running = {}
    signals = {f"{moment} {name}": (moment, SIGNALS[name]) for moment, name in itertools.product(MOMENTS, SIGNALS)}
    signals |= {f"{moment} SIGHUP": (moment, _HANGUP) for moment in HANGUPS}
    for name, (moment, sent) in signals.items():
        running[name] = os.fork()
        if not running[name]:
            return _run(moment, sent, list(arguments), Path(folder) / f"{name}.log")
    statuses = {name: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for name, pid in running.items()}
    print(json.dumps(statuses))
    return 0


if __name__ == "__main__":
    listen, listeners.open_listener = listeners.open_listener, _listen
    sys.exit(_main(*sys.argv[1:]))
