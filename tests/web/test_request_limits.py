"""The HTTP server with requests that are too large, too slow or too many."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.real_uwsgi import wait_until
from tests.support.web_server import LimitedServer, limited_server
from uwsgi_headroom.web import bounds

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
OK = b"HTTP/1.1 200 OK"


@contextlib.contextmanager
def serving(connections: int = 8) -> Iterator[LimitedServer]:
    """A server that responds at / with the Host header, never at /never, and fails before the body at /fault."""

    async def host(request: Request) -> Response:
        return PlainTextResponse(" ".join(request.headers.getlist("host")))

    async def never(_request: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    async def fault(_request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            raise ZeroDivisionError
            yield b""

        return StreamingResponse(body())

    routes = {"/": host, "/never": never, "/fault": fault}
    app = Starlette(routes=[Route(path, endpoint, methods=["GET", "POST"]) for path, endpoint in routes.items()])
    with limited_server(app, connections) as server:
        yield server


def connected(server: LimitedServer) -> socket.socket:
    client = socket.create_connection(server.address, 10)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def answers(server: LimitedServer, data: bytes) -> bytes:
    """Everything received until the connection is closed."""
    with connected(server) as client:
        client.sendall(data)
        return received(client)


def received(client: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def asked(client: socket.socket, data: bytes = GET + b"\r\n") -> bytes:
    """The response on a connection that stays open: its body is the Host header."""
    client.sendall(data)
    answer = b""
    while not answer.endswith(b"\r\n\r\nx"):
        part = client.recv(65536)
        assert part, answer
        answer += part
    return answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /" + b"a" * bounds.LINE_BYTES, b"414 "),
        (GET + b"X: " + b"a" * bounds.LINE_BYTES, b"431 "),
        (GET + b"X: " + b"a" * 1000 + (b"\r\nX: " + b"a" * 1000) * 33, b"431 "),
        (GET + b"Content-Length: %d\r\n\r\n" % (bounds.BODY_BYTES + 1), b"413 "),
        (GET + b"Content-Length: 99999999999999999999\r\n\r\n", b"400 "),
        (GET + b"Transfer-Encoding: chunked\r\n\r\n", b"411 "),
    ],
)
def test_a_request_that_is_too_large(request_: bytes, status: bytes) -> None:
    """The response names the error, and the connection is closed."""
    with serving() as server:
        answer = answers(server, request_)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close" in answer.lower()


def test_requests_as_large_as_they_may_be() -> None:
    """A line, a head and a body of exactly the bound are accepted, repeatedly on one connection."""
    longest = b"X: " + b"a" * (bounds.LINE_BYTES - 5) + b"\r\n"
    head = GET + longest * 3
    length = b"Content-Length: %d\r\n" % bounds.BODY_BYTES
    filler = bounds.HEAD_BYTES - len(head) - len(length) - 2
    whole = head + length + b"Y: " + b"b" * (filler - 5) + b"\r\n\r\n" + b"c" * bounds.BODY_BYTES
    with serving() as server, connected(server) as client:
        for _ in range(3):
            assert asked(client, whole).startswith(OK)


@pytest.mark.parametrize(
    "head", [b"POST / HTTP/1.0\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"]
)
def test_an_answer_before_the_end_of_its_body(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    """A client that is still sending a body when its last answer is complete can send it all, and read the answer."""
    monkeypatch.setattr(bounds, "LINGER_SECONDS", 30.0)
    with serving() as server, connected(server) as client:
        client.sendall(head + b"Content-Length: 60000\r\n\r\n")
        wait_until(lambda: any(not each._takes_data for each in server.connections), what="the answer")
        for _ in range(60):
            client.sendall(bytes(1000))
        assert client.recv(1000, socket.MSG_PEEK).startswith(OK)
        assert received(client).endswith(b"\r\n\r\nx")


def test_a_fault_before_the_body() -> None:
    """The response is a whole one that names the error, not half a one."""
    with serving() as server:
        answer = answers(server, b"GET /fault HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert answer.endswith(b"\r\n\r\nInternal Server Error\n")


def test_a_request_behind_another_is_taken_apart() -> None:
    """Requests, with bodies or without, may arrive in one piece; each gets its response."""
    body = b"Content-Length: 3\r\n\r\n\n\n\n"
    with serving() as server:
        answer = answers(server, GET + body + GET + b"\r\n" + GET + body + GET + b"Connection: close\r\n\r\n")
    assert answer.count(OK) == 4


@pytest.mark.parametrize(("more", "closed"), [(0, False), (1, True)])
def test_pipelined_requests(more: int, closed: bool) -> None:
    """This much may wait behind an earlier request of its connection; one byte more closes it."""
    waiting = (GET + b"\r\n") * 8
    waiting += b"a" * (bounds.AHEAD_BYTES - len(waiting) + more)
    with serving() as server, connected(server) as client:
        client.sendall(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n" + waiting)
        wait_until(lambda: server.tasks or closed, what="the request")
        if closed:
            assert received(client) == b""
        else:
            (connection,) = server.connections
            wait_until(lambda: len(connection._received) == bounds.AHEAD_BYTES, what="all requests")
            assert server.connections


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (b"", b""),
        (b"G", b"HTTP/1.1 408 "),
        (GET, b"HTTP/1.1 408 "),
        (GET + b"Content-Length: 5\r\n\r\nabc", OK),
        (GET + b"\r\n" + b"GET /", OK),
    ],
)
def test_a_slow_request_is_closed(monkeypatch: pytest.MonkeyPatch, first: bytes, answer: bytes) -> None:
    """A request that is incomplete at its deadline ends its connection, even if it already has a response."""
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 0.3)
    with serving() as server, connected(server) as client:
        client.sendall(first)
        assert received(client).startswith(answer)


def test_bytes_now_and_then_move_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a complete request moves the deadline: a client that keeps sending is closed too."""
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 0.4)
    with serving() as server, connected(server) as client:
        client.sendall(GET + b"X: ")
        client.settimeout(0.05)
        for _ in range(200):
            with contextlib.suppress(TimeoutError):
                assert client.recv(100).startswith(b"HTTP/1.1 408 ")
                return
            client.sendall(b"a")
    pytest.fail("the connection was not closed")


