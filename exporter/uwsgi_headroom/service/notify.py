"""Sends messages to the socket of a service manager, as described in sd_notify(3). No failure of it raises or waits.

The environment variable NOTIFY_SOCKET is the address of a datagram socket: a path, or `@` and an abstract name.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping

from uwsgi_headroom.terminal_text import escape_text

_MOST_DIGITS = 20  # of an unsigned number of 64 bits


class Notifier:
    """Sends messages to the datagram socket at an address; does nothing for "" and for addresses of other kinds.

    A message that the socket cannot take at once is lost, because the event loop must not wait.
    """

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address.startswith(("/", "@")):
            with contextlib.suppress(OSError):  # no descriptor is left
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    @property
    def enabled(self) -> bool:
        """Whether there is a socket to send to."""
        return self._socket is not None

    def send(self, **state: object) -> None:
        """Send assignments as one message, such as `READY=1`."""
        lines = (f"{name}={escape_text(str(value))}" for name, value in state.items())
        if self._socket:
            with contextlib.suppress(OSError, ValueError):  # ValueError: an address with a zero byte
                self._socket.sendto("\n".join(lines).encode(errors="backslashreplace"), self._address)


def monotonic_microseconds() -> int:
    """Return CLOCK_MONOTONIC in microseconds, as `MONOTONIC_USEC` needs it."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def watchdog_seconds(environment: Mapping[str, str], pid: int) -> float | None:
    """Return the time within which the service manager expects the next sign of life of this process, in seconds; None
    if it expects none (sd_watchdog_enabled(3))."""
    text = environment.get("WATCHDOG_USEC", "")
    known = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) > 0
    if not known or environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    return int(text) / 1e6
