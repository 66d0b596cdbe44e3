"""The HTTP server's requests: their heads, those that are too large, too slow or too many, and their turns."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.cancellation import cancelled_everywhere
from tests.support.real_uwsgi import wait_until
from tests.support.web_server import LimitedServer, limited_server
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.bounds import BODY_BYTES, HEAD_BYTES, HEAD_LINES, LINE_BYTES
from uwsgi_headroom.web.connection_slots import RequestTurns
from uwsgi_headroom.web.request_head import RefusedHeadError, measure, parse
from uwsgi_headroom.web.request_values import PiecewiseResponse

FIRST = b"GET / HTTP/1.1\r\n"


def fed(data: bytes, size: int) -> int:
    """The status of the refusal of this much of a head, received in parts of `size` bytes; 0 without one."""
    received = bytearray()
    try:
        for start in range(0, len(data), size):
            seen = len(received)
            received += data[start : start + size]
            assert measure(received, seen) == 0
    except RefusedHeadError as refused:
        return refused.status
    return 0


def line(length: int) -> bytes:
    return b"X: " + b"a" * (length - 5) + b"\r\n"


@pytest.mark.parametrize("size", [1, 100, 65536])
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (FIRST + line(LINE_BYTES), 0),
        (FIRST + line(LINE_BYTES + 1), 431),
        (FIRST + b"a" * (LINE_BYTES + 1), 431),
        (line(LINE_BYTES), 0),
        (line(LINE_BYTES + 1), 414),
        (line(8) * HEAD_LINES, 0),
        (line(8) * HEAD_LINES + b"\r", 431),
        (b"\n" * HEAD_LINES, 0),
        (b"\n" * HEAD_LINES + b"G", 431),
        (line(1024) * (HEAD_BYTES // 1024), 0),
        (line(1024) * (HEAD_BYTES // 1024) + b"\r", 431),
    ],
)
def test_bounds(head, status, size):
    """A line and a head may be as long as the bounds and not a byte longer, in any parts."""
    assert fed(head, size) == status


@pytest.mark.parametrize("empty_lines", [b"", b"\r\n", b"\n\r\n"])
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_head_ends_at_its_empty_line(empty_lines, end):
    """Empty lines before it do not count as that line, and what follows is not looked at."""
    head = empty_lines + FIRST + b"Host: x\r\n" + end
    assert measure(head) == len(head)
    assert measure(head + b"\n" * 10 * HEAD_BYTES) == len(head)
    assert not any(measure(head[:length]) for length in range(len(head)))


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        (b"", 0),
        (b"Content-Length: 65536\r\n", BODY_BYTES),
        (b"Content-Length: 65537\r\n", 413),
        (b"Transfer-Encoding: chunked\r\n", 411),
        (b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        (b"Content-Length: -1\r\n", 400),
        (b"Content-Length: 99999999999999999999\r\n", 400),
    ],
)
def test_the_length_of_a_body(headers, length):
    """It comes from a header. A body without a length is refused, and so is a head with two."""
    if length in (400, 411, 413):
        with pytest.raises(RefusedHeadError) as refused:
            parse(FIRST + headers + b"\r\n")
        assert refused.value.status == length
    else:
        assert parse(FIRST + headers + b"\r\n").body_bytes == length


@pytest.mark.parametrize(
    "data",
    [
        b"G\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\n\r\n",
        FIRST + b"no colon\r\n\r\n",
        FIRST + b"a\0b: c\r\n\r\n",
        FIRST + b" folded: c\r\n\r\n",
        FIRST + b"a: b\r\n c\r\n\r\n",
        FIRST + b"a: b\0c\r\n\r\n",
        FIRST + b"Content-Length:\r\n\r\n",
        FIRST + b"Host: x\r\nhost: x\r\n\r\n",
        b"\x00\x01\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
    ],
)
def test_what_is_no_request(data):
    with pytest.raises(RefusedHeadError) as refused:
        parse(data)
    assert refused.value.status == 400


def test_a_request():
    """What the application sees of it: names in lower case, the path decoded, the query as it is."""
    head = parse(b"POST /a%20b?c=%20d HTTP/1.0\r\nHOST: x\r\nX-Y:  Z\r\n\r\n")
    assert (head.method, head.http_version, head.raw_path, head.path) == ("POST", "1.0", b"/a%20b", "/a b")
    assert (head.query, head.headers) == (b"c=%20d", [(b"host", b"x"), (b"x-y", b"Z")])
    assert not head.keeps_alive
    assert parse(FIRST + b"\r\n").keeps_alive
    for ending in (b"Connection: close", b"Connection: Upgrade\r\nUpgrade: h2c", b"Expect: 100-continue"):
        assert not parse(FIRST + ending + b"\r\n\r\n").keeps_alive


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://shop.example/x", b"shop.example"),
        (b"http://shop.example:9238/x", b"shop.example:9238"),
        (b"http://[::1]:9238/x", b"[::1]:9238"),
        (b"http://user:word@[::1]", b"[::1]"),
    ],
)
def test_an_absolute_target(target, host):
    """Its host and port override the Host header, in the form of that header."""
    head = parse(b"GET %b HTTP/1.1\r\nHost: other\r\n\r\n" % target)
    assert head.headers == [(b"host", host)]


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
        (GET + b"Content-Length: %d\r\n\r\n" % (bounds.BODY_BYTES + 1), b"413 "),
    ],
)
def test_a_request_that_is_too_large(request_, status):
    """The response names the error, and the connection is closed."""
    with serving() as server:
        answer = answers(server, request_)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close" in answer.lower()


def test_requests_as_large_as_they_may_be():
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
def test_an_answer_before_the_end_of_its_body(monkeypatch, head):
    """A client that is still sending a body when its last answer is complete can send it all, and read the answer."""
    monkeypatch.setattr(bounds, "LINGER_SECONDS", 30.0)
    with serving() as server, connected(server) as client:
        client.sendall(head + b"Content-Length: 60000\r\n\r\n")
        wait_until(lambda: any(not each._takes_data for each in server.connections), what="the answer")
        for _ in range(60):
            client.sendall(bytes(1000))
        assert client.recv(1000, socket.MSG_PEEK).startswith(OK)
        assert received(client).endswith(b"\r\n\r\nx")


def test_whole_responses():
    """A fault before the body is one that names the error."""
    with serving() as server:
        answer = answers(server, b"GET /fault HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert answer.endswith(b"\r\n\r\nInternal Server Error\n")
    body = b"Content-Length: 3\r\n\r\n\n\n\n"
    with serving() as server:
        answer = answers(server, GET + body + GET + b"\r\n" + GET + body + GET + b"Connection: close\r\n\r\n")
    assert (answer.count(OK), answer.count(b"\r\nconnection: close\r\n")) == (4, 1)
    with serving() as server:
        assert answers(server, GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n").startswith(OK)


@pytest.mark.parametrize(("more", "closed"), [(0, False), (1, True)])
def test_pipelined_requests(more, closed):
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
def test_a_slow_request_is_closed(monkeypatch, first, answer):
    """A request that is incomplete at its deadline ends its connection, even if it already has a response."""
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 0.3)
    with serving() as server, connected(server) as client:
        client.sendall(first)
        assert received(client).startswith(answer)


def test_bytes_now_and_then_move_no_deadline(monkeypatch):
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


def test_a_connection_between_requests_has_no_deadline(monkeypatch):
    """A scraper's connection stays open from one scrape to the next, and each request has its own deadline."""
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 0.2)
    with serving() as server, connected(server) as client, connected(server) as silent:
        for _ in range(3):
            assert asked(client).startswith(OK)
            received(silent)  # the deadline of a connection that was opened with the first
            silent = connected(server)  # noqa: PLW2901 - and another
        silent.close()


