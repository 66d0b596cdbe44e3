"""Stats servers that misbehave, for tests of a reader: real listeners, on a UNIX path or on loopback TCP.

Each is a context manager that takes the kind of socket ("unix" or "tcp") and yields its address (path, host:port). The
server has ended when the block ends, whatever its client does.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tests.support.captured_documents import document
from tests.support.real_uwsgi import wait_until

Where = Literal["unix", "tcp"]
Behaviour = Callable[[socket.socket, threading.Event], None]
Address = contextlib.AbstractContextManager[str]


@contextlib.contextmanager
def _listening(where: Where, backlog: int = 16) -> Iterator[tuple[socket.socket, str]]:
    with contextlib.ExitStack() as stack:
        if where == "unix":
            address = str(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bad-"))) / "stats")
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listener.bind(address)
        else:
            listener = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            listener.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{listener.getsockname()[1]}"
        listener.listen(backlog)
        yield listener, address


@contextlib.contextmanager
def serving(where: Where, behave: Behaviour) -> Iterator[str]:
    """Runs `behave(connection, ended)` for every client, one at a time as uWSGI does, until the block ends."""
    ended = threading.Event()
    with _listening(where) as (listener, address):
        listener.settimeout(0.05)

        def loop() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):  # no client connected, or the client has left
                    connection, _ = listener.accept()
                    with connection:
                        connection.settimeout(0.2)
                        behave(connection, ended)

        thread = threading.Thread(target=loop, name="bad server")
        thread.start()
        try:
            yield address
        finally:
            ended.set()
            thread.join(60)
            assert not thread.is_alive(), "a bad server did not end"


def has_left(connection: socket.socket) -> bool:
    """Whether the client has closed its socket. The end of its stream is no sign of that, because readers send it."""
    if connection.family == socket.AF_UNIX:
        poll = select.poll()
        poll.register(connection, 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))
    # A TCP server cannot distinguish the two, but on the same machine the kernel can: a closed socket has no inode.
    try:
        ours, theirs = (f":{port:04X}" for port in (connection.getsockname()[1], connection.getpeername()[1]))
    except OSError:  # reset: the client left without reading everything
        return True
    lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return all(line[9] == "0" for line in lines if line[1].endswith(theirs) and line[2].endswith(ours))


def _write(connection: socket.socket, ended: threading.Event, data: bytes) -> None:
    """Writes all of `data`, while the block runs and the client reads."""
    rest = memoryview(data)
    while rest and not ended.is_set():
        with contextlib.suppress(TimeoutError):
            rest = rest[connection.send(rest) :]


def answers(where: Where, document: bytes) -> Address:
    """A well-behaved server: sends all of `document` at once, then the end."""
    return serving(where, lambda connection, ended: _write(connection, ended, document))


def answers_nothing(where: Where) -> Address:
    """Sends an empty body, as uWSGI does when it cannot generate the document."""
    return answers(where, b"")


def closes_half_way(where: Where, document: bytes) -> Address:
    """Sends the first half of `document`, as after a signal to the master in the middle of its write."""
    return answers(where, document[: len(document) // 2])


def accepts_and_never_writes(where: Where) -> Address:
    """Accepts, and keeps the connection until the block ends or the client leaves."""

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        while not ended.wait(0.02) and not has_left(connection):
            pass

    return serving(where, behave)


def drips(where: Where, document: bytes, interval: float = 1.0) -> Address:
    """Sends a byte of `document` every `interval` seconds: never silent for long, never complete."""

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        for index in range(len(document)):
            if ended.wait(interval):
                return
            connection.send(document[index : index + 1])

    return serving(where, behave)


def endless(where: Where) -> Address:
    """Sends a document that does not end: up to 256 MB of an open list."""

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        _write(connection, ended, b'{"version":"2.0.31","workers":[')
        for _ in range(1 << 12):
            if ended.is_set():
                return
            _write(connection, ended, b'{"id":0},' * (0x10000 // 9))

    return serving(where, behave)


def resets(where: Where, document: bytes) -> Address:
    """Sends all of `document`, then a reset instead of an end, as a client sees it that has sent something to uWSGI.

    On UNIX the kernel resets only a client that did send something.
    """

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        _write(connection, ended, document)
        if where == "tcp":
            ended.wait(0.1)  # a reset discards what the client has not received yet
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            ended.wait(0.1)  # the client's data is unread: closing now resets a UNIX stream

    return serving(where, behave)


Framing = Literal["until_close", "length", "chunked"]


def answers_http(
    where: Where,
    document: bytes,
    status: str = "200 OK",
    framing: Framing = "until_close",
    headers: tuple[str, ...] = (),
) -> Address:
    """Answers over HTTP. `until_close` is the framing of `--stats-http`; `status` and `headers` make a 404 or a
    redirect."""
    lines = [f"HTTP/1.{int(framing != 'until_close')} {status}", "Connection: close", *headers]
    body = document
    if framing == "until_close":
        lines += ["Access-Control-Allow-Origin: *", "Content-Type: application/json"]
    elif framing == "length":
        lines += [f"Content-Length: {len(document)}", "Content-Type: application/json"]
    else:
        lines += ["Transfer-Encoding: chunked", "Content-Type: application/json"]
        pieces = [document[start : start + 1000] for start in range(0, len(document), 1000)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
    answer = "\r\n".join([*lines, "", ""]).encode() + body

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        request = b""
        while b"\r\n\r\n" not in request and not ended.is_set():
            with contextlib.suppress(TimeoutError):
                received = connection.recv(4096)
                if not received:
                    return
                request += received
        _write(connection, ended, answer)

    return serving(where, behave)


@contextlib.contextmanager
def never_accepts(where: Where) -> Iterator[str]:
    """A listener whose queue is full: on UNIX connecting blocks, on TCP the connection gets no answer."""
    with _listening(where, backlog=0) as (listener, address), contextlib.ExitStack() as stack:
        family = listener.family
        for _ in range(8):
            client = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(listener.getsockname())
        yield address


class CountedServer(Struct, frozen=True):
    """`address` is a UNIX path; `reads` are the monotonic times of all reads so far."""

    address: str
    reads: list[float]

    def sampling_beside(self, control: CountedServer) -> float:
        """Returns the ratio of reads of this server to those of `control`, whose reader nobody abuses, while `control`
        is read 20 times. A busy machine slows down both; fewer reads would leave the ratio to chance."""
        before, others = len(self.reads), len(control.reads)
        wait_until(lambda: len(control.reads) >= others + 20, what="20 reads")
        return (len(self.reads) - before) / (len(control.reads) - others)


@contextlib.contextmanager
def counted_server() -> Iterator[CountedServer]:
    """Serves a captured document until the block ends, and counts its reads, to measure sampling."""
    reads: list[float] = []
    body = document("minified")

    def behave(connection: socket.socket, _ended: threading.Event) -> None:
        reads.append(time.monotonic())
        connection.sendall(body)

    with serving("unix", behave) as address:
        yield CountedServer(address, reads)
