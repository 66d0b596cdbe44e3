"""What a hostile server does on a connection, and what is at its address: listeners that serve, accept nothing, or come
and go; files, folders, links and sockets of another kind; nothing."""

import array
import asyncio
import contextlib
import itertools
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct, field

from tests.support.hostile.bodies import GOOD, Body

REQUEST_BYTES = 4096
"""uWSGI reads a request with a single read of this size."""

HEAD = b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
"""The head that uWSGI sends before its document."""

_BLOCK = 64 * 1024


class Peer:
    """A client. number: its index at this address, from 0. Methods raise OSError if the client has left."""

    def __init__(self, connection: socket.socket, number: int) -> None:
        self.connection = connection
        self.number = number

    async def send(self, data: bytes) -> None:
        """Sends all of `data`, as fast as the client reads."""
        await asyncio.get_running_loop().sock_sendall(self.connection, data)

    async def receive_request(self) -> None:
        """Waits for the client's request, which the exporter sends in one piece."""
        await asyncio.get_running_loop().sock_recv(self.connection, REQUEST_BYTES)

    async def hold(self) -> None:
        """Keeps the connection idle until all servers end."""
        await asyncio.Event().wait()

    async def reset(self) -> None:
        """Makes the connection end with a reset. Data that the client has not received yet is lost."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def close_sending_side(self) -> None:
        """Sends the end of the stream, and keeps the connection."""
        self.connection.shutdown(socket.SHUT_WR)


Behaviour = Callable[[Peer], Awaitable[None]]
"""The behaviour of a server on a connection, which is closed when the function returns."""


def sends(body: Body | bytes) -> Behaviour:
    """Sends all of a document at once."""
    return lambda peer: peer.send(body if isinstance(body, bytes) else body(peer.number))


def pauses(seconds: float) -> Behaviour:
    """Waits, so that the client can receive what it was sent."""
    return lambda _peer: asyncio.sleep(seconds)


def then(*behaviours: Behaviour) -> Behaviour:
    """Uses the given behaviours one after the other."""

    async def behave(peer: Peer) -> None:
        for each in behaviours:
            await each(peer)

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Uses the given behaviours in turn, one per connection."""
    return lambda peer: behaviours[peer.number % len(behaviours)](peer)


def drips(body: bytes, interval: float, size: int = 1) -> Behaviour:
    """Sends `size` bytes at a time, `interval` seconds apart."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return then(*(step for piece in pieces for step in (sends(piece), pauses(interval))))


def endless(first: bytes, more: bytes) -> Behaviour:
    """Sends `first`, then `more` repeatedly, as long as the client reads."""
    block = more * (_BLOCK // len(more))

    async def behave(peer: Peer) -> None:
        await peer.send(first)
        while True:
            await peer.send(block)

    return behave


async def sends_urgent_data(peer: Peer) -> None:
    """Sends TCP urgent data in the middle of a document, which is not part of the stream."""
    half = len(GOOD) // 2
    await peer.send(GOOD[:half])
    peer.connection.send(b"!", socket.MSG_OOB)
    await peer.send(GOOD[half:])


async def passes_descriptors(peer: Peer) -> None:
    """Sends a document with a hundred attached descriptors (of its connection), which a careless reader would keep
    open."""
    descriptors = array.array("i", [peer.connection.fileno()] * 100)
    peer.connection.sendmsg([GOOD], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])


def head(status: str, *headers: str) -> bytes:
    """The head of an HTTP response."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1")


def response(status: str, *headers: str, body: bytes = GOOD) -> Behaviour:
    """A response with this status, these headers and a document."""
    return sends(head(status, *headers) + body)


class Site(Struct):
    """The site of one case: its path, the tasks of its listeners, and the resources to close at the end."""

    path: Path
    closing: contextlib.ExitStack
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, work: Awaitable[None]) -> None:
        """Runs `work` until all servers end."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:  # the end raises an error of the test's own code
            self.tasks.discard(task)

    async def serve(self, listener: socket.socket, behave: Behaviour) -> None:
        """Behaves so on every connection."""
        for number in itertools.count():
            self.begin(_meet(await _accept(listener), number, behave))

    def bind_unix(self, kind: socket.SocketKind = socket.SOCK_STREAM, backlog: int | None = 16) -> socket.socket:
        """A socket at the path. backlog: None for one that does not listen."""
        bound = self.closing.enter_context(socket.socket(socket.AF_UNIX, kind))
        bound.setblocking(False)
        bound.bind(str(self.path))
        if backlog is not None:
            bound.listen(backlog)
        return bound

    def listen_on_loopback(self, backlog: int = 16) -> socket.socket:
        listener = self.closing.enter_context(socket.create_server(("127.0.0.1", 0), backlog=backlog))
        listener.setblocking(False)
        return listener


async def _accept(listener: socket.socket) -> socket.socket:
    return (await asyncio.get_running_loop().sock_accept(listener))[0]


async def _meet(connection: socket.socket, number: int, behave: Behaviour) -> None:
    with connection, contextlib.suppress(OSError):  # the client has left
        await behave(Peer(connection, number))


def _host_and_port(listener: socket.socket) -> str:
    return "{}:{}".format(*listener.getsockname())


Place = Callable[[Site], str]
"""Creates something at a site, and returns its address for the exporter."""


def on_unix(behave: Behaviour) -> Place:
    """A UNIX listener."""

    def place(site: Site) -> str:
        site.begin(site.serve(site.bind_unix(), behave))
        return f"unix://{site.path}"

    return place


def on_tcp(behave: Behaviour, scheme: str = "tcp", end: str = "") -> Place:
    """A TCP listener."""

    def place(site: Site) -> str:
        listener = site.listen_on_loopback()
        site.begin(site.serve(listener, behave))
        return f"{scheme}://{_host_and_port(listener)}{end}"

    return place


def on_http(behave: Behaviour, scheme: str = "http") -> Place:
    """A TCP listener that reads a request, then behaves as given."""
    return on_tcp(then(Peer.receive_request, behave), scheme, "/")


def on_http_body(behave: Behaviour) -> Place:
    """A TCP listener that answers with uWSGI's head, then behaves as given."""
    return on_http(then(sends(HEAD), behave))