def test_a_client_beside_half_heads_is_answered():
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


def test_answered_connections_make_room():
    """A connection that has its response is idle: the oldest one is closed first."""
    with serving(connections=2) as server, contextlib.ExitStack() as stack:
        clients = []
        for _ in range(4):
            clients.append(stack.enter_context(connected(server)))
            assert asked(clients[-1]).startswith(OK)
        assert [received(client) for client in clients[:2]] == [b"", b""]


def test_clients_that_leave_make_room():
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


SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}


async def receive() -> Any:
    return await asyncio.Event().wait()


async def send(_message: object) -> None:
    pass


class Loop:
    """Counts the turns of the event loop, and what happens in each."""

    def __init__(self) -> None:
        self.turn = 0
        self.events: Counter[int] = Counter()

    def note(self) -> None:
        self.events[self.turn] += 1

    def count(self) -> None:
        self.turn += 1
        self._handle = asyncio.get_running_loop().call_soon(self.count)

    def stop(self) -> None:
        self._handle.cancel()


async def test_few_requests_begin_in_a_turn():
    """200 requests at once begin two by two, in their order."""
    order: list[int] = []

    loop = Loop()

    async def app(scope, _receive, _send):
        order.append(scope["number"])
        loop.note()

    turns = RequestTurns(app)
    requests = [asyncio.create_task(turns({**SCOPE, "number": n}, receive, send)) for n in range(200)]
    loop.count()
    await asyncio.gather(*requests)
    loop.stop()
    assert max(loop.events.values()) <= bounds.REQUESTS_IN_A_TURN
    assert loop.turn <= 200 / bounds.REQUESTS_IN_A_TURN + 5
    await asyncio.sleep(0.01)
    assert not turns._is_counting  # an idle exporter has no turns of its own
    assert order == list(range(200))


