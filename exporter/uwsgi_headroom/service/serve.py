"""Serves a fleet over HTTP until SIGINT or SIGTERM. `service` connects it with systemd and handles SIGHUP.

Both signals end the exporter in the same way, so no other code may handle them: `asyncio.run` would cancel its main
task on SIGINT, with all requests in progress. The handlers below are in place before the event loop
starts, and stay until it is closed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from uwsgi_headroom import logs
from uwsgi_headroom.config.defaults import LISTEN_HOST, LISTEN_PORT
from uwsgi_headroom.config.precedence import unknown_variables
from uwsgi_headroom.discover.find import list_uwsgis
from uwsgi_headroom.discover.follow import Finder
from uwsgi_headroom.kernel import aside
from uwsgi_headroom.kernel.host import wait_until_ready
from uwsgi_headroom.kernel.procfs import may_know_all
from uwsgi_headroom.service.reload import Hangup, Reloader, SettingsSource
from uwsgi_headroom.service.systemd import ServiceManager, take_sockets
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.globbed import NO_MEMORY, remember
from uwsgi_headroom.watch.probed import MOST_PROBED
from uwsgi_headroom.watch.tasks import supervise
from uwsgi_headroom.web import connection_slots, listeners
from uwsgi_headroom.web.app import create_application
from uwsgi_headroom.web.connection_slots import ConnectionLimits, RequestTurns
from uwsgi_headroom.web.host_check import HostPolicy, make_policy
from uwsgi_headroom.web.http_server import HttpServer
from uwsgi_headroom.web.shared_builds import EventStreams, SharedBuilds

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from uwsgi_headroom.config.settings import Config
    from uwsgi_headroom.web.security.gate import Gate
    from uwsgi_headroom.web.security.live_config import LiveConfig

_SHUTDOWN_SECONDS = 3

_log = logging.getLogger(__name__)

GARBAGE_THRESHOLDS = 20_000, 20, 20
"""For `gc.set_threshold`. Python's own collect after every 700 new objects, most of them of a response:
with a thousand servers that took a third of a scrape's CPU time."""

_SWITCH_SECONDS = 0.0002
"""For `sys.setswitchinterval`. After each system call, the event loop waits this long for Python's lock while another
thread computes: 5 ms by default. 200 clients then took 49 of 50 samples while predictions were computed."""


def run(options: argparse.Namespace) -> int:
    """Serve with the settings of these flags; without any server or target of probes, watch those found on this
    machine. Raises HeadroomError."""
    # Until it serves, Ctrl-C ends it at once, as SIGTERM does: asyncio could print a KeyboardInterrupt.
    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(0))
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # log rotation sends it to programs with a log file
    source = SettingsSource(options)
    hangup = Hangup(reloads=bool(source.file or os.environ.get("NOTIFY_SOCKET")))
    settings = source.read()
    logs.configure(settings.log_level, settings.log_format)
    if ignored := unknown_variables(os.environ):
        _log.warning("unknown environment variables are ignored", extra={"fields": {"names": " ".join(ignored)}})
    live = open_web_config(settings.web_config_file)
    discovers = may_discover(settings, live)
    source.needs_one = needs_one(settings, discovers=discovers)
    settings = source.with_servers(settings)
    sockets = _open_listeners(settings.listen)
    refuse = partial(refuse_exposure, listeners.find_places(sockets), live)
    refuse(settings)
    listeners.announce(sockets, live)
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    # Before the writer creates a file, which would be empty.
    memory = remember(Path(settings.history).absolute()) if settings.history else NO_MEMORY
    sys.setswitchinterval(_SWITCH_SECONDS)
    writer = None
    if settings.history:
        from uwsgi_headroom.store.writer import HistoryWriter  # noqa: PLC0415 - sqlite3 takes 1.4 MB

        writer = HistoryWriter(Path(settings.history).absolute(), settings.history_max_size)
    manager = ServiceManager(os.environ, os.getpid())
    wait_until_ready()
    fleet = Fleet(
        settings.servers,
        settings.settings,
        writer=writer,
        on_turn=manager.turned,
        probe=settings.probe,
        memory=memory,
        finder=Finder(connects=discovers),
    )
    reloader = Reloader(lambda: refuse(source.read_again()), settings, fleet, manager, hangup)
    readers = settings.readers if discovers and not has_login(live) else None
    serve_until_signal(fleet, sockets, settings.allowed_hosts, reloader, live, readers)
    return 0


def has_login(live: LiveConfig | None) -> bool:
    """Whether every answer needs a login."""
    return live is not None and live.config.needs_identity


def may_discover(settings: Config, live: LiveConfig | None) -> bool:
    """Whether to watch servers that are found: as the settings say, else if none is configured, and this takes neither
    another right nor a login. Raises ConfigError."""
    is_named = settings.servers or (settings.probe and settings.probe.targets)
    if settings.discover is not None or is_named or not may_know_all():
        return bool(settings.discover)
    places = listeners.resolve_places(settings.listen)
    return has_login(live) or not any(listeners.is_exposed(host) for host, _ in places)


def needs_one(settings: Config, *, discovers: bool) -> bool:
    """Whether not to serve unless a server with stats is found: none is named, and none is there."""
    return not (settings.discover or (discovers and any(True for _ in list_uwsgis())))


