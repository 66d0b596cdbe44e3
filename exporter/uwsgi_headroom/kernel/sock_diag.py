"""How full every listen queue of this network namespace is, asked of the kernel over netlink.

One request, one dump: what `ss -xlt` does. The rules that live here are the layouts of linux/netlink.h,
sock_diag.h, unix_diag.h and inet_diag.h; constants keep the names they have there. No privilege is needed.
For a listening socket the kernel gives the connections waiting to be accepted as `rqueue` and the limit as
`wqueue`; the limit is the backlog that was asked for or net.core.somaxconn, whichever is less.

What fails is an `OSError` whose text is a sentence for operators, to be shown as the reason.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

Family = Literal["unix", "inet", "inet6"]


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening stream socket.

    `name` is what it was bound to: a path exactly as given to bind (relative ones too), `@name` if
    abstract, `127.0.0.1:3031`, `[::1]:3031`. `queue` is in connections and may exceed `limit` by one: the
    kernel refuses a connection when the queue is longer than the limit, not when it is as long.
    """

    inode: int
    family: Family
    name: str
    queue: int
    limit: int


def list_listeners(family: Family, inodes: Container[int] | None = None) -> list[Listener]:
    """The listening stream sockets of a family in this process's network namespace. Raises `OSError`.

    All of them, or those with the given inodes, which spares most of the work on a host with hundreds.
    """
    request, decode = _FAMILIES[family]
    try:
        payloads, interrupted = _ask(request)
        if interrupted:
            # Sockets came and went while the kernel listed them: one may be missing. Once more, and no
            # further: each entry is true by itself, and on a host that busy a third dump would be no
            # better.
            payloads, _ = _ask(request)
        return [listener for payload in payloads if (listener := decode(payload, inodes))]
    except (OSError, struct.error) as error:
        raise OSError(_sentence(error)) from error


def inet_name(host: str, port: int) -> str | None:
    """The `Listener.name` of a TCP socket bound to a numeric address; None if `host` is not one.

    As lenient as inet_addr(3), through which uWSGI binds: `127.1` is 127.0.0.1. No host at all is 0.0.0.0.
    """
    try:
        if ":" in host:
            return f"[{socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, host))}]:{port}"
        return f"{socket.inet_ntoa(socket.inet_aton(host or '0.0.0.0'))}:{port}"  # noqa: S104  # names, binds not
    except OSError:
        return None


# linux/netlink.h
NETLINK_SOCK_DIAG = 4
NLM_F_REQUEST, NLM_F_DUMP_INTR, NLM_F_DUMP = 0x01, 0x10, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
_nlmsghdr = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_nlattr = struct.Struct("=HH")  # length, type
_errno = struct.Struct("=i")

# linux/sock_diag.h; include/net/tcp_states.h
SOCK_DIAG_BY_FAMILY = 20
TCP_LISTEN = 10

# linux/unix_diag.h
UDIAG_SHOW_NAME, UDIAG_SHOW_RQLEN = 0x01, 0x10
UNIX_DIAG_NAME, UNIX_DIAG_RQLEN = 0, 4
_unix_diag_req = struct.Struct("=BBHIIIQ")  # family, protocol, pad, states, inode, show, cookie
_unix_diag_msg = struct.Struct("=BBBBIQ")  # family, type, state, pad, inode, cookie
_unix_diag_rqlen = struct.Struct("=II")

# linux/inet_diag.h. A sockid is ports (big endian), source, destination, interface, cookie: 48 bytes
_inet_diag_req_v2 = struct.Struct("=BBBBI48x")  # family, protocol, extensions, pad, states, sockid
# The message: family, state, timer, retransmits, sockid, expires, rqueue, wqueue, uid, inode
_inet_diag_msg = struct.Struct("=BBBB2s2x16s16x12xIIIII")

RECEIVE_BYTES = 32 << 10  # NLMSG_GOODSIZE for dumps: the kernel never makes a larger part (af_netlink.c)
TIMEOUT_SECONDS = 0.2  # a dump is made inside our own system calls; this is for kernels that are not Linux


