"""What systemd learns of the exporter: when it serves, that its sampling goes on, and its state in a sentence."""

from __future__ import annotations

import faulthandler
import logging
from collections.abc import Mapping, Sequence

from uwsgi_headroom.service.notify import Notifier, monotonic_microseconds, watchdog_seconds
from uwsgi_headroom.watch.globbed import GLOB_SECONDS
from uwsgi_headroom.watch.watch import Watch

LEAST_WATCHDOG_SECONDS = 3 * GLOB_SECONDS
"""A shorter watchdog could end an exporter that is only slow: a turn of sampling takes GLOB_SECONDS."""

_STANDARD_ERROR = 2

_log = logging.getLogger(__name__)


class ServiceManager:
    """Notifies the service manager; without one, does nothing.

    environment: has NOTIFY_SOCKET and, with a watchdog, WATCHDOG_USEC and WATCHDOG_PID. pid: of this process.
    """

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        self._notifier = Notifier(environment.get("NOTIFY_SOCKET", ""))
        seconds = watchdog_seconds(environment, pid)
        self._has_watchdog = seconds is not None
        self._servers = self._problem = self._sent = ""
        self._stopping = False
        if self._has_watchdog:
            faulthandler.enable(file=_STANDARD_ERROR)  # SIGABRT from the watchdog then logs where each thread stands
        if seconds is not None and seconds < LEAST_WATCHDOG_SECONDS:
            fields = {"seconds": f"{seconds:g}", "least": f"{LEAST_WATCHDOG_SECONDS:g}"}
            _log.warning("the watchdog's time is too short: raise WatchdogSec=", extra={"fields": fields})

    @property
    def is_there(self) -> bool:
        """Whether a service manager listens."""
        return self._notifier.enabled

    def ready(self) -> None:
        """Report that the exporter serves."""
        self._send(READY=1, STATUS=self._status())

    def turned(self, watches: Sequence[Watch]) -> None:
        """Report a completed turn of sampling these servers: feeds the watchdog."""
        self._servers = describe_servers(watches)
        state: dict[str, object] = {"WATCHDOG": 1} if self._has_watchdog else {}
        if self._status() != self._sent:
            state["STATUS"] = self._status()
        self._send(**state)

    def reloading(self) -> None:
        """Report that the configuration is read again."""
        self._send(RELOADING=1, MONOTONIC_USEC=monotonic_microseconds())

    def reloaded(self, problem: str) -> None:
        """Report the end of a reload. problem: why it failed, shown until the next reload; "" if it succeeded."""
        self._problem = problem
        self.ready()

    def stopping(self) -> None:
        """Report that the exporter ends; nothing is sent afterwards."""
        self._send(STOPPING=1)
        self._stopping = True

    def _status(self) -> str:
        failed = f"the configuration was not reloaded: {self._problem}" if self._problem else ""
        return "; ".join(filter(None, (self._servers, failed)))

    def _send(self, **state: object) -> None:
        if state and not self._stopping:
            self._sent = str(state.get("STATUS", self._sent))
            self._notifier.send(**state)


def describe_servers(watches: Sequence[Watch]) -> str:
    """Say how many servers are watched, and how many of them cannot be read."""
    down = sum(watch.state == "down" for watch in watches)
    many = f"{len(watches)} server{'' if len(watches) == 1 else 's'} watched"
    return f"{many}, {down} cannot be read" if down else many
