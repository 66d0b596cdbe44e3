"""Lists the listening sockets of a network namespace with their queues, over netlink, as `ss -xlt` does.

One request is answered with one dump, or about one socket (`Queues`). The layouts and the names of constants are those
of linux/netlink.h, sock_diag.h, unix_diag.h and inet_diag.h. No privilege is needed. For a listening socket the kernel
reports the connections waiting to be accepted as `rqueue` and the limit, the smaller of the requested backlog and
net.core.somaxconn, as `wqueue`.

Any failure raises an `OSError` whose text is the reason to show to the operator.
"""

from __future__ import annotations

import errno
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Family = Literal["unix", "inet", "inet6"]


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening stream socket.

    `name` is the address of bind(2): a path exactly as given (also a relative one), `@name` if abstract,
    `127.0.0.1:3031`, `[::1]:3031`. `queue` is in connections and may exceed `limit` by one: the kernel refuses a
    connection only if the queue is longer than the limit.
    """

    inode: int
    family: Family
    name: str
    queue: int
    limit: int
    request: bytes = field(default=b"", compare=False, repr=False)
    """What asks the kernel about this socket alone."""


def list_listeners(
    family: Family, inodes: Collection[int] | None = None, *, seconds: float = math.inf
) -> list[Listener]:
    """The listening stream sockets of a family in this thread's network namespace. Raises `OSError`.

    `inodes` restricts the list, which saves most of the work on a host with hundreds of listeners. The list ends early
    if it takes longer than `seconds`.
    """
    return decode_listeners(family, dump_listeners(family, seconds), inodes)


def dump_listeners(family: Family, seconds: float = math.inf) -> dict[int, bytes]:
    """The kernel's description of each listening socket of a family, by inode. Raises `OSError`."""
    end = time.monotonic() + seconds
    request, inode, _ = _FAMILIES[family]
    try:
        payloads, interrupted = ask(request, seconds=seconds)
        if interrupted and time.monotonic() < end:
            # The sockets changed during the dump, so one may be missing: repeat it once. Each entry is correct by
            # itself, and on such a busy host a third dump would be no better.
            payloads, _ = ask(request, seconds=end - time.monotonic())
        return {inode.unpack_from(payload)[0]: payload for payload in payloads}
    except (OSError, struct.error) as error:
        raise OSError(explain(error)) from error


def decode_listeners(
    family: Family, dumped: Mapping[int, bytes], inodes: Collection[int] | None = None
) -> list[Listener]:
    """The listening stream sockets among what `dump_listeners` found, with these inodes or all. Raises `OSError`."""
    decode = _FAMILIES[family][2]
    chosen = dumped.keys() if inodes is None else dumped.keys() & inodes
    try:
        return [listener for inode in chosen if (listener := decode(dumped[inode]))]
    except struct.error as error:
        raise OSError(explain(error)) from error


def inet_name(host: str, port: int) -> str | None:
    """The `Listener.name` of a TCP socket bound to a numeric address; None if `host` is not numeric.

    As lenient as inet_addr(3), which uWSGI uses: `127.1` is 127.0.0.1. An empty host is 0.0.0.0.
    """
    try:
        if ":" in host:
            return f"[{socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, host))}]:{port}"
        return f"{socket.inet_ntoa(socket.inet_aton(host or '0.0.0.0'))}:{port}"  # noqa: S104 - a name, not a bind
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
TCP_ESTABLISHED, TCP_CLOSE_WAIT = 1, 8  # include/net/tcp_states.h
BOTH_WAYS = b"\3"  # the value of UNIX_DIAG_SHUTDOWN if the other end is closed
CONNECTED = 1 << TCP_ESTABLISHED | 1 << TCP_CLOSE_WAIT  # of which a request can be answered
UDIAG_SHOW_NAME, UDIAG_SHOW_VFS, UDIAG_SHOW_ICONS, UDIAG_SHOW_RQLEN, UDIAG_SHOW_UID = 0x01, 0x02, 0x08, 0x10, 0x40
UNIX_DIAG_NAME, UNIX_DIAG_VFS, UNIX_DIAG_ICONS, UNIX_DIAG_RQLEN, UNIX_DIAG_SHUTDOWN, UNIX_DIAG_UID = 0, 1, 3, 4, 6, 7
_unix_diag_req = struct.Struct("=BBHIIIQ")  # family, protocol, pad, states, inode, show, cookie
unix_diag_msg = struct.Struct("=BBBBIQ")  # family, type, state, pad, inode, cookie
_unix_diag_rqlen = struct.Struct("=II")
_unix_diag_vfs = struct.Struct("=II")  # inode, device as the kernel keeps it: 12 bits and 20 bits

