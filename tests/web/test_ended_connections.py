"""Nothing of a connection is left in memory when it has ended, in whatever way it ends, with and without TLS.

No timer of the exporter runs out during these tests, and Python's garbage collection is off: what a timer or a circle
of references holds would stay.
"""

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.support.real_uwsgi import wait_until
from tests.web.security.secure_server import TLS, write_certificates
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.connection_slots import Connection, ConnectionLimits, ConnectionSlots
from uwsgi_headroom.web.http_server import HttpServer
from uwsgi_headroom.web.security.gate import protect
from uwsgi_headroom.web.security.live_config import LiveConfig
from uwsgi_headroom.web.shared_builds import EventStreams

CLIENTS = 20  # of each way to end
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(autouse=True)
def no_timer_runs_out(monkeypatch):
    for name in ("REQUEST_SECONDS", "HANDSHAKE_SECONDS", "STALLED_SECONDS", "KEEP_ALIVE_SECONDS"):
        monkeypatch.setattr(bounds, name, 3600.0)
    monkeypatch.setattr(bounds, "LINGER_SECONDS", 0.1)  # a refused client is not read from: only this ends it


@pytest.fixture(autouse=True)
def no_garbage_collection():
    gc.disable()
    yield
    gc.enable()


class Slots(ConnectionSlots):
    """Remembers every connection that is in memory, before its handshake and after it."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.alive: weakref.WeakSet[Connection] = weakref.WeakSet()

    def admit(self, connection: Connection) -> bool:
        self.alive.add(connection)
        return super().admit(connection)


def _application() -> Starlette:
    streams = EventStreams()

    async def small(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def large(_request: Request) -> Response:
        return Response(bytes(8_000_000))

    async def pieces(_request: Request) -> Response:
        async def without_end() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 100_000
                await asyncio.sleep(0)

        return StreamingResponse(without_end())

    async def events(_request: Request) -> Response:
        async def make() -> bytes:
            return b"{}"

        return streams.response("key", make)

    async def body(request: Request) -> Response:
        with contextlib.suppress(Exception):  # the client leaves in the middle
            await request.body()
        return PlainTextResponse("ok")

    routes = {"/": small, "/large": large, "/pieces": pieces, "/events": events, "/body": body}
    return Starlette(routes=[Route(path, endpoint, methods=["GET", "POST"]) for path, endpoint in routes.items()])


class Target(Struct, frozen=True):
    """A running server. trust: of a client, None without TLS."""

    server: HttpServer
    address: tuple[str, int]
    slots: Slots
    trust: ssl.SSLContext | None

    def connect(self) -> socket.socket:
        client = socket.create_connection(self.address, 10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        return self.trust.wrap_socket(client, server_hostname="localhost") if self.trust else client

    def raw(self) -> socket.socket:
        return socket.create_connection(self.address, 10)


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(client, ssl.SSLSocket):
        client = socket.socket(fileno=client.detach())  # without an alert
    client.close()


def _close(client: socket.socket) -> None:
    """End the client's own side first."""
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_WR)
    client.close()


def _sent(data: bytes, wait: int = 0) -> Callable[[Target], socket.socket]:
    """Sends data, and receives `wait` bytes of the answer."""

    def act(target: Target) -> socket.socket:
        client = target.connect()
        client.sendall(data)
        if wait:
            client.recv(wait)
        return client

    return act


