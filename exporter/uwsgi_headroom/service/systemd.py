"""Connects the exporter with systemd: reports its state, feeds the watchdog, and takes listening sockets.

* `ServiceManager` reports when the exporter serves, that its sampling goes on, and its state in a sentence. The
  messages go to the datagram socket at NOTIFY_SOCKET, a path or `@` and an abstract name (sd_notify(3)).
* `take_sockets` takes the sockets that a socket unit has opened (sd_listen_fds(3)).
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import socket
import stat
import time
from collections.abc import Mapping, Sequence

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.terminal_text import escape_text
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
        if seconds is not None:
            faulthandler.enable(file=_STANDARD_ERROR)  # the watchdog's SIGABRT then logs where each thread stands
            if seconds < LEAST_WATCHDOG_SECONDS:
                fields = {"seconds": f"{seconds:g}", "least": f"{LEAST_WATCHDOG_SECONDS:g}"}
                _log.warning("the watchdog's time is too short: raise WatchdogSec=", extra={"fields": fields})

    def ready(self) -> None:
        self._send(READY=1, STATUS=self._status())

    def turned(self, watches: Sequence[Watch]) -> None:
        """Report a completed turn of sampling these servers: feeds the watchdog."""
        self._servers = describe_servers(watches)
        state: dict[str, object] = {"WATCHDOG": 1} if self._has_watchdog else {}
        if self._status() != self._sent:
            state["STATUS"] = self._status()
        self._send(**state)

    def reloading(self) -> None:
        self._send(RELOADING=1, MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)

    def reloaded(self, problem: str) -> None:
        """Report the end of a reload. problem: why it failed; "" if it succeeded."""
        self._problem = problem
        self.ready()

    def stopping(self) -> None:
        """Report the exporter's end; nothing is sent afterwards."""
        self._send(STOPPING=1)
        self._stopping = True

    def _status(self) -> str:
        failed = self._problem and f"the configuration was not reloaded: {self._problem}"
        return "; ".join(filter(None, (self._servers, failed)))

    def _send(self, **state: object) -> None:
        if state and not self._stopping:
            self._sent = str(state.get("STATUS", self._sent))
            self._notifier.send(**state)


def describe_servers(watches: Sequence[Watch]) -> str:
    down = sum(watch.state == "down" for watch in watches)
    many = f"{len(watches)} server{'' if len(watches) == 1 else 's'} watched"
    return f"{many}, {down} cannot be read" if down else many


_MOST_DIGITS = 20  # of an unsigned number of 64 bits


def watchdog_seconds(environment: Mapping[str, str], pid: int) -> float | None:
    """Return the time within which the service manager expects the next sign of life of this process, in seconds; None
    if it expects none (sd_watchdog_enabled(3))."""
    text = environment.get("WATCHDOG_USEC", "")
    known = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) > 0
    if not known or environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    return int(text) / 1e6


class Notifier:
    """Sends messages to the datagram socket at an address; ignores addresses of other kinds.

    A message that the socket cannot take at once is lost, because the event loop must not wait.
    """

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address.startswith(("/", "@")):
            with contextlib.suppress(OSError):  # no descriptor is left
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def send(self, **state: object) -> None:
        """Send assignments as one message, such as `READY=1`."""
        lines = (f"{name}={escape_text(str(value))}" for name, value in state.items())
        if self._socket:
            with contextlib.suppress(OSError, ValueError):  # ValueError: an address with a zero byte
                self._socket.sendto("\n".join(lines).encode(errors="backslashreplace"), self._address)


FIRST_DESCRIPTOR = 3
"""The first descriptor that a service manager passes."""

_MOST_SOCKETS = 100

_FAMILIES = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)

_EXPECTED = "the socket unit needs ListenStream= with a TCP port or the path of a UNIX socket, and Accept=no"


def take_sockets(environment: Mapping[str, str], pid: int, first: int = FIRST_DESCRIPTOR) -> list[socket.socket]:
    """Return the sockets that were passed to the process `pid`; none if the variables are for another process.

    Raises ConfigError if one of them is not a listening TCP or UNIX stream socket.
    """
    if environment.get("LISTEN_PID") != str(pid):
        return []
    text = environment.get("LISTEN_FDS", "")
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_SOCKETS)) and int(text) <= _MOST_SOCKETS):
        raise ConfigError(f"LISTEN_FDS: {text!r} is not a number of sockets, 0 to {_MOST_SOCKETS}")
    names = environment.get("LISTEN_FDNAMES", "").split(":") + [""] * _MOST_SOCKETS
    return [_take(descriptor, name) for descriptor, name in enumerate(names[: int(text)], first)]


def _take(descriptor: int, name: str) -> socket.socket:
    where = f"LISTEN_FDS: descriptor {descriptor}" + (f" ({name})" if name else "")
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{where} is not a socket; {_EXPECTED}")
        taken = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror}") from None
    taken.set_inheritable(False)
    if (
        taken.family not in _FAMILIES
        or taken.type != socket.SOCK_STREAM
        or not taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    ):
        taken.detach()  # the descriptor is not ours to close
        raise ConfigError(f"{where} is not a listening TCP or UNIX stream socket; {_EXPECTED}")
    return taken
