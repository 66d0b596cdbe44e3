"""Takes listening sockets that systemd has opened for the exporter (sd_listen_fds(3))."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping

from uwsgi_headroom.errors import ConfigError

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
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    count = int(text)
    return [
        _take(descriptor, name)
        for descriptor, name in zip(range(first, first + count), names + [""] * count, strict=False)
    ]


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