def full_backlog(family: socket.AddressFamily) -> Place:
    """A listener that accepts nothing and whose backlog is full."""

    def place(site: Site) -> str:
        is_unix = family == socket.AF_UNIX
        listener = site.bind_unix(backlog=0) if is_unix else site.listen_on_loopback(0)
        for _ in range(8):
            client = site.closing.enter_context(socket.socket(family, socket.SOCK_STREAM))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(listener.getsockname())
        return f"unix://{site.path}" if is_unix else f"tcp://{_host_and_port(listener)}"

    return place


def refuses_half_the_time(behave: Behaviour, seconds: float = 0.7) -> Place:
    """A TCP port that listens for `seconds`, then does not for as long, repeatedly."""

    def place(site: Site) -> str:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            address = probe.getsockname()

        async def come_and_go() -> None:
            while True:
                with socket.create_server(address) as listener:
                    listener.setblocking(False)
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(site.serve(listener, behave), seconds)
                await asyncio.sleep(seconds)

        site.begin(come_and_go())
        return f"tcp://127.0.0.1:{address[1]}"

    return place


def replaced_at_every_read(behave: Behaviour, absent_seconds: float) -> Place:
    """A UNIX path that is removed at every connection and returns after `absent_seconds`, as a new socket."""

    def place(site: Site) -> str:
        first = site.bind_unix()

        async def move() -> None:
            listener = first
            for number in itertools.count():
                site.begin(_meet(await _accept(listener), number, behave))
                site.path.unlink()
                listener.close()
                await asyncio.sleep(absent_seconds)
                listener = site.bind_unix()

        site.begin(move())
        return f"unix://{site.path}"

    return place


def changing_kind(behave: Behaviour, *others: Callable[[Path], object], seconds: float = 1.0) -> Place:
    """A UNIX path with a listener, then something else, then a listener again, for `seconds` each."""

    def place(site: Site) -> str:
        site.bind_unix().close()

        async def change() -> None:
            for make in itertools.cycle(others):
                site.path.unlink()
                with site.bind_unix() as listener, contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(site.serve(listener, behave), seconds)
                site.path.unlink()
                make(site.path)
                await asyncio.sleep(seconds)
                if site.path.is_dir():
                    site.path.rmdir()
                    site.path.touch()

        site.begin(change())
        return f"unix://{site.path}"

    return place


def changed(behave: Behaviour, change: Callable[[Path], object]) -> Place:
    """A UNIX listener whose path is changed afterwards."""

    def place(site: Site) -> str:
        address = on_unix(behave)(site)
        change(site.path)
        return address

    return place


def move_behind_link(path: Path) -> None:
    """Puts a symbolic link in the place of a file."""
    path.symlink_to(path.rename(path.with_suffix(".moved")))


def unconnectable(kind: socket.SocketKind) -> Place:
    """A UNIX socket of this kind that does not listen."""

    def place(site: Site) -> str:
        site.bind_unix(kind, None)
        return f"unix://{site.path}"

    return place


def stale(site: Site) -> str:
    """A UNIX socket on which no process listens any more."""
    site.bind_unix().close()
    return f"unix://{site.path}"


def closed_port(site: Site) -> str:
    """A TCP port that is bound, so that nobody else gets it, and that does not listen."""
    bound = site.closing.enter_context(socket.socket())
    bound.bind(("127.0.0.1", 0))
    return f"tcp://{_host_and_port(bound)}"


def made(make: Callable[[Path], object], scheme: str = "unix") -> Place:
    """Creates something other than a listener at the path."""

    def place(site: Site) -> str:
        make(site.path)
        return f"{scheme}://{site.path}"

    return place


def elsewhere(address: str) -> Place:
    """An existing address, or one that does not exist."""
    return lambda site: address.format(path=site.path)


def huge(path: Path) -> None:
    """A sparse regular file of a terabyte."""
    path.touch()
    os.truncate(path, 2**40)