def refuse_exposure(places: Sequence[tuple[str, int]], live: LiveConfig | None, settings: Config) -> Config:
    """Return these settings. Raises ConfigError if they would show to other machines, without a login, what is opt-in
    and not for everybody. places: where the exporter listens."""
    if has_login(live):
        return settings
    watching = settings.settings
    if settings.discover:
        listeners.refuse_exposed(listeners.FOUND, places)
    if watching.routes and not settings.routes_beyond_loopback:
        listeners.refuse_exposed(listeners.ROUTES, places)
    if (watching.code or any(server.code for server in settings.servers)) and not settings.code_beyond_loopback:
        listeners.refuse_exposed(listeners.CODE, places)
    return settings


def _open_listeners(addresses: Sequence[tuple[str, int]]) -> list[socket.socket]:
    """Take the sockets that systemd passes; without any, open these addresses. Raises ConfigError."""
    passed = take_sockets(os.environ, os.getpid())
    if passed and tuple(addresses) != ((LISTEN_HOST, LISTEN_PORT),):
        _log.warning("systemd passes sockets, so --web.listen-address and web.listen_address are ignored")
    return passed or [listeners.open_listener(host, port) for host, port in addresses]


def open_web_config(path: str) -> LiveConfig | None:
    """Read the web configuration, None for no file. Raises ConfigError."""
    if not path:
        return None
    from uwsgi_headroom.web.security.live_config import LiveConfig  # noqa: PLC0415 - nothing is loaded without the flag

    return LiveConfig(Path(path).absolute())


def serve_until_signal(
    fleet: Fleet,
    sockets: list[socket.socket],
    allowed_hosts: Sequence[str] = (),
    reloader: Reloader | None = None,
    live: LiveConfig | None = None,
    readers: Collection[str] | None = None,
) -> None:
    """Serve a fleet on listening sockets until a signal. allowed_hosts: host names of the exporter that are not local.
    live: TLS and login; readers: the only users who get an answer, None for everybody.

    Returns after SIGINT. SIGTERM ends the process by that signal, so that the parent sees it, unless the parent had
    SIGTERM ignored; so does the SIGHUP of a closed terminal.
    """
    servers = len(fleet.watches()) + (MOST_PROBED if fleet.probed else 0)
    capacity = connection_slots.share_out(connection_slots.raise_soft_limit(), servers, len(sockets))
    exporter = _Exporter(fleet, capacity, make_policy(allowed_hosts), reloader, live, readers)
    terminate = signal.signal(signal.SIGTERM, exporter.handle_exit)
    signal.signal(signal.SIGINT, exporter.handle_exit)
    asyncio.run(exporter.run_until_signal(sockets))
    aside.end_all()
    signal.signal(signal.SIGTERM, terminate)
    if exporter.ended_by == signal.SIGTERM:
        logging.shutdown()  # not done when a signal ends the process
        signal.raise_signal(signal.SIGTERM)
    if exporter.ended_by == signal.SIGHUP:
        logging.shutdown()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGHUP)


class _Exporter:
    """Samples and serves a fleet. `ended_by`: the first signal, or 0."""

    def __init__(
        self,
        fleet: Fleet,
        capacity: ConnectionLimits,
        hosts: HostPolicy,
        reloader: Reloader | None,
        live: LiveConfig | None,
        readers: Collection[str] | None,
    ) -> None:
        self.ended_by = 0
        self._fleet = fleet
        self._reloader = reloader
        self._streams = EventStreams(capacity.streams)
        self._builds = SharedBuilds(fleet.clock, lambda: fleet.reload)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signalled = asyncio.Event()
        self._gate: Gate | None = None
        application: ASGIApp = create_application(fleet, self._streams, hosts, self._builds)
        make_tls = None
        if readers is not None:
            from uwsgi_headroom.web.security.gate import ReaderCheck, find_readers  # noqa: PLC0415 - seldom needed

            application = ReaderCheck(application, find_readers(readers))
        if live is not None:
            from uwsgi_headroom.web.security.gate import protect  # noqa: PLC0415

            application, make_tls = protect(application, live)
            self._gate = application
        self._http = HttpServer(RequestTurns(application), capacity, make_tls)

    async def run_until_signal(self, sockets: list[socket.socket]) -> None:
        """Sample and serve the fleet until a signal, which may have come earlier."""
        self._loop = asyncio.get_running_loop()
        suspend.between_reads(self._fleet.pause, self._fleet.resume)
        self._sampling = asyncio.create_task(supervise("fleet", self._fleet.run, self._fleet.restarts), name="sampling")
        try:
            await self._http.start(sockets)
            if self._reloader and not self.ended_by:
                self._reloader.serving(self.handle_exit)
            if not self.ended_by:
                await self._signalled.wait()
        finally:
            await self._end()

    def handle_exit(self, sig: int, _frame: FrameType | None) -> None:
        """Handle the first signal and ignore a second."""
        if self.ended_by:
            return
        self.ended_by = sig
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._signalled.set)

    async def _end(self) -> None:
        """End reads and streams, for which requests in progress wait, before these requests are waited for."""
        if self._reloader:
            self._reloader.ending()
        self._streams.close()
        self._sampling.cancel()
        await self._fleet.close()
        if self._gate:
            self._gate.close()
        try:
            await self._http.stop(_SHUTDOWN_SECONDS)
        finally:
            self._builds.close()