# linux/inet_diag.h
_inet_diag_req_v2 = struct.Struct("=BBBBI2s2s16s16sIQ")  # family, protocol, extensions, pad, states, sockid:
# ports (big endian), source, destination, interface, cookie
INET_DIAG_INFO = 2
TCP_TIME_WAIT, TIME_WAIT_SECONDS = 6, 60.0  # TCP_TIMEWAIT_LEN
NO_COOKIE = (1 << 64) - 1
# The message: family, state, timer, retransmits, sockid without interface and cookie, expires, rqueue, wqueue, uid,
# inode
inet_diag_msg = struct.Struct("=BBBB2s2s16s16s12xIIIII")

_unix_inode, _inet_inode = struct.Struct("=4xI"), struct.Struct("=68xI")  # of both messages
_timeval = struct.Struct("@ll")  # seconds, microseconds

RECEIVE_BYTES = 32 << 10  # NLMSG_GOODSIZE for dumps: the kernel never makes a larger part (af_netlink.c)
TIMEOUT_SECONDS = 0.2  # Linux makes the dump within our own system calls; other kernels might not answer


def unix_request(show: int, inode: int = 0, states: int = 1 << TCP_LISTEN) -> bytes:
    """What asks for UNIX sockets in these states, or for the one with this inode. show: what to say of each."""
    return _unix_diag_req.pack(socket.AF_UNIX, 0, 0, states, inode, show, NO_COOKIE if inode else 0)


def inet_request(
    family: int,
    states: int,
    ports: Sequence[bytes] = (b"", b""),
    hosts: Sequence[bytes] = (b"", b""),
    *,
    protocol: int = socket.IPPROTO_TCP,
    extensions: int = 0,
    cookie: int = 0,
) -> bytes:
    """What asks for TCP or UDP sockets in these states. ports, hosts: of the near end and the far end, as the kernel
    writes them; cookie: NO_COOKIE for the one socket that has these."""
    return _inet_diag_req_v2.pack(family, protocol, extensions, 0, states, *ports, *hosts, 0, cookie)


def connections_request(family: int, port: bytes, states: int = CONNECTED) -> bytes:
    """What asks for the TCP connections from a port of this side, each with its `tcp_info`."""
    return inet_request(family, states, (port, b""), extensions=1 << (INET_DIAG_INFO - 1))


def ask(request: bytes, *, dump: bool = True, seconds: float = math.inf) -> tuple[list[bytes], bool]:
    """The payloads of the answer to one request, and whether it is incomplete or inconsistent. Without `dump`,
    the answer is about one socket. A dump ends early if it takes longer than `seconds`. Raises OSError."""
    end = time.monotonic() + seconds
    payloads: list[bytes] = []
    interrupted = False
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(TIMEOUT_SECONDS)
        kernel.send(_message(request, NLM_F_REQUEST | (NLM_F_DUMP if dump else 0), 1))
        while True:
            datagram, _, message_flags, _ = kernel.recvmsg(RECEIVE_BYTES)
            if message_flags & socket.MSG_TRUNC:
                raise OSError(errno.EMSGSIZE, "a part of the answer was cut off")
            for kind, kind_flags, payload in _messages(datagram):
                interrupted |= bool(kind_flags & NLM_F_DUMP_INTR)
                if kind in (NLMSG_ERROR, NLMSG_DONE):  # both begin with 0 or a negative errno
                    (code,) = _errno.unpack_from(payload)
                    if code < 0:
                        raise OSError(-code, os.strerror(-code))
                    return payloads, interrupted
                payloads.append(payload)
                if not dump:
                    return payloads, interrupted
            if time.monotonic() > end:
                return payloads, True


def _message(request: bytes, flags: int, number: int) -> bytes:
    return _nlmsghdr.pack(_nlmsghdr.size + len(request), SOCK_DIAG_BY_FAMILY, flags, number, 0) + request


def ask_about(request: bytes) -> bytes | None:
    """The kernel's answer about one socket; None if there is no such socket. Raises OSError."""
    try:
        return ask(request, dump=False)[0][0]
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise


