"""Resolves host names, in threads that nothing waits for.

A resolver may hang for half a minute, and a call of it cannot be ended. The threads of asyncio's own executor are few,
and `asyncio.run` waits for them at its end; so each host has a daemon thread of its own, one at a time.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]

_under_way: dict[tuple[str, int], Future[Sequence[AddressInfo]]] = {}
_lock = threading.Lock()


async def resolve_host(host: str, port: int) -> Sequence[AddressInfo]:
    """The addresses of a host. Raises OSError. A caller that is cancelled leaves the lookup to those after it."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:  # a name, and no number
        return await asyncio.wrap_future(_look_up(host, port))


def _look_up(host: str, port: int) -> Future[Sequence[AddressInfo]]:
    """The lookup of this host that is under way, or else a new one."""
    with _lock:
        lookup = _under_way.get((host, port))
        if lookup is None:
            lookup = _under_way[host, port] = Future()
            lookup.set_running_or_notify_cancel()  # from now on a caller that is cancelled does not cancel it
            threading.Thread(target=_run, args=(lookup, host, port), name=f"resolve {host}", daemon=True).start()
        return lookup


def _run(lookup: Future[Sequence[AddressInfo]], host: str, port: int) -> None:
    addresses: Sequence[AddressInfo] = ()
    failure: Exception | None = None
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except Exception as error:  # noqa: BLE001 - it is raised to the callers
        failure = error
    with _lock:
        del _under_way[host, port]
    if failure is None:
        lookup.set_result(addresses)
    else:
        lookup.set_exception(failure)
