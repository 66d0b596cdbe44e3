"""Reloads the configuration while the exporter serves, at a SIGHUP.

A reload applies what is watched (servers, their objectives and ages of stuck requests, windows) and the log's level
and format. Other settings need a restart; the log names those that changed.

What SIGHUP means:

* If SIGHUP was ignored at start, as `nohup` does, it stays ignored.
* SIGHUP reloads if there is a configuration file or a service manager. But if the process had a terminal, and has lost
  it, the signal is that of the closed terminal, and ends the exporter.
* Otherwise SIGHUP ends the exporter, as SIGTERM does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from msgspec import structs

from uwsgi_headroom import logs
from uwsgi_headroom.config import precedence
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import PREFIX, SETTINGS, Config, Settings
from uwsgi_headroom.config.slo import refuse_too_short
from uwsgi_headroom.discover import discover_servers
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.service.systemd import ServiceManager
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import LastReload

_APPLIED = frozenset(
    {"servers", "settings", "log_level", "log_format", "windows", "slo", "stuck_seconds", "max_servers"}
)

_KEYS = {setting.field.rpartition(".")[2]: setting.key for setting in SETTINGS if setting.key}
"""The key in the configuration file of each setting, by its field."""

_log = logging.getLogger(__name__)

End = Callable[[int, FrameType | None], None]


class Reloader:
    """Reloads on request, one reload at a time, and tells the service manager. read: reads the settings again, in a
    thread; started: those with which the exporter started."""

    def __init__(
        self, read: Callable[[], Config], started: Config, fleet: Fleet, manager: ServiceManager, hangup: Hangup
    ) -> None:
        self._read, self._started, self._fleet, self._manager, self._hangup = read, started, fleet, manager, hangup
        self._requested = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def serving(self, end: End) -> None:
        """The exporter serves. end: handles a SIGHUP that ends the exporter."""
        self._manager.ready()
        self._running = asyncio.create_task(self.run(), name="reload")
        loop = asyncio.get_running_loop()

        def request() -> None:  # called in a signal handler, also when the event loop is closed
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.request)

        self._hangup.attach(end, request)

    def ending(self) -> None:
        """The exporter ends: no reload begins or goes on. May be called again."""
        if self._running:
            self._running.cancel()
        self._manager.stopping()

    def request(self) -> None:
        """Request a reload, one for several requests before it begins. Call this in the event loop."""
        self._requested.set()

    async def run(self) -> NoReturn:
        while True:
            await self._requested.wait()
            self._requested.clear()
            self._manager.reloading()
            self._manager.reloaded(await self.reload())

    async def reload(self) -> str:
        """Reload; returns why that failed, or "". After a failure everything stays as it was."""
        try:
            settings = await asyncio.to_thread(self._read)
            for slo in (settings.settings.slo, *(server.slo for server in settings.servers)):
                if slo:
                    refuse_too_short(slo, self._started.settings.samples_per_second)
            added, removed = await self._fleet.reconfigure(settings.servers, settings.settings)
        except HeadroomError as error:
            return self._fail(str(error))
        except Exception:  # noqa: BLE001 - a bug here must not end the exporter
            _log.exception("a bug in uwsgi-headroom: please report it")
            return self._fail("internal error")
        self._fleet.reload = LastReload(is_successful=True, succeeded_at=self._fleet.clock.epoch())
        logs.configure(settings.log_level, settings.log_format)
        if names := restart_needed(self._started, settings):
            _log.warning("some changes need a restart", extra={"fields": {"settings": " ".join(names)}})
        counts = {"servers": len(self._fleet.watches()), "added": added, "removed": removed}
        _log.info("the configuration is reloaded", extra={"fields": counts})
        return ""

    def _fail(self, reason: str) -> str:
        self._fleet.reload = structs.replace(self._fleet.reload, is_successful=False)
        message = "the configuration is not reloaded; the previous one stays in use"
        _log.error(message, extra={"fields": {"reason": reason}})
        return reason


def restart_needed(started: Config, read: Config) -> list[str]:
    """Return the keys of the settings that differ and that a reload does not apply, in the order of the model."""
    pairs: list[tuple[Config | Settings, Config | Settings]] = [(started, read), (started.settings, read.settings)]
    return [
        _KEYS.get(field.name, field.name)
        for before, after in pairs
        for field in fields(before)
        if field.name not in _APPLIED and getattr(before, field.name) != getattr(after, field.name)
    ]


class SettingsSource:
    """The flags, environment, configuration file and discovery that settings come from."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._found: tuple[ServerConfig, ...] = ()
        self._is_named = False
        self.needs_one = True

    @property
    def file(self) -> str:
        """Of the configuration file; "" without one."""
        return self._options.config or os.environ.get(f"{PREFIX}CONFIG", "")

    def read(self) -> Config:
        """Read the settings, without discovery. Raises ConfigError."""
        return precedence.resolve_config(self._options)

    def with_servers(self, settings: Config) -> Config:
        """Return the settings; if they name no server and no target of probes, with those that discovery finds: where
        others are looked for later, no other user's. Servers that were found before stay: one that restarts at this
        moment cannot be found. Raises HeadroomError if there is none, unless others are looked for later, or if some
        were named before."""
        if settings.servers or (settings.probe and settings.probe.targets):
            self._found, self._is_named = (), True
            return settings
        if self._is_named:  # the file is being written; an unwatched server would be down without an alert
            raise ConfigError("no server is named any more: if that is meant, restart the exporter")
        known = {server.address for server in self._found}
        try:
            found = [each for each in discover_servers(trusted=not self.needs_one) if each.address not in known]
            self._found += tuple(found)
        except HeadroomError:
            if self.needs_one and not self._found:
                raise
        return replace(settings, servers=self._found)

    def read_again(self) -> Config:
        """Read the settings with all servers, for a reload. Raises HeadroomError."""
        if self.file and Path(self.file).exists() and not Path(self.file).is_file():
            raise ConfigError(f"{self.file}: not a regular file, so it cannot be read again")
        return self.with_servers(self.read())


class Hangup:
    """Handles SIGHUP, from its making until the process ends. Made in the main thread.

    reloads: whether there is anything to reload. Until `attach`, a request to reload is kept.
    """

    def __init__(self, *, reloads: bool) -> None:
        self._reloads = reloads
        self._had_terminal = has_terminal()
        self._requested = False
        self._reload: Callable[[], None] | None = None
        self._end: End | None = None
        self._ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        if reloads and not self._ignored:
            signal.signal(signal.SIGHUP, self._handle)

    def attach(self, end: End, reload: Callable[[], None]) -> None:
        """Have SIGHUP call one of these from here on, in the signal handler; calls `reload` if a request was kept."""
        self._end, self._reload = end, reload
        if not self._ignored:
            signal.signal(signal.SIGHUP, self._handle)
        if self._requested:
            reload()

    def _handle(self, sig: int, frame: FrameType | None) -> None:
        if self._reloads and not (self._had_terminal and not has_terminal()):
            self._requested = True
            if self._reload:
                self._reload()
        elif self._end:
            self._end(sig, frame)
        else:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)


def has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
