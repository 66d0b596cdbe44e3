"""Nothing of a connection is left in memory when it has ended, in whatever way it ends, with and without TLS.

No timer of the exporter runs out during these tests, and Python's garbage collection is off: what a timer or a circle
of references holds would stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.web.security.certificates import write_certificates
from tests.web.security.secure_server import TLS
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.connection_limits import LimitedProtocol
from uwsgi_headroom.web.connection_slots import Connection, ConnectionSlots
from uwsgi_headroom.web.event_stream import EventStreams
from uwsgi_headroom.web.security.live_config import LiveConfig
from uwsgi_headroom.web.security.protect import protect

CLIENTS = 20  # of each way to end
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(autouse=True)
def no_timer_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUEST_SECONDS", "HANDSHAKE_SECONDS", "STALLED_SECONDS"):
        monkeypatch.setattr(bounds, name, 3600.0)
    monkeypatch.setattr(bounds, "LINGER_SECONDS", 0.1)  # a refused client is not read from: only this ends it


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
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


@dataclass(frozen=True)
class Target:
    """A running server. trust: of a client, None without TLS."""

    server: uvicorn.Server
    slots: Slots
    trust: ssl.SSLContext | None

    def connect(self) -> socket.socket:
        client = socket.create_connection(self.server.servers[0].sockets[0].getsockname(), 10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        return self.trust.wrap_socket(client, server_hostname="localhost") if self.trust else client

    def raw(self) -> socket.socket:
        return socket.create_connection(self.server.servers[0].sockets[0].getsockname(), 10)


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(client, ssl.SSLSocket):
        client = socket.socket(fileno=client.detach())  # without an alert
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
    application, slots = _application(), Slots()
    protocol: Callable[..., asyncio.Protocol] = lambda **more: LimitedProtocol(**more, slots=slots)  # noqa: E731
    if tls:
        write_certificates(tls)
        (tls / "web.yml").write_text(TLS)
        application, protocol = protect(application, slots, LiveConfig(tls / "web.yml"))  # type: ignore[assignment]
    config = uvicorn.Config(
        application, port=0, lifespan="off", log_config=None, ws="none", http=protocol,  # type: ignore[arg-type]
        timeout_keep_alive=3600, timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with contextlib.suppress(AttributeError):
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    trust = ssl.create_default_context(cafile=str(tls / "ca.pem")) if tls else None
    try:
        yield Target(server, slots, trust)
    finally:
        server.should_exit = True
        await serving


async def _until_nothing_is_left(target: Target) -> None:
    state = target.server.server_state
    for _ in range(200):
        if not (state.connections or state.tasks or target.slots.alive):
            return
        await asyncio.sleep(0.05)
    timers = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    raise AssertionError(
        f"in memory: {len(target.slots.alive)}; running: {list(state.tasks)[:2]}; timers: {timers[:5]}"
    )


@pytest.fixture(params=["plain", "TLS"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "TLS" else None


def _run(tls: Path | None, act: Callable[[Target], None]) -> None:
    async def run() -> None:
        async with _serving(tls) as target:
            await asyncio.to_thread(act, target)
            await _until_nothing_is_left(target)

    asyncio.run(run())


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_resets(tls: Path | None, way: str) -> None:
    """Everything of its connection is freed at once, wherever it was."""

    def act(target: Target) -> None:
        for _ in range(CLIENTS):
            _reset(WAYS[way](target))

    _run(tls, act)


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_closes(tls: Path | None, way: str) -> None:
    """Everything of its connection is freed at once, also if it only ends its own side first."""

    def act(target: Target) -> None:
        for _ in range(CLIENTS):
            client = WAYS[way](target)
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_WR)
            client.close()

    _run(tls, act)


@pytest.mark.parametrize("first", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00"])
def test_a_client_that_resets_in_a_handshake(tmp_path: Path, first: bytes) -> None:
    """Half a handshake leaves nothing, and neither does plain HTTP or rubbish instead of one."""

    def act(target: Target) -> None:
        for _ in range(CLIENTS):
            client = target.raw()
            client.sendall(first)
            _reset(client)

    _run(tmp_path, act)


def test_a_shutdown(tls: Path | None) -> None:
    """A server that stops ends every connection, and leaves nothing."""

    async def run() -> None:
        async with _serving(tls) as target:
            clients = [
                await asyncio.to_thread(WAYS[way], target)
                for way in ("before a request", "in a head", "after an answer")
            ]
        await _until_nothing_is_left(target)
        for client in clients:
            client.close()

    asyncio.run(run())