WAYS: dict[str, Callable[[Target], socket.socket]] = {
    "before a request": _sent(b""),
    "in a head": _sent(b"GET / HT"),
    "in a body": _sent(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"),
    "in a body that has its answer": _sent(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", 1),
    "after an answer": _sent(GET + b"\r\n", 1),
    "in the head of a second request": _sent(GET + b"\r\n" + b"GET / HT", 1),
    "in a large answer": _sent(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    "in an answer in pieces": _sent(b"GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    "in an event stream": _sent(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    "with requests behind one": _sent(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n" + (GET + b"\r\n") * 3, 1),
    "after a refusal": _sent(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 1),
    "after the refusal of an upgrade": _sent(
        GET + b"\r\n" + GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n", 1
    ),
    "after the refusal of a tunnel": _sent(
        GET + b"\r\n" + b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 1
    ),
    "after rubbish": _sent(b"\x00\x01\r\n\r\n", 1),
    "after an upgrade": _sent(GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 1),
}


@contextlib.asynccontextmanager
async def _serving(tls: Path | None) -> AsyncIterator[Target]:
    application: ASGIApp = _application()
    make_tls = None
    if tls:
        write_certificates(tls)
        (tls / "web.yml").write_text(TLS)
        application, make_tls = protect(application, LiveConfig(tls / "web.yml"))
    server, slots = HttpServer(application, ConnectionLimits(1000, 8), make_tls), Slots()
    server.slots = slots
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    await server.start([listener])
    trust = ssl.create_default_context(cafile=str(tls / "ca.pem")) if tls else None
    try:
        yield Target(server, address, slots, trust)
    finally:
        await server.stop(1)


async def _until_nothing_is_left(target: Target) -> None:
    state = target.server
    for _ in range(200):
        if not (state.open or state.tasks or target.slots.alive):
            break
        await asyncio.sleep(0.05)
    timers = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]
    assert (len(target.slots.alive), len(state.open), len(state.tasks)) == (0, 0, 0), timers[:5]


@pytest.fixture(params=["plain", "TLS"])
def tls(request, tmp_path):
    return tmp_path if request.param == "TLS" else None


def _run(tls: Path | None, act: Callable[[Target], None]) -> None:
    async def run() -> None:
        async with _serving(tls) as target:
            await asyncio.to_thread(act, target)
            await _until_nothing_is_left(target)

    asyncio.run(run())


@pytest.mark.parametrize("end", [_reset, _close])
@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_ends(tls, way, end):
    """Everything of its connection is freed at once, wherever it was."""

    def act(target):
        for _ in range(CLIENTS):
            end(WAYS[way](target))

    _run(tls, act)


@pytest.mark.parametrize(
    ("bound", "way"),
    [
        ("REQUEST_SECONDS", "before a request"),
        ("REQUEST_SECONDS", "in a head"),
        ("REQUEST_SECONDS", "in a body"),
        ("REQUEST_SECONDS", "in the head of a second request"),
        ("KEEP_ALIVE_SECONDS", "after an answer"),
        ("STALLED_SECONDS", "in a large answer"),
        ("STALLED_SECONDS", "in an answer in pieces"),
        ("LINGER_SECONDS", "after a refusal"),
    ],
)
def test_a_client_that_stays(tls, monkeypatch, bound, way):
    """Each deadline ends its connection, and leaves nothing."""
    monkeypatch.setattr(bounds, bound, 0.3)
    clients = []  # open until nothing is left

    def act(target):
        clients.extend(WAYS[way](target) for _ in range(CLIENTS))

    _run(tls, act)
    for client in clients:
        client.close()


@pytest.mark.parametrize("way", ["before a request", "in a head", "after an answer", "in a large answer"])
def test_a_client_that_makes_room(tls, monkeypatch, way):
    """A connection that is closed for another one leaves nothing."""
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 0.0)
    clients = []

    def act(target):
        target.slots.most = 1
        for _ in range(CLIENTS):
            with contextlib.suppress(OSError):  # its answer has not filled the buffers yet
                clients.append(WAYS[way](target))
        wait_until(lambda: len(target.slots) == 1, what="the last connection")
        for client in clients:
            _reset(client)

    _run(tls, act)


@pytest.mark.parametrize("first", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00"])
def test_a_client_that_resets_in_a_handshake(tmp_path, first):
    """Half a handshake leaves nothing, and neither does plain HTTP or rubbish instead of one."""

    def act(target):
        for _ in range(CLIENTS):
            client = target.raw()
            client.sendall(first)
            _reset(client)

    _run(tmp_path, act)


def _refused_by_tls(target: Target) -> socket.socket:
    client = target.raw()
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    client.recv(1)
    return client


async def test_a_shutdown(tls):
    """A server that stops ends every connection, and leaves nothing."""
    async with _serving(tls) as target:
        clients = [
            await asyncio.to_thread(WAYS[way], target)
            for way in ("before a request", "in a head", "after an answer", "after a refusal", "in an event stream")
        ]
        if tls:
            clients.append(await asyncio.to_thread(_refused_by_tls, target))
    await _until_nothing_is_left(target)
    for client in clients:
        client.close()
