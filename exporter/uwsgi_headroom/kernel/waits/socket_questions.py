"""Asks the kernel about connected sockets over netlink, in this thread's network namespace.

Any failure raises OSError or struct.error.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Collection

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.waits.socket_tables import InetSocket, InetSockets

# include/net/tcp_states.h
_ESTABLISHED, _SYN_SENT, _CLOSE, _CLOSE_WAIT, LISTEN = 1, 2, 7, 8, 10
_FIN_WAIT_1, _FIN_WAIT_2, _LAST_ACK, _CLOSING = 4, 5, 9, 11
_OPEN = sum(1 << state for state in (_ESTABLISHED, _SYN_SENT, _CLOSE_WAIT, _FIN_WAIT_1, _FIN_WAIT_2, _CLOSING))

# linux/inet_diag.h: as in sock_diag, with source port, destination port, source and destination address
_inet_diag_req_v2 = struct.Struct("=BBBBI48x")
_inet_diag_msg = struct.Struct("=BBBB2s2s16s16s12xIIIII")
_INODE = slice(_inet_diag_msg.size - 4, _inet_diag_msg.size)

# linux/unix_diag.h
_unix_diag_req = struct.Struct("=BBHIIIQ")
_unix_diag_msg = struct.Struct("=BBBBIQ")
UDIAG_SHOW_NAME, UDIAG_SHOW_PEER = 0x01, 0x04
UNIX_DIAG_NAME, UNIX_DIAG_PEER = 0, 2
_NO_COOKIE = (1 << 64) - 1


def ask_unix(inode: int) -> tuple[int, int, dict[int, bytes]] | None:
    """The type, the state and the attributes of a UNIX socket; None if there is none of this inode."""
    if not 0 < inode < 1 << 32:
        return None
    show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER
    request = _unix_diag_req.pack(socket.AF_UNIX, 0, 0, (1 << 32) - 1, inode, show, _NO_COOKIE)
    try:
        payloads, _ = sock_diag.ask(request, dump=False)
    except OSError as error:
        if error.errno == errno.ENOENT:  # no UNIX socket has this inode
            return None
        raise
    _, kind, state, _, _, _ = _unix_diag_msg.unpack_from(payloads[0])
    return kind, state, sock_diag.unix_attributes(payloads[0])


def ask_inet(family: int, protocol: int, inodes: Collection[int], end: float) -> InetSockets | None:
    """All listening sockets of a family and protocol, and the others with these inodes, as in
    `socket_tables.read_inet`."""
    found = InetSockets({}, [])
    states = _OPEN
    if protocol == socket.IPPROTO_TCP:
        payloads, is_cut = _dump(family, protocol, 1 << LISTEN, end)
        if is_cut:
            return None
        for row in map(_inet_diag_msg.unpack_from, payloads):
            found.listening[row[-1]] = row[4], row[6]
    else:
        states |= 1 << _CLOSE  # not connected
    payloads, _ = _dump(family, protocol, states, end)
    for payload in payloads:
        inode = int.from_bytes(payload[_INODE], "little")
        if inode in inodes:
            _, _, _, _, source_port, port, source, address, *_ = _inet_diag_msg.unpack_from(payload)
            found.others.append(InetSocket(inode, (source_port, source), (port, address)))
    return found


def _dump(family: int, protocol: int, states: int, end: float) -> tuple[list[bytes], bool]:
    """The sockets in these states, and whether the list is cut off at the monotonic time `end`."""
    request = _inet_diag_req_v2.pack(family, protocol, 0, 0, states)
    return sock_diag.ask(request, seconds=end - time.monotonic())
