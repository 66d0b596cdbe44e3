"""Lists the connections that wait in listen queues, as the kernel's sock_diag describes them.

* TCP: a connection that no process has accepted is an established socket (or, if the client has closed its end, one in
  CLOSE_WAIT) with the inode 0. `tcp_info` has the time since its last data came. uWSGI has the kernel defer connections
  without data (TCP_DEFER_ACCEPT), so that is how long it has waited, unless more data came meanwhile; of a connection
  without data, it is the time since the handshake. There is no link from such a socket to its listener, but for the
  port and the address.
* UNIX: the kernel lists the inodes of the clients' sockets in the order of the queue, and no times. A client that has
  closed its socket has none: nobody waits any more. (One of TCP may have closed its sending end only.)

Only numbers that the kernel made (inodes and socket cookies) are kept; no address of a client is.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Callable, Sequence

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.sock_diag import Listener
from uwsgi_headroom.record import Waiting

MOST_LISTED = 1000
"""How many connections of a queue are listed. Of a longer queue the number is known, and the age of some of them."""

MOST_SECONDS = 0.02
"""How long a list of TCP sockets may take, in seconds. The kernel passes over all of them on the host: 0.8 ms with
few."""

MOST_TIME = 0.01
"""The share of a CPU that these lists may take; in between, the lengths of the queues are known."""

TCP_ESTABLISHED, TCP_CLOSE_WAIT = 1, 8  # include/net/tcp_states.h
INET_DIAG_INFO = 2  # linux/inet_diag.h
_request = struct.Struct("=BBBBI2s46x")  # inet_diag_req_v2: family, protocol, extensions, pad, states, source port
_address_and_cookie = struct.Struct("=8x16s20xQ")  # of inet_diag_msg: the source, and the cookie
_age = struct.Struct("=52xI")  # of linux/tcp.h, struct tcp_info: tcpi_last_data_recv, in milliseconds
_inodes = struct.Struct("=I")


class AcceptQueues:
    """Lists the connections in the queues of one server, at a bounded cost."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._tcp_not_before = -math.inf

    def may_list_tcp(self) -> bool:
        """Whether lists of TCP sockets have not taken more than their share of the CPU until now."""
        return self._clock() >= self._tcp_not_before

    def list_unix(self, listeners: Sequence[Listener]) -> Waiting | None:
        """The connections in the queues of UNIX listeners; None if the kernel does not list them. Each queue is in its
        order. Never raises."""
        found: list[tuple[int, float | None]] = []
        try:
            for listener in listeners:
                request = sock_diag.unix_diag_req.pack(
                    socket.AF_UNIX,
                    0,
                    0,
                    1 << sock_diag.TCP_LISTEN,
                    listener.inode,
                    sock_diag.UDIAG_SHOW_ICONS,
                    sock_diag.NO_COOKIE,
                )
                payloads, _ = sock_diag.ask(request, dump=False)
                clients = sock_diag.unix_attributes(payloads[0]).get(sock_diag.UNIX_DIAG_ICONS, b"")
                found += [(inode, None) for (inode,) in _inodes.iter_unpack(clients) if inode]
        except (OSError, struct.error, IndexError):  # a queue of thousands does not fit into the kernel's answer
            return None
        return Waiting(tuple(found)) if len(found) <= MOST_LISTED else None

    def list_tcp(self, listeners: Sequence[Listener]) -> Waiting | None:
        """The connections in the queues of TCP listeners of one name; None if the kernel does not list them. Never
        raises."""
        began = self._cpu_clock()
        found: dict[int, float] = {}
        is_complete = True
        try:
            for family, port, address in sorted({_place(listener) for listener in listeners}):
                states = 1 << TCP_ESTABLISHED | 1 << TCP_CLOSE_WAIT
                request = _request.pack(family, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0, states, port)
                payloads, is_cut = sock_diag.ask(request, seconds=MOST_SECONDS)
                is_complete &= not is_cut
                for payload in payloads:
                    found.update(_read_waiting(payload, address))
        except (OSError, struct.error):
            return None
        finally:
            spent = self._cpu_clock() - began
            self._tcp_not_before = max(self._clock(), self._tcp_not_before) + spent / MOST_TIME
        oldest = sorted(found.items(), key=lambda connection: -connection[1])
        return Waiting(tuple(oldest[:MOST_LISTED]), is_complete and len(oldest) <= MOST_LISTED)


def find_rivals(listeners: Sequence[Listener], every: Sequence[Listener]) -> bool:
    """Whether another TCP listener has the port of one of these, and might have connections that look like theirs.
    every: all TCP listeners of the network namespace."""
    own = {listener.inode for listener in listeners}
    others = [_place(listener) for listener in every if listener.inode not in own]
    for family, port, address in map(_place, listeners):
        is_any = not any(address)
        if any((family, port) == other[:2] and (is_any or address == other[2]) for other in others):
            return True
    return False


def _place(listener: Listener) -> tuple[int, bytes, bytes]:
    """The family of a TCP listener, its port and its address, as the kernel writes them."""
    family = socket.AF_INET6 if listener.family == "inet6" else socket.AF_INET
    host, _, port = listener.name.rpartition(":")
    return family, int(port).to_bytes(2, "big"), socket.inet_pton(family, host.strip("[]")).ljust(16, b"\0")


def _read_waiting(payload: bytes, address: bytes) -> dict[int, float]:
    """The cookie and the age in seconds of a connection to this address (all zeros: to any), if nobody has accepted
    it."""
    _, _, _, _, _, _, _, _, _, _, _, _, inode = sock_diag.inet_diag_msg.unpack_from(payload)
    if inode:
        return {}
    reached, cookie = _address_and_cookie.unpack_from(payload)
    info = sock_diag.attributes(payload, sock_diag.inet_diag_msg.size).get(INET_DIAG_INFO, b"")
    if len(info) < _age.size or (any(address) and reached != address):
        return {}
    return {cookie: _age.unpack_from(info)[0] / 1000}
