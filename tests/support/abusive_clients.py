"""HTTP clients that abuse a server, for tests and benchmarks: endless floods, and more connections than it accepts.

Each is a context manager that takes the server's port on loopback, and ends with its block.
"""

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator

HEAD = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
"""The beginning of a scrape's request."""

Abuse = Callable[[int], contextlib.AbstractContextManager[None]]


def _abuse(run: Callable[[int, threading.Event], None], threads: int = 1) -> Abuse:
    """Runs `run(port, ended)` in so many threads during the block; it returns when `ended` is set."""

    @contextlib.contextmanager
    def abuse(port: int) -> Iterator[None]:
        ended = threading.Event()
        running = [threading.Thread(target=run, args=(port, ended)) for _ in range(threads)]
        for thread in running:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in running:
                thread.join(60)

    return abuse


def endless(first: bytes, more: bytes) -> Abuse:
    """Sends `first`, then `more` during the block; reconnects when the server closes the connection."""
    block = more * (65536 // len(more))

    def send(port: int, ended: threading.Event) -> None:
        while not ended.wait(0.05):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5) as client:
                client.sendall(first)
                while not ended.is_set():
                    client.sendall(block)

    return _abuse(send, threads=2)


def many(first: bytes, more: bytes = b"", count: int = 1000) -> Abuse:
    """Opens `count` connections that send `first`, then `more` now and then; replaces closed ones."""

    def hold(port: int, ended: threading.Event) -> None:
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:

            def connect() -> None:
                client = socket.socket()
                client.setblocking(False)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stack.callback(client.close)
                client.connect_ex(("127.0.0.1", port))
                selector.register(client, selectors.EVENT_WRITE, data=first)

            for _ in range(count):
                connect()
            while not ended.wait(0.05):
                for key, _ in selector.select(0):
                    client = key.fileobj
                    assert isinstance(client, socket.socket)
                    try:
                        if key.data:
                            client.send(key.data)
                        selector.modify(client, selectors.EVENT_WRITE, data=more)
                    except OSError:
                        selector.unregister(client)
                        client.close()
                        connect()

    return _abuse(hold)


def slow(first: bytes, count: int = 300) -> Abuse:
    """Opens `count` connections that send `first`, and receive 1.5 kB of the answers every three seconds."""

    def hold(port: int, ended: threading.Event) -> None:
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(count):
                client = stack.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
                client.settimeout(2)
                with contextlib.suppress(OSError):
                    client.connect(("127.0.0.1", port))
                    client.sendall(first)
                client.setblocking(False)
                clients.append(client)
            while not ended.wait(3):
                for client in clients:
                    with contextlib.suppress(OSError):
                        client.recv(1500)

    return _abuse(hold)
