"""Connects a serving exporter with systemd and SIGHUP, from its start to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from uwsgi_headroom.service.hangup import End, Hangup
from uwsgi_headroom.service.manager import ServiceManager
from uwsgi_headroom.service.reload import Reloader


class Lifecycle:
    """Reports start and end to the service manager, and reloads on SIGHUP in between. Used in one event loop."""

    def __init__(self, manager: ServiceManager, reloader: Reloader, hangup: Hangup) -> None:
        self._manager = manager
        self._reloader = reloader
        self._hangup = hangup
        self._reloading: asyncio.Task[None] | None = None

    def serving(self, end: End) -> None:
        """The exporter serves. end: handles a SIGHUP that ends the exporter."""
        self._manager.ready()
        self._reloading = asyncio.create_task(self._reloader.run(), name="reload")
        self._hangup.attach(end, _in_loop(self._reloader.request))

    def ending(self) -> None:
        """The exporter ends: no reload begins or continues. May be called again."""
        if self._reloading:
            self._reloading.cancel()
        self._manager.stopping()


def _in_loop(request: Callable[[], None]) -> Callable[[], None]:
    """Make a function that may be called in a signal handler, also when the event loop is closed."""
    loop = asyncio.get_running_loop()

    def call() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(request)

    return call