MOST_QUEUES = 32
"""How many listeners are asked for one by one: their answers must fit into the buffer of a netlink socket."""


class Queues:
    """Asks for the queues of listeners that a dump has found, in this thread's network namespace.

    Three system calls for two listeners, on a socket that stays open: a sixth of the time of their dumps, on a host
    with few sockets. On a host with a thousand servers, the time of a dump grows with all their sockets.
    """

    def __init__(self) -> None:
        self._kernel: socket.socket | None = None

    def ask(self, listeners: Sequence[Listener]) -> list[tuple[int, int]] | None:
        """The queue and the limit of each listener; None if one of them is closed, hidden behind another socket of its
        name, or if the kernel does not answer. Never raises."""
        if not 0 < len(listeners) <= MOST_QUEUES:
            return None if listeners else []
        try:
            kernel = self._kernel or socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
            if self._kernel is None:  # a timeout of Python's would add a poll(2) to every call
                kernel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval.pack(0, int(TIMEOUT_SECONDS * 1e6)))
                self._kernel = kernel
            requests = [_message(each.request, NLM_F_REQUEST, number) for number, each in enumerate(listeners)]
            kernel.send(b"".join(requests))
            return [_queue_in(kernel.recv(RECEIVE_BYTES), number, each) for number, each in enumerate(listeners)]
        except (OSError, struct.error):
            self.close()  # answers may be left in it
            return None

    def close(self) -> None:
        """Close the socket; the next question opens another."""
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None


def _queue_in(datagram: bytes, number: int, listener: Listener) -> tuple[int, int]:
    """The queue and the limit in the answer to this request. Raises OSError if it is about another socket."""
    _, kind, _, sequence, _ = _nlmsghdr.unpack_from(datagram)
    if kind != SOCK_DIAG_BY_FAMILY or sequence != number:
        raise OSError(errno.ENOENT, "no such listener")
    payload = datagram[_nlmsghdr.size :]
    if listener.family == "unix":
        _, _, state, _, inode, _ = unix_diag_msg.unpack_from(payload)
        queue, limit = _unix_diag_rqlen.unpack(attributes(payload, unix_diag_msg).get(UNIX_DIAG_RQLEN, b""))
    else:
        _, state, _, _, _, _, _, _, _, queue, limit, _, inode = inet_diag_msg.unpack_from(payload)
    if inode != listener.inode or state != TCP_LISTEN:
        raise OSError(errno.ENOENT, "another socket")
    return queue, limit


