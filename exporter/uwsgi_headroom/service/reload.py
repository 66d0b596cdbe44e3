"""Reloads the configuration while the exporter serves.

A reload applies what is watched (servers, their objectives and ages of stuck requests, windows) and the log's level
and format. All other settings need a restart; if the file changes them, the log names them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import fields, replace
from typing import NoReturn

from uwsgi_headroom import logs
from uwsgi_headroom.config.settings import SETTINGS, Config, Settings
from uwsgi_headroom.config.slo import refuse_too_short
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.service.manager import ServiceManager
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import LastReload

_APPLIED = frozenset(
    {"servers", "settings", "log_level", "log_format", "windows", "slo", "stuck_seconds", "max_servers"}
)
_KEYS = {setting.field.rpartition(".")[2]: setting.key for setting in SETTINGS if setting.key}
"""The key in the configuration file of each setting, by its field in `Config` or `Settings`."""

_log = logging.getLogger(__name__)


class Reloader:
    """Reloads on request, one reload at a time. read: reads the settings again, in a thread; started: the settings with
    which the exporter started."""

    def __init__(self, read: Callable[[], Config], started: Config, fleet: Fleet, manager: ServiceManager) -> None:
        self._read = read
        self._started = started
        self._fleet = fleet
        self._manager = manager
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Request a reload; several requests before it begins lead to one. Call this in the event loop."""
        self._requested.set()

    async def run(self) -> NoReturn:
        """Reload at each request, until cancelled."""
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
        logs.adjust(settings.log_level, settings.log_format)
        if names := restart_needed(self._started, settings):
            _log.warning("some changes need a restart", extra={"fields": {"settings": " ".join(names)}})
        counts = {"servers": len(self._fleet.watches()), "added": added, "removed": removed}
        _log.info("the configuration is reloaded", extra={"fields": counts})
        return ""

    def _fail(self, reason: str) -> str:
        self._fleet.reload = replace(self._fleet.reload, is_successful=False)
        fields_of_line = {"reason": reason}
        _log.error("the configuration is not reloaded; the previous one stays in use", extra={"fields": fields_of_line})
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