async def test_pieces_of_large_responses_take_turns_too(monkeypatch):
    """A large body is sent in pieces, each a place in a turn, and arrives whole."""
    monkeypatch.setattr(bounds, "PIECE_BYTES", 10)
    body = bytes(range(95))
    received: dict[int, list[Any]] = {}

    loop = Loop()
    turns = RequestTurns(PiecewiseResponse(body))

    async def one(number):
        async def send(message):
            received.setdefault(number, []).append(message)
            if message.get("more_body"):
                loop.note()

        await turns(SCOPE, receive, send)

    requests = [asyncio.create_task(one(number)) for number in range(20)]
    loop.count()
    await asyncio.gather(*requests)
    loop.stop()
    assert max(loop.events.values()) <= bounds.REQUESTS_IN_A_TURN
    for start, *pieces in received.values():
        assert (start["status"], dict(start["headers"])[b"content-length"]) == (200, b"95")
        assert b"".join(piece["body"] for piece in pieces) == body
        assert [piece["more_body"] for piece in pieces] == [True] * 9 + [False]
        assert max(len(piece["body"]) for piece in pieces) == 10


async def test_a_large_response_does_not_wait_behind_a_crowd(monkeypatch):
    """Beside 200 requests that wait to begin, each piece of a response waits for two turns at most."""
    monkeypatch.setattr(bounds, "PIECE_BYTES", 10)

    loop = Loop()
    large = PiecewiseResponse(bytes(95))
    begun: list[int] = []

    async def app(scope, receive, send):
        begun.append(scope["number"])
        if scope["number"] == 0:
            await large(scope, receive, send)

    turns = RequestTurns(app)
    first = asyncio.create_task(turns({**SCOPE, "number": 0}, receive, send))
    crowd = [asyncio.create_task(turns({**SCOPE, "number": n}, receive, send)) for n in range(1, 201)]
    loop.count()
    await first
    assert loop.turn <= 2 * 10 + 2
    await asyncio.gather(*crowd)
    loop.stop()
    assert begun == list(range(201))


def test_head_of_a_large_response(monkeypatch):
    """A body of exactly one piece is sent at once, and an empty one too."""
    monkeypatch.setattr(bounds, "PIECE_BYTES", 10)
    for size in (0, 10):
        sent: list[Any] = []

        async def note(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        asyncio.run(PiecewiseResponse(bytes(size))(SCOPE, receive, note))
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


async def test_cancelled_anywhere():
    """A request that ends while it waits takes no place from those behind it."""

    async def app(_scope, _receive, _send):
        await asyncio.sleep(0)

    turns = RequestTurns(app)

    async def crowd():
        await asyncio.gather(*(turns(SCOPE, receive, send) for _ in range(7)))

    async def check():
        await asyncio.wait_for(turns(SCOPE, receive, send), 60)

    assert await cancelled_everywhere(crowd, check) >= 1
    await asyncio.sleep(0.01)
    assert not turns._requests
    assert not turns._pieces
