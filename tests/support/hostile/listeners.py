"""Listeners: those that serve a behaviour, those that accept nothing, and those that come and go.

A place creates something at a `Site` and returns its address for the exporter.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.hostile.http_answers import after_request, behind_head
from tests.support.hostile.peer import Behaviour, Peer


@dataclass
class Site:
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


Place = Callable[[Site], str]


def on_unix(behave: Behaviour) -> Place:
    """A UNIX listener."""

    def place(site: Site) -> str:
        site.begin(serve(site, bind_unix(site, socket.SOCK_STREAM), behave))
        return f"unix://{site.path}"

    return place


def on_tcp(behave: Behaviour) -> Place:
    """A TCP listener."""

    def place(site: Site) -> str:
        listener = listen_on_loopback(site)
        site.begin(serve(site, listener, behave))
        return f"tcp://{host_and_port(listener)}"

    return place


def on_http(behave: Behaviour, scheme: str = "http") -> Place:
    """A TCP listener that reads a request, then behaves as given."""

    def place(site: Site) -> str:
        listener = listen_on_loopback(site)
        site.begin(serve(site, listener, after_request(behave)))
        return f"{scheme}://{host_and_port(listener)}/"

    return place


def on_http_body(behave: Behaviour) -> Place:
    """A TCP listener that answers with uWSGI's head, then behaves as given."""

    def place(site: Site) -> str:
        listener = listen_on_loopback(site)
        site.begin(serve(site, listener, behind_head(behave)))
        return f"http://{host_and_port(listener)}/"

    return place


def full_backlog(family: socket.AddressFamily) -> Place:
    """A listener that accepts nothing and whose backlog is full."""

    def place(site: Site) -> str:
        listener = bind_unix(site, socket.SOCK_STREAM, 0) if family == socket.AF_UNIX else listen_on_loopback(site, 0)
        for _ in range(8):
            client = site.closing.enter_context(socket.socket(family, socket.SOCK_STREAM))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(listener.getsockname())
        return f"unix://{site.path}" if family == socket.AF_UNIX else f"tcp://{host_and_port(listener)}"

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
                        await asyncio.wait_for(serve(site, listener, behave), seconds)
                await asyncio.sleep(seconds)

        site.begin(come_and_go())
        return f"tcp://127.0.0.1:{address[1]}"

    return place


def replaced_at_every_read(behave: Behaviour, absent_seconds: float) -> Place:
    """A UNIX path that is removed at every connection and returns after `absent_seconds`, as a new socket."""

    def place(site: Site) -> str:
        first = bind_unix(site, socket.SOCK_STREAM)

        async def move() -> None:
            listener = first
            for number in itertools.count():
                connection, _ = await asyncio.get_running_loop().sock_accept(listener)
                site.begin(meet(connection, number, behave))
                site.path.unlink()
                listener.close()
                await asyncio.sleep(absent_seconds)
                listener = bind_unix(site, socket.SOCK_STREAM)

        site.begin(move())
        return f"unix://{site.path}"

    return place


def changing_kind(behave: Behaviour, *others: Callable[[Path], object], seconds: float = 1.0) -> Place:
    """A UNIX path with a listener, then something else, then a listener again, for `seconds` each."""

    def place(site: Site) -> str:
        bind_unix(site, socket.SOCK_STREAM).close()

        async def change() -> None:
            for make in itertools.cycle(others):
                site.path.unlink()
                with bind_unix(site, socket.SOCK_STREAM) as listener, contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(serve(site, listener, behave), seconds)
                site.path.unlink()
                make(site.path)
                await asyncio.sleep(seconds)
                if site.path.is_dir():
                    site.path.rmdir()
                    site.path.touch()

        site.begin(change())
        return f"unix://{site.path}"

    return place


def unreadable(behave: Behaviour) -> Place:
    """A UNIX listener without permission for anyone but root."""

    def place(site: Site) -> str:
        address = on_unix(behave)(site)
        site.path.chmod(0)
        return address

    return place


async def serve(site: Site, listener: socket.socket, behave: Behaviour) -> None:
    for number in itertools.count():
        connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        site.begin(meet(connection, number, behave))


async def meet(connection: socket.socket, number: int, behave: Behaviour) -> None:
    with connection, contextlib.suppress(OSError):  # the client has left
        await behave(Peer(connection, number))


def bind_unix(site: Site, kind: socket.SocketKind, backlog: int | None = 16) -> socket.socket:
    bound = site.closing.enter_context(socket.socket(socket.AF_UNIX, kind))
    bound.setblocking(False)
    bound.bind(str(site.path))
    if backlog is not None:
        bound.listen(backlog)
    return bound


def listen_on_loopback(site: Site, backlog: int = 16) -> socket.socket:
    listener = site.closing.enter_context(socket.create_server(("127.0.0.1", 0), backlog=backlog))
    listener.setblocking(False)
    return listener


def host_and_port(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"