def _messages(datagram: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The netlink messages in one datagram: type, flags, payload."""
    offset = 0
    while offset + _nlmsghdr.size <= len(datagram):
        length, kind, flags, _, _ = _nlmsghdr.unpack_from(datagram, offset)
        if not _nlmsghdr.size <= length <= len(datagram) - offset:
            raise OSError(errno.EBADMSG, "a part of the answer was cut off")
        yield kind, flags, datagram[offset + _nlmsghdr.size : offset + length]
        offset += _aligned(length)


def explain(error: OSError | struct.error) -> str:
    """The error as a sentence for an operator: what failed and what to do."""
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EAFNOSUPPORT:
        return "the exporter may not use netlink: in systemd, add AF_NETLINK to RestrictAddressFamilies="
    if code in (errno.EPERM, errno.EACCES):
        return "a security policy (seccomp, SELinux, AppArmor) denies the exporter netlink: allow AF_NETLINK"
    if code in (errno.ENOENT, errno.EPROTONOSUPPORT, errno.EINVAL):
        return "this kernel cannot list listening sockets: load the modules unix_diag, inet_diag and tcp_diag"
    return f"the kernel's sock_diag failed: {error}"


def _unix(payload: bytes) -> Listener | None:
    """Decode a `struct unix_diag_msg` and its attributes; None unless it is a stream socket with a queue length."""
    _, kind, _, _, inode, _ = unix_diag_msg.unpack_from(payload)
    if kind != socket.SOCK_STREAM:
        return None
    found = attributes(payload, unix_diag_msg)
    rqlen = found.get(UNIX_DIAG_RQLEN, b"")
    if len(rqlen) != _unix_diag_rqlen.size:
        return None
    queue, limit = _unix_diag_rqlen.unpack(rqlen)
    request = unix_request(UDIAG_SHOW_RQLEN, inode)
    return Listener(inode, "unix", unix_name(found.get(UNIX_DIAG_NAME, b"")), queue, limit, request)


def attributes(payload: bytes, head: struct.Struct) -> dict[int, bytes]:
    """The attributes behind a message, such as `unix_diag_msg`, by type."""
    found: dict[int, bytes] = {}
    offset = head.size
    while offset + _nlattr.size <= len(payload):
        length, attribute = _nlattr.unpack_from(payload, offset)
        if length < _nlattr.size:
            break
        found[attribute] = payload[offset + _nlattr.size : offset + length]
        offset += _aligned(length)
    return found


def inet_info(payload: bytes) -> bytes:
    """The `struct tcp_info` behind a `struct inet_diag_msg`; empty if there is none."""
    return attributes(payload, inet_diag_msg).get(INET_DIAG_INFO, b"")


_LEAST_PATIENCE = 0.1
_since = struct.Struct("=52xII")  # of linux/tcp.h, struct tcp_info: tcpi_last_data_recv and tcpi_last_ack_recv, in ms


def read_ages(payload: bytes) -> tuple[float, float] | None:
    """The seconds since the last data came over a TCP connection, and since anything came, such as the end of one that
    the client has closed; None if its `tcp_info` was not asked for."""
    info = inet_info(payload)
    if len(info) < _since.size:
        return None
    data, anything = _since.unpack_from(info)
    return data / 1000, anything / 1000


def seconds_to_end(payload: bytes) -> float:
    """For how long the client of a TCP connection waited before it closed it; 0 if it has not, or at once: then it may
    have sent all that it has to say, and wait. 0 as well if it has an answer."""
    data, anything = read_ages(payload) or (0.0, 0.0)
    has_left = inet_diag_msg.unpack_from(payload)[1] == TCP_CLOSE_WAIT and data - anything >= _LEAST_PATIENCE
    return (data - anything) * (has_left and not has_answer(payload))


_acknowledged = struct.Struct("=120xQ")  # struct tcp_info: tcpi_bytes_acked, since Linux 4.1; SYN counts as one byte


def has_answer(payload: bytes) -> bool:
    """Whether the client of a TCP connection has closed it after it had got something."""
    is_closed, info = inet_diag_msg.unpack_from(payload)[1] == TCP_CLOSE_WAIT, inet_info(payload)
    return is_closed and len(info) >= _acknowledged.size and _acknowledged.unpack_from(info)[0] > 1


def unix_name(name: bytes) -> str:
    """A UNIX socket's name from the kernel's. An abstract one begins with a NUL and is written with an @. uWSGI binds
    it with another NUL at the end, and a path has its terminator."""
    bare = name.rstrip(b"\0")
    return os.fsdecode(b"@" + bare[1:] if bare[:1] == b"\0" else bare)


def unix_file(attribute: bytes) -> tuple[int, int] | None:
    """The inode and the device, as of stat(2), of the file that a UNIX socket was bound to; None if unknown."""
    if len(attribute) != _unix_diag_vfs.size:
        return None
    inode, device = _unix_diag_vfs.unpack(attribute)
    return inode, os.makedev(device >> 20, device & 0xFFFFF)


def _inet(payload: bytes) -> Listener | None:
    family, _, _, _, port, _, address, _, _, queue, limit, _, inode = inet_diag_msg.unpack_from(payload)
    number = int.from_bytes(port, "big")
    request = inet_request(family, 1 << TCP_LISTEN, (port, b""), (address, b""), cookie=NO_COOKIE)
    if family == socket.AF_INET6:
        return Listener(inode, "inet6", f"[{socket.inet_ntop(family, address)}]:{number}", queue, limit, request)
    if family == socket.AF_INET:
        return Listener(inode, "inet", f"{socket.inet_ntop(family, address[:4])}:{number}", queue, limit, request)
    return None


def _aligned(length: int) -> int:
    """The next multiple of four, as NLMSG_ALIGN and NLA_ALIGN."""
    return (length + 3) & ~3


_FAMILIES: dict[Family, tuple[bytes, struct.Struct, Callable[[bytes], Listener | None]]] = {
    "unix": (unix_request(UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN), _unix_inode, _unix),
    "inet": (inet_request(socket.AF_INET, 1 << TCP_LISTEN), _inet_inode, _inet),
    "inet6": (inet_request(socket.AF_INET6, 1 << TCP_LISTEN), _inet_inode, _inet),
}
