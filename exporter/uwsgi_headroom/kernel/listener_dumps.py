"""Shares the kernel's list of listening sockets between servers that are read within a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from uwsgi_headroom.kernel import sock_diag

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from uwsgi_headroom.kernel.sock_diag import Family, Listener

SHARED_SECONDS = 0.02
"""How long a list is used, in seconds: less than the time between two samples of one server. The list of a host with
hundreds of servers is long, and each of them would ask for it."""


class ListenerDumps:
    """The listening sockets of this network namespace, asked for once for all servers that are read together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[Family, tuple[float, dict[int, bytes]]] = {}

    def list_listeners(self, family: Family, inodes: Collection[int] | None = None) -> list[Listener]:
        """As `sock_diag.list_listeners`; the queues are up to SHARED_SECONDS old. Raises `OSError`."""
        at, found = self._last.get(family, (float("-inf"), {}))
        if self._clock() - at > SHARED_SECONDS:
            found = sock_diag.dump_listeners(family)
            self._last[family] = self._clock(), found
        return sock_diag.decode_listeners(family, found, inodes)

    def forget(self) -> None:
        """Ask again next time: sockets were opened since."""
        self._last.clear()