def test_a_connection_between_requests_has_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scraper's connection stays open from one scrape to the next, and each request has its own deadline."""
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 0.2)
    with serving() as server, connected(server) as client, connected(server) as silent:
        for _ in range(3):
            assert asked(client).startswith(OK)
            received(silent)  # the deadline of a connection that was opened with the first
            silent = connected(server)  # noqa: PLW2901 - and another
        silent.close()


def test_a_client_beside_half_heads_is_answered() -> None:
    """The oldest idle connection is closed for a new one; a request in progress keeps its connection."""
    with serving(connections=4) as server, contextlib.ExitStack() as stack:
        busy = stack.enter_context(connected(server))
        busy.sendall(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: server.tasks, what="the request")
        halves = [stack.enter_context(connected(server)) for _ in range(9)]
        for half in halves[:3]:
            half.sendall(GET)
        client = stack.enter_context(connected(server))
        assert asked(client).startswith(OK)
        assert [received(half) for half in halves[:7]] == [b""] * 7
        assert len(server.connections) == 4
        assert server.tasks


def test_answered_connections_make_room() -> None:
    """A connection that has its response is idle: the oldest one is closed first."""
    with serving(connections=2) as server, contextlib.ExitStack() as stack:
        clients = []
        for _ in range(4):
            clients.append(stack.enter_context(connected(server)))
            assert asked(clients[-1]).startswith(OK)
        assert [received(client) for client in clients[:2]] == [b"", b""]


def test_clients_that_leave_make_room() -> None:
    """A connection that its client closed in the middle of a request frees its slot."""
    with serving(connections=2) as server:
        for _ in range(4):
            with connected(server) as client:
                client.sendall(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
                wait_until(lambda: server.tasks, what="the request")
            wait_until(lambda: not server.connections, what="the end of the connection")
            for task in list(server.tasks):
                task.get_loop().call_soon_threadsafe(task.cancel)
            wait_until(lambda: not server.tasks, what="the end of the request")
        with connected(server) as client:
            assert asked(client).startswith(OK)


def test_an_upgrade_ends_with_its_answer() -> None:
    """A request for another protocol gets an HTTP response, and its connection is closed."""
    with serving() as server:
        assert answers(server, GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n").startswith(OK)


@pytest.mark.parametrize(("target", "host"), [("/", "x"), ("http://other:1/", "other:1")])
def test_an_absolute_target_goes_before_the_header(target: str, host: str) -> None:
    """The host of a request, with its port, is that of its target, if the target has one."""
    with serving() as server:
        answer = answers(server, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.endswith(b"\r\n\r\n" + host.encode())
