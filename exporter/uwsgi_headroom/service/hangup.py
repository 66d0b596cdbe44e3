"""Decides what SIGHUP means: read the configuration again, or end with the terminal.

* If SIGHUP was ignored at start, as `nohup` does, it stays ignored.
* SIGHUP reloads if there is a configuration file or a service manager. But if the process had a terminal, and has lost
  it, the signal is that of the closed terminal, and ends the exporter.
* Otherwise SIGHUP ends the exporter, as SIGTERM does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

End = Callable[[int, FrameType | None], None]


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
    """Whether this process has a controlling terminal that is open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
