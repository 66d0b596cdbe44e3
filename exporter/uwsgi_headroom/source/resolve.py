"""Resolves host names, in threads that nothing waits for, and refuses names that lead to this machine.

A resolver may hang for half a minute, and a call to it cannot be cancelled. asyncio's own executor has few threads,
and `asyncio.run` waits for them when it ends. So each lookup runs in its own daemon thread, one per host at a time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from uwsgi_headroom.errors import SourceError

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


_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")

_METADATA = frozenset(map(ipaddress.ip_address, ("fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")))
"""Metadata services outside the link-local network, of Google, Alibaba, Microsoft and Oracle."""

_AMAZON = ipaddress.ip_network("fd00:ec2::/32")
"""Amazon's services for an instance: metadata (`::254`), credentials of pods (`::23`), name server (`::253`)."""


def refuse_local(addresses: Sequence[AddressInfo]) -> Sequence[AddressInfo]:
    """Return the addresses of a name. Raises SourceError if any of them is not an ordinary address of another host.

    A name in an address that a client of the exporter gave (`/probe`) is resolved by somebody else: its owner may let
    it lead to this machine itself, or to the metadata service of a cloud, whose answers hold credentials. The addresses
    that are checked here are those that are then connected to: no second lookup can change them.
    """
    if any(_is_refused(sockaddr[0]) for *_, sockaddr in addresses):
        raise SourceError(
            "unreachable",
            "the name leads to an address that a name may not lead to in a probe (loopback, link-local, multicast, "
            "reserved or tunnelled): give the IP address itself, and allow it in `probe.targets`",
        )
    return addresses


def _is_refused(text: str) -> bool:
    """Whether an IP address, which may have a zone, is special. IPv4 in IPv6 is: mapped, NAT64, 6to4 and Teredo."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped or address.sixtofour or address.teredo or address in _AMAZON:
            return True
    elif address in _THIS_NETWORK:
        return True
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address.is_reserved
        or address in _METADATA
    )