def _ask(request: bytes) -> tuple[list[bytes], bool]:
    """The payloads one dump request is answered with, and whether the kernel calls the dump inconsistent."""
    header = _nlmsghdr.pack(_nlmsghdr.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
    payloads: list[bytes] = []
    interrupted = False
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(TIMEOUT_SECONDS)
        kernel.send(header + request)
        while True:
            datagram, _, flags, _ = kernel.recvmsg(RECEIVE_BYTES)
            if flags & socket.MSG_TRUNC:
                raise OSError(errno.EMSGSIZE, "a part of the answer was cut off")
            for kind, kind_flags, payload in _messages(datagram):
                interrupted = interrupted or bool(kind_flags & NLM_F_DUMP_INTR)
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    _raise_if_failed(payload)
                    return payloads, interrupted
                payloads.append(payload)


def _messages(datagram: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The netlink messages in one datagram: type, flags, payload."""
    offset = 0
    while offset + _nlmsghdr.size <= len(datagram):
        length, kind, flags, _, _ = _nlmsghdr.unpack_from(datagram, offset)
        if not _nlmsghdr.size <= length <= len(datagram) - offset:
            raise OSError(errno.EBADMSG, "a part of the answer was cut off")
        yield kind, flags, datagram[offset + _nlmsghdr.size : offset + length]
        offset += _aligned(length)


def _raise_if_failed(payload: bytes) -> None:
    """Both NLMSG_ERROR and NLMSG_DONE open with 0 or a negative errno."""
    (code,) = _errno.unpack_from(payload)
    if code < 0:
        raise OSError(-code, os.strerror(-code))


def _sentence(error: OSError | struct.error) -> str:
    """What an operator can do about it."""
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EAFNOSUPPORT:
        return "netlink is forbidden to the exporter: in systemd, add AF_NETLINK to RestrictAddressFamilies="
    if code in (errno.EPERM, errno.EACCES):
        return "a security policy (seccomp, SELinux, AppArmor) forbids the exporter netlink: allow AF_NETLINK"
    if code in (errno.ENOENT, errno.EPROTONOSUPPORT, errno.EINVAL):
        return "this kernel cannot list listening sockets: load the modules unix_diag, inet_diag and tcp_diag"
    return f"sock_diag of this kernel failed: {error}"


def _unix(payload: bytes, inodes: Container[int] | None) -> Listener | None:
    """A `struct unix_diag_msg` and its attributes; None if it is no stream socket or has no queue length."""
    _, kind, _, _, inode, _ = _unix_diag_msg.unpack_from(payload)
    if kind != socket.SOCK_STREAM or (inodes is not None and inode not in inodes):
        return None
    name = rqlen = b""
    offset = _unix_diag_msg.size
    while offset + _nlattr.size <= len(payload):
        length, attribute = _nlattr.unpack_from(payload, offset)
        if length < _nlattr.size:
            break
        if attribute == UNIX_DIAG_NAME:
            name = payload[offset + _nlattr.size : offset + length]
        elif attribute == UNIX_DIAG_RQLEN:
            rqlen = payload[offset + _nlattr.size : offset + length]
        offset += _aligned(length)
    if len(rqlen) != _unix_diag_rqlen.size:
        return None
    queue, limit = _unix_diag_rqlen.unpack(rqlen)
    # An abstract name opens with NUL. uWSGI binds one NUL too many at its end, and a path comes with its
    # terminator.
    bare = name.rstrip(b"\0")
    printable = b"@" + bare[1:] if bare[:1] == b"\0" else bare
    return Listener(inode, "unix", os.fsdecode(printable), queue, limit)


def _inet(payload: bytes, inodes: Container[int] | None) -> Listener | None:
    """A `struct inet_diag_msg`."""
    family, _, _, _, port, address, _, queue, limit, _, inode = _inet_diag_msg.unpack_from(payload)
    if inodes is not None and inode not in inodes:
        return None
    number = int.from_bytes(port, "big")
    if family == socket.AF_INET6:
        return Listener(inode, "inet6", f"[{socket.inet_ntop(family, address)}]:{number}", queue, limit)
    return Listener(inode, "inet", f"{socket.inet_ntop(family, address[:4])}:{number}", queue, limit)


def _aligned(length: int) -> int:
    """NLMSG_ALIGN and NLA_ALIGN: the next multiple of four."""
    return (length + 3) & ~3


def _unix_request() -> bytes:
    return _unix_diag_req.pack(socket.AF_UNIX, 0, 0, 1 << TCP_LISTEN, 0, UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN, 0)


def _inet_request(family: int) -> bytes:
    return _inet_diag_req_v2.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << TCP_LISTEN)


_FAMILIES: dict[Family, tuple[bytes, Callable[[bytes, Container[int] | None], Listener | None]]] = {
    "unix": (_unix_request(), _unix),
    "inet": (_inet_request(socket.AF_INET), _inet),
    "inet6": (_inet_request(socket.AF_INET6), _inet),
}
