"""Slows clients that send wrong passwords, by their address. Keeps nothing else, and forgets within minutes."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable

FREE_FAILURES = 3
"""Wrong passwords in a row before a client must wait."""

LONGEST_WAIT = 30.0
"""Seconds; the wait doubles with each failure, from one second."""

FORGET_SECONDS = 300.0
"""Time without a failure after which a client begins anew."""

MOST_CLIENTS = 1024
"""Clients that are remembered; the one that failed longest ago is dropped first."""


def client_key(host: str) -> str:
    """The part of an IP address that stands for a client: an IPv6 network of 64 bits, as a host has that many
    addresses."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return host


class Throttle:
    """Counts failures by client."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures: dict[str, tuple[int, float]] = {}  # the latest failure last

    def seconds_to_wait(self, client: str) -> float:
        """How long this client must wait before its password is checked again; 0 for none."""
        count, last = self._failures.get(client, (0, 0.0))
        if count < FREE_FAILURES:
            return 0.0
        wait = min(LONGEST_WAIT, 2.0 ** min(count - FREE_FAILURES, 30))
        return max(0.0, last + wait - self._now())

    def record_failure(self, client: str) -> None:
        """Count a wrong password."""
        now = self._now()
        count, last = self._failures.pop(client, (0, now))
        if now - last > FORGET_SECONDS:
            count = 0
        self._failures[client] = (count + 1, now)
        while len(self._failures) > MOST_CLIENTS:
            del self._failures[next(iter(self._failures))]
