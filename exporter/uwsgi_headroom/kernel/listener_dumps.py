"""Shares the kernel's list of listening sockets between servers that are read within a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from uwsgi_headroom.kernel import sock_diag

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from uwsgi_headroom.kernel.sock_diag import Family, Listener

MOST_TIME = 0.02
"""The share of a CPU that the lists of one family may take. A list of a small host takes 0.1 ms, so that each server
has its own; one of a host with 200 servers takes 2 ms."""

MOST_SHARED_SECONDS = 0.15
"""The longest age of a list that is used: less than the time between two samples of one server, unless that is set to
less than its default."""


class ListenerDumps:
    """The listening sockets of this network namespace, asked for once for all servers that are read together."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._last: dict[Family, tuple[float, dict[int, bytes]]] = {}  # each with the time until which it is used

    def list_listeners(self, family: Family, inodes: Collection[int] | None = None) -> list[Listener]:
        """As `sock_diag.list_listeners`; the queues are up to MOST_SHARED_SECONDS old. Raises `OSError`."""
        until, found = self._last.get(family, (float("-inf"), {}))
        if self._clock() >= until:
            at, began = self._clock(), self._cpu_clock()
            found = sock_diag.dump_listeners(family)
            took = self._cpu_clock() - began
            self._last[family] = at + min(MOST_SHARED_SECONDS, took / MOST_TIME), found
        return sock_diag.decode_listeners(family, found, inodes)

    def forget(self) -> None:
        """Ask again next time: sockets were opened since."""
        self._last.clear()
