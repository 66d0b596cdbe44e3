"""Names the client of a request, so that clients can be treated evenly: its user on this machine, or its network.

An address alone is not enough: every local user may connect from any of the 16 million addresses of 127.0.0.0/8, and
from this machine's other addresses.
"""

from __future__ import annotations

import ipaddress
import socket
import struct

from uwsgi_headroom.kernel import sock_diag

_ESTABLISHED = 1  # include/net/tcp_states.h

# linux/inet_diag.h: family, protocol, extensions, pad, states, ports, source, destination, interface, cookie
_inet_diag_req_v2 = struct.Struct("=BBBBI2s2s16s16sIQ")
_inet_diag_msg = struct.Struct("=xB62xI4x")  # state and uid
_NO_COOKIE = (1 << 64) - 1

Address = tuple[str, int | None] | None
"""Host and port, as ASGI has them; None for a UNIX socket."""


def name_client(peer: Address, here: Address) -> str:
    """Name the client of a connection by its two addresses.

    A client on this machine is its user, whichever local address it has. Another one is its IPv4 address, or its IPv6
    network of 64 bits, as a host has that many addresses.
    """
    network = find_network(peer[0] if peer else "")
    try:
        return f"user {_ask_user(peer, here)}" if network else network
    except (OSError, struct.error, ValueError):  # no socket of this machine, or the kernel does not say
        return network


def find_network(host: str) -> str:
    """The part of an IP address that stands for a client; "" if it is none. All of loopback is one."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return "loopback"
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def _ask_user(peer: Address, here: Address) -> int:
    """The user id of the socket at the other end, which takes the kernel 0.05 ms. Raises OSError if there is none."""
    if not peer or not here or not peer[1] or not here[1]:
        raise OSError("no ports")
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    hosts = [host.partition("%")[0] for host, _ in (peer, here)]
    source, destination = [socket.inet_pton(family, host).ljust(16, b"\0") for host in hosts]
    ports = [port.to_bytes(2, "big") for port in (peer[1], here[1])]
    request = _inet_diag_req_v2.pack(
        family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF, *ports, source, destination, 0, _NO_COOKIE
    )
    payloads, _ = sock_diag.ask(request, dump=False)
    state, user = _inet_diag_msg.unpack_from(payloads[0])
    if state != _ESTABLISHED:  # the kernel has forgotten the user of a socket that is closed, and says 0
        raise OSError("the client has closed its socket")
    return int(user)
