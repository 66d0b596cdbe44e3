"""Resolves host names, in threads that nothing waits for.

A resolver may hang for half a minute, and a call to it cannot be cancelled. asyncio's own executor has few threads,
and `asyncio.run` waits for them when it ends. So each lookup runs in its own daemon thread, one per host at a time.
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
    """The addresses of a host. Raises OSError. If the caller is cancelled, the lookup goes on for later callers."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:  # a name, not an IP address
        return await asyncio.wrap_future(_look_up(host, port))


def _look_up(host: str, port: int) -> Future[Sequence[AddressInfo]]:
    """The running lookup of this host, or a new one."""
    with _lock:
        lookup = _under_way.get((host, port))
        if lookup is None:
            lookup = _under_way[host, port] = Future()
            lookup.set_running_or_notify_cancel()  # now a cancelled caller cannot cancel the lookup
            threading.Thread(target=_run, args=(lookup, host, port), name=f"resolve {host}", daemon=True).start()
        return lookup


def _run(lookup: Future[Sequence[AddressInfo]], host: str, port: int) -> None:
    addresses: Sequence[AddressInfo] = ()
    failure: Exception | None = None
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except Exception as error:  # noqa: BLE001 - raised in every caller
        failure = error
    with _lock:
        del _under_way[host, port]
    if failure is None:
        lookup.set_result(addresses)
    else:
        lookup.set_exception(failure)
