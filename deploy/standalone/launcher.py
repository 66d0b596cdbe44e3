"""The entry point of the one-file program."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

from uwsgi_headroom.__main__ import main

_FOR_ONE_PROCESS = ("WATCHDOG_PID", "LISTEN_PID")


def take_over(environment: MutableMapping[str, str], pid: int, parent: int) -> None:
    """Makes what systemd has addressed to the process `parent` count for `pid`: its watchdog and its sockets.

    systemd starts PyInstaller's loader, which unpacks the program and runs it as its child.
    """
    for name in _FOR_ONE_PROCESS:
        if environment.get(name) == str(parent):
            environment[name] = str(pid)


if __name__ == "__main__":
    take_over(os.environ, os.getpid(), os.getppid())
    sys.exit(main())
