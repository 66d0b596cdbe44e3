"""Resolves the names of stats servers, connects to them on UNIX sockets and over TCP, and receives to the end of the
stream, with or without TLS.

Names that lead to this machine may be refused. The bytes of documents in transfer, of all servers together, are
bounded, so that slow or many large ones cannot fill the memory of the exporter:

* The first FREE_BYTES of each document are always received: most documents are smaller.
* All other bytes take room from MOST_BYTES. A server whose document is known to be large takes its room before it is
  asked, since a read that pauses in the middle would block uWSGI's master. An unknown document that finds no room is
  read again from the start, once there is room for the largest.
* Where room is short, a read that usually holds few bytes for a short time takes it from those that have held more
  bytes for longer, twice as much at least: equals would take it from each other in turns. So servers that send slowly
  cannot hold up one that sends fast.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import ssl
import stat
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.errors import NoSocketError, SourceError
from uwsgi_headroom.source.address import Unix

FREE_BYTES = 32 * 1024
"""4 workers of 8 threads have 11 kB; for 400 servers, the most that patterns find, 13 MB in all."""

MOST_BYTES = 16 * 2**20
"""Room for two documents of the default cap, or for 16 of 64 workers with 16 threads each (1 MB), which arrive within
some 5 ms."""

UNKNOWN_COST = 6e6
"""The byte-seconds that an unknown document is expected to need: 6 MB in a second, as on a busy machine."""

_RETRY_SECONDS = 0.25

_KNOWN = 1.1
"""The room that a server reserves, as a multiple of its latest document: counters grow."""


class NoRoomError(Exception):
    """A document is larger than was known and there is no room for the rest, or others have taken its room."""


class Room:
    """What is left for documents in transfer, and who holds the rest."""

    def __init__(self, most: int = MOST_BYTES, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.most = self.left = most
        self.monotonic = monotonic
        self._holders: set[Share] = set()

    def take(self, share: Share, size: int) -> bool:
        """Give a share so much more room, if need be that of others that cost twice as much; False if there is none."""
        size = min(size, self.most - share.taken)  # a document that is larger than all room takes all
        now = self.monotonic()
        if size > self.left:
            dearest = sorted(self._holders - {share}, key=lambda each: each.spent(now), reverse=True)
            dearer = [each for each in dearest if each.spent(now) > 2 * share.cost]
            if size > self.left + sum(each.taken for each in dearer):
                return False
            for each in dearer:
                if size > self.left:
                    each.lose(now)
        if not share.taken:
            share.since = now
            self._holders.add(share)
        share.taken += size
        self.left -= size
        return True

    def give_back(self, share: Share) -> None:
        self.left += share.taken
        share.taken = 0
        self._holders.discard(share)


class Share:
    """The part of the room that one server holds, and what its documents need. cap: the most bytes of a document;
    sock: the connection of the read under way; loss: why it lost its room; cost: the byte-seconds that its latest
    document needed."""

    def __init__(self, room: Room | None = None) -> None:
        self._room = room or Room()
        self.cap = 0
        self.taken = 0
        self.since = 0.0
        self.cost = UNKNOWN_COST
        self.sock: socket.socket | None = None
        self.loss: SourceError | None = None
        self._needs = 0

    def spent(self, now: float) -> float:
        """The byte-seconds that the read under way has cost."""
        return self.taken * (now - self.since)

    async def begin(self, cap: int, deadline: float) -> None:
        """Begin a read of at most `cap` bytes: wait, until `deadline` (the loop's time), for the room that the document
        is known to need. Raises SourceError."""
        while not self.begin_now(cap):
            if asyncio.get_running_loop().time() + _RETRY_SECONDS > deadline:
                raise SourceError(
                    "timeout",
                    "the exporter has not asked the server: other servers send large documents slowly, and take all "
                    f"the memory for documents in transfer ({self._room.most:,} bytes)",
                )
            await asyncio.sleep(_RETRY_SECONDS)

    def begin_now(self, cap: int) -> bool:
        """The same, if there is room without a wait."""
        self.cap, self.loss = cap, None
        return not self._needs or self._room.take(self, self._needs)

    def hold(self, size: int) -> None:
        """Hold the `size` bytes of this document that have been received so far. Raises SourceError above the cap;
        NoRoomError if there is no more room, or others have taken it."""
        if self.loss:
            raise NoRoomError
        if size > self.cap:
            raise SourceError(
                "too_large", "the answer is larger than the cap: raise `size_cap`, or run uWSGI with stats-no-cores"
            )
        more = size - FREE_BYTES - self.taken
        if more > 0 and not self._room.take(self, more):
            self._needs = self.cap
            raise NoRoomError

    def lose(self, now: float) -> None:
        """Give the room to others: the connection ends."""
        self.cost, self._needs = self.spent(now), self.cap
        self.loss = SourceError(
            "too_large",
            f"the document is large, and came so slowly ({now - self.since:.1f} s) that other servers needed the "
            "memory: run uWSGI with stats-minified, stats-no-metrics or stats-no-cores",
        )
        self._room.give_back(self)
        if self.sock:
            with contextlib.suppress(OSError):  # it has ended by itself
                self.sock.shutdown(socket.SHUT_RDWR)

    def complete(self, size: int) -> None:
        """Note what a complete document of `size` bytes needed."""
        self._needs = max(0, int(size * _KNOWN) - FREE_BYTES)
        self.cost = self.spent(self._room.monotonic()) if self._needs else UNKNOWN_COST

    def end(self) -> None:
        """End the read: its document has been decoded, or has failed. What a failed one has cost counts as its cost:
        the next read of a server that only drips takes no room from others."""
        self.sock = None
        self.cost = max(self.cost, self.spent(self._room.monotonic()))
        self._room.give_back(self)


class Answer(Struct, frozen=True):
    """One document.

    transfer_seconds: time from the first byte of the document to its last.
    peer_pid: the listening process, in this process's PID namespace (UNIX sockets only).
    peer: IP address and port of the server (TCP only).
    """

    body: bytes
    transfer_seconds: float = 0.0
    peer_pid: int | None = None
    peer: tuple[str, int] | None = None


_CHUNK = 256 * 1024  # a UNIX socket buffers 219,264 bytes: one call empties it


def close_sending_side(sock: socket.socket) -> None:
    """Shut down the sending side, which announces that no request will come.

    A raw server ignores this. Without it, the master of a server with stats-http, addressed as raw by mistake, would
    block for four seconds and wait for a request.
    """
    with contextlib.suppress(OSError):  # the server has already closed the connection
        sock.shutdown(socket.SHUT_WR)


Received = Answer | OSError | SourceError | asyncio.TimeoutError | NoRoomError

_CHUNKS_AT_ONCE = 4
"""Then others have their turn."""


class Transfer:
    """Receives to the end of the stream by callbacks of the event loop, which take half the time of a task. `done` is
    called once with the answer or the error, asyncio.TimeoutError after `deadline` (the loop's time); never in the
    constructor, and never after `end`."""

    def __init__(
        self, sock: socket.socket, share: Share, deadline: float | None, done: Callable[[Received], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock, self._parts, self._done = sock, _Parts(sock, share), done
        self._descriptor, self._ended = sock.fileno(), False
        self._loop.add_reader(self._descriptor, self._receive)
        self._timer = None if deadline is None else self._loop.call_at(deadline, self._finish, asyncio.TimeoutError())

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._parts.received.clear()  # an error and its frames are a cycle, which Python keeps for a while
            self._loop.remove_reader(self._descriptor)
            if self._timer:
                self._timer.cancel()

    def _receive(self) -> None:
        received: Received
        try:
            for _ in range(_CHUNKS_AT_ONCE):
                if not self._parts.add(self._sock.recv(_CHUNK)):
                    received = self._parts.join()
                    break
            else:
                return
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, SourceError, NoRoomError) as error:
            is_whole = self._parts.received and isinstance(error, ConnectionResetError)
            received = self._parts.join() if is_whole else error.with_traceback(None)  # its frames hold the last part
        self._finish(received)

    def _finish(self, received: Received) -> None:
        self.end()
        self._done(received)


async def receive(sock: socket.socket, share: Share, deadline: float | None = None) -> Answer:
    """Receive to the end of the stream.

    Raises OSError, asyncio.TimeoutError after `deadline` (the loop's time), SourceError, or NoRoomError.
    """
    return await _await_answer(lambda done: Transfer(sock, share, deadline, done))


async def _await_answer(begin: Callable[[Callable[[Received], None]], Transfer | UnixRead]) -> Answer:
    result: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
    reading = begin(lambda received: None if result.done() else result.set_result(received))
    try:
        received = await result
    finally:
        reading.end()
    if isinstance(received, Answer):
        return received
    raise received


async def exchange_over_tls(
    sock: socket.socket, context: ssl.SSLContext, host: str, request: bytes, share: Share
) -> Answer:
    """Send a request to the server that has a certificate for `host`, and receive to the end of the stream.

    Raises OSError, SourceError, or NoRoomError.
    """
    reader, writer = await asyncio.open_connection(sock=sock, ssl=context, server_hostname=host)
    parts = _Parts(sock, share)
    try:
        writer.write(request)
        try:
            while parts.add(await reader.read(_CHUNK)):
                pass
        except ConnectionResetError:
            if not parts.received:
                raise
        return parts.join()
    finally:
        parts.received.clear()
        writer.transport.abort()  # close() would wait for a peer that may never answer


class _Parts:
    """The parts of one answer, as they arrive.

    uWSGI resets the connection after a complete document if the client sent bytes that uWSGI did not read. So a reset
    after some part is an end: the decoder checks whether the document is complete.
    """

    def __init__(self, sock: socket.socket, share: Share) -> None:
        self.received = bytearray()  # a list of parts would keep some kB for each, however small it is
        self._began: float | None = None
        self._share = share
        share.sock = sock

    def add(self, chunk: bytes) -> bool:
        """Add a part; False at the end of the stream. Raises SourceError or NoRoomError if it is too large."""
        self._share.hold(len(self.received) + len(chunk))
        if not chunk:
            return False
        self._began = self._began or time.monotonic()
        self.received += chunk
        return True

    def join(self) -> Answer:
        body, self.received = bytes(self.received), bytearray()
        self._share.complete(len(body))
        return Answer(body, time.monotonic() - self._began if self._began else 0.0)


AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]

_under_way: dict[tuple[str, int], Future[Sequence[AddressInfo]]] = {}
_lock = threading.Lock()


async def resolve_host(host: str, port: int) -> Sequence[AddressInfo]:
    """The addresses of a host. Raises OSError. If the caller is cancelled, the lookup goes on for later callers.

    A resolver may hang for half a minute, and a call to it cannot be cancelled. asyncio's own executor has few threads,
    and `asyncio.run` waits for them when it ends. So each lookup runs in its own daemon thread, one per host at a time.
    """
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:  # a name, not an IP address
        return await asyncio.wrap_future(_look_up(host, port))


def _look_up(host: str, port: int) -> Future[Sequence[AddressInfo]]:
    with _lock:
        lookup = _under_way.get((host, port))
        if lookup is None:
            lookup = _under_way[host, port] = Future()
            lookup.set_running_or_notify_cancel()  # now a cancelled caller cannot cancel the lookup
            threading.Thread(target=_run, args=(lookup, host, port), name=f"resolve {host}", daemon=True).start()
        return lookup


def _run(lookup: Future[Sequence[AddressInfo]], host: str, port: int) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        finish = partial(lookup.set_result, found)
    except Exception as error:  # noqa: BLE001 - raised in every caller
        finish = partial(lookup.set_exception, error)
    with _lock:  # before the result, so that no later caller gets that: its addresses were not checked for it
        del _under_way[host, port]
    finish()


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


# connect() to a UNIX listener whose backlog is full fails immediately instead of queueing (connect(2), EAGAIN).
_BACKLOG_FULL_RETRY_SECONDS = 0.02


_CREDENTIALS = struct.Struct("iII")  # PID, uid, gid: struct ucred


class UnixRead:
    """Reads a UNIX stats server to the end by callbacks, until `deadline` (the loop's time): the path of nearly every
    sample, which makes no system call and no task that it does not need. on_connected is called with the PID of the
    listening process; `done` as by a Transfer."""

    def __init__(
        self,
        address: Unix,
        share: Share,
        deadline: float,
        done: Callable[[Received], None],
        on_connected: Callable[[int], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._address, self._share, self._deadline = address, share, deadline
        self._done, self._on_connected = done, on_connected
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._peer_pid = 0
        self._next: Transfer | asyncio.Handle | None = None
        self._connect()

    def end(self) -> None:
        if isinstance(self._next, Transfer):
            self._next.end()
        elif self._next:
            self._next.cancel()
        self._sock.close()

    def _connect(self) -> None:
        try:
            if not _connect_to_first(self._sock, self._address):
                if self._loop.time() > self._deadline:
                    raise asyncio.TimeoutError
                self._next = self._loop.call_later(_BACKLOG_FULL_RETRY_SECONDS, self._connect)
                return
            credentials = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self._peer_pid = _CREDENTIALS.unpack(credentials)[0]
            self._on_connected(self._peer_pid)
            close_sending_side(self._sock)
            self._next = Transfer(self._sock, self._share, self._deadline, self._finish)
        except (OSError, SourceError, asyncio.TimeoutError) as error:
            self._next = self._loop.call_soon(self._finish, error.with_traceback(None))

    def _finish(self, received: Received) -> None:
        self.end()
        self._done(replace(received, peer_pid=self._peer_pid) if isinstance(received, Answer) else received)


async def read_unix(
    address: Unix, share: Share, deadline: float, on_connected: Callable[[int], None] = lambda _pid: None
) -> Answer:
    """Read a UNIX stats server as `UnixRead` does.

    Raises OSError, asyncio.TimeoutError after the deadline, SourceError, or NoRoomError.
    """
    return await _await_answer(lambda done: UnixRead(address, share, deadline, done, on_connected))


def _connect_to_first(sock: socket.socket, address: Unix) -> bool:
    """Connect to the first name that does not refuse: an abstract name has two forms, a path has one. False if the
    listener's backlog is full. Raises OSError or SourceError."""
    *others, last = address.sockaddrs
    try:
        for sockaddr in others:
            with contextlib.suppress(ConnectionRefusedError):
                sock.connect(sockaddr)
                return True
        sock.connect(last)
    except BlockingIOError:
        return False
    except ConnectionRefusedError:
        if not address.path.startswith("@") and not stat.S_ISSOCK(os.stat(address.path).st_mode):
            raise NoSocketError(
                "not_found", f"{address.path} is not a socket: give the path of uWSGI's `stats` option"
            ) from None
        raise
    return True


# If this process is paused, uWSGI's master can still finish its write into this buffer, as far as net.core.rmem_max
# allows: on loopback it could write 12.5 MB, and 4.3 MB with the default buffer.
_RECEIVE_BUFFER = 4 * 1024 * 1024


async def read_tcp(addresses: Sequence[AddressInfo], share: Share) -> Answer:
    """Read a raw TCP stats server to the end. Raises OSError, SourceError, or NoRoomError."""
    sock = await connect_tcp(addresses)
    try:
        peer = sock.getpeername()[:2]
        close_sending_side(sock)
        return replace(await receive(sock, share), peer=peer)
    finally:
        sock.close()


async def connect_tcp(addresses: Sequence[AddressInfo]) -> socket.socket:
    """Connect to the first of these addresses that answers. Raises OSError."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for family, kind, protocol, _name, sockaddr in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)  # before connect: it sets the window
            await loop.sock_connect(sock, sockaddr)
            return sock
        except OSError as error:
            failure = error
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise failure or OSError("the name has no address")
