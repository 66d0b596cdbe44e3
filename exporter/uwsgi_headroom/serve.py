"""Serves a fleet over HTTP until SIGINT or SIGTERM.

Both signals end the exporter in the same way at any moment, so no other code may handle them. `asyncio.run` would
cancel its main task on SIGINT, and uvicorn raises a signal again while the event loop still runs: both cancel requests
in flight, and each cancelled request logs a traceback. The handlers below are in place before the event loop starts,
and stay until it is closed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from uwsgi_headroom import __version__, logs
from uwsgi_headroom.config import precedence, variables
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.discover import discover_servers
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.probed import MOST_PROBED
from uwsgi_headroom.watch.supervise import supervise
from uwsgi_headroom.web import bounds, descriptors
from uwsgi_headroom.web.app import create_application
from uwsgi_headroom.web.connection_limits import LimitedProtocol
from uwsgi_headroom.web.connection_slots import ConnectionSlots
from uwsgi_headroom.web.descriptors import Capacity
from uwsgi_headroom.web.event_stream import EventStreams
from uwsgi_headroom.web.host_check import HostPolicy, make_policy

if TYPE_CHECKING:
    from uvicorn.server import Protocols

_SHUTDOWN_SECONDS = 3
_TURN_SECONDS = 0.05

_EXPOSED = (
    "anyone who can reach this address can read the page, the API and the metrics: there is no login and no TLS; "
    "listen on 127.0.0.1 behind a proxy with both, or restrict access with a firewall"
)

_log = logging.getLogger(__name__)


def run(options: argparse.Namespace) -> None:
    """Serve with the settings of these flags; without any server or target of probes, watch those found on this
    machine. Raises HeadroomError."""
    # Until the exporter serves, Ctrl-C ends it at once, as SIGTERM does: asyncio could print a KeyboardInterrupt.
    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(0))
    settings = precedence.resolve_config(options)
    logs.configure(settings.log_level, settings.log_format)
    if ignored := variables.unknown(os.environ):
        _log.warning("unknown environment variables are ignored", extra={"fields": {"names": " ".join(ignored)}})
    if not settings.servers and not (settings.probe and settings.probe.targets):
        settings = replace(settings, servers=discover_servers())
    sockets = [open_listener(host, port) for host, port in settings.listen]
    if settings.settings.routes and not settings.routes_beyond_loopback:
        _refuse_exposed_routes(sockets)
    for listener in sockets:
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        _log.info("listening", extra={"fields": {"url": url, "version": __version__}})
        if is_exposed(host):
            _log.warning(_EXPOSED, extra={"fields": {"url": url}})
    writer = HistoryWriter(Path(settings.history).absolute(), settings.history_max_size) if settings.history else None
    fleet = Fleet(settings.servers, settings.settings, writer=writer, probe=settings.probe)
    serve_until_signal(fleet, sockets, settings.allowed_hosts)


def _refuse_exposed_routes(sockets: Sequence[socket.socket]) -> None:
    """Raise ConfigError if other machines can reach one of the listeners: routes come from the paths of requests."""
    for listener in sockets:
        host, port = listener.getsockname()[:2]
        if is_exposed(host):
            raise ConfigError(
                f"--routes: other machines can reach {host}:{port}, where there is no login, and routes come from the "
                "paths of your users' requests; listen on 127.0.0.1 behind a proxy with a login, or allow it with "
                "--routes-beyond-loopback"
            )


def is_exposed(host: str) -> bool:
    """Whether other machines can reach a listener at this IP address, which may have a zone."""
    return not ipaddress.ip_address(host.partition("%")[0]).is_loopback


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises ConfigError with the address in its message."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if host and ":" not in host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=bounds.BACKLOG)
        return socket.create_server((host, port), family=family, backlog=bounds.BACKLOG)
    except OSError as error:
        what = "is in use by another program" if error.errno == 98 else f"is not available ({error.strerror})"
        advice = "choose another address with --web.listen-address HOST:PORT"
        raise ConfigError(f"{host or '*'}:{port} {what}; {advice}") from None


def serve_until_signal(fleet: Fleet, sockets: list[socket.socket], allowed_hosts: Sequence[str] = ()) -> None:
    """Serve a fleet on listening sockets until a signal. allowed_hosts: host names of the exporter that are not local.

    Returns after SIGINT. SIGTERM ends the process by that signal, so that the parent sees it, unless the parent had
    SIGTERM ignored.
    """
    servers = len(fleet.watches()) + (MOST_PROBED if fleet.probed else 0)
    capacity = descriptors.share_out(descriptors.raise_soft_limit(), servers, len(sockets))
    server = _Server(fleet, capacity, make_policy(allowed_hosts, sockets))
    terminate = signal.signal(signal.SIGTERM, server.handle_exit)
    signal.signal(signal.SIGINT, server.handle_exit)
    asyncio.run(server.run_until_signal(sockets))
    signal.signal(signal.SIGTERM, terminate)
    if server.ended_by == signal.SIGTERM:
        logging.shutdown()  # Python does not do this when a signal ends the process
        signal.raise_signal(signal.SIGTERM)


class _Server(uvicorn.Server):
    """Ends reads and streams before it waits for requests in flight, because those wait for reads and streams.

    Ticks once a second instead of ten times: ten ticks were a fifth of the exporter's CPU time without scrapes.
    `ended_by` is the first signal, 0 before any.
    """

    def __init__(self, fleet: Fleet, capacity: Capacity, hosts: HostPolicy) -> None:
        self.ended_by = 0
        self._fleet = fleet
        self._streams = EventStreams(capacity.streams)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signalled = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                create_application(fleet, self._streams, hosts),
                loop="asyncio",
                http=functools.partial(LimitedProtocol, slots=ConnectionSlots(capacity.connections)),  # type: ignore[arg-type]
                backlog=capacity.backlog,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="error",  # uvicorn warns of every request that is not HTTP: anyone could fill the log
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=bounds.KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )

    async def run_until_signal(self, sockets: list[socket.socket]) -> None:
        """Sample and serve the fleet until a signal. Ends at once if a signal came earlier."""
        self._loop = asyncio.get_running_loop()
        suspend.between_reads(self._fleet.pause, self._fleet.resume)
        self._sampling = asyncio.create_task(supervise("fleet", self._fleet.run, self._fleet.restarts), name="sampling")
        try:
            await self.serve(sockets=sockets)
        finally:
            await self._stop_reading()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signals to `serve_until_signal`."""
        return contextlib.nullcontext()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle the first signal and ignore a second, on which uvicorn would cancel the requests it waits for."""
        if self.ended_by:
            return
        self.ended_by = sig
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._signalled.set)

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # also sets the Date header of responses
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._signalled.wait(), 1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._stop_reading()
        late = asyncio.create_task(self._end_late_connections(set(self.server_state.connections)), name="ending")
        try:
            await super().shutdown(sockets)
        finally:
            late.cancel()

    async def _end_late_connections(self, ended: set[Protocols]) -> None:
        """End connections that the event loop had accepted but uvicorn had not seen when it ended the others."""
        while True:
            await asyncio.sleep(_TURN_SECONDS)
            for connection in self.server_state.connections - ended:
                ended.add(connection)
                connection.shutdown()

    async def _stop_reading(self) -> None:
        self._streams.close()
        self._sampling.cancel()
        await self._fleet.close()
