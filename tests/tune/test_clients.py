"""The clients of a load count every request, and hide no delay."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.tune.loads import clients
from uwsgi_headroom.tune.loads.clients import Clients
from uwsgi_headroom.tune.loads.load_tools import Answers, Load

PONG = b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nPong!"

Answer = Callable[[int, bytes], bytes | None]
"""Makes the response to a request by its number; None closes the connection."""


class Server:
    """A server with one thread, which answers one request after the other and keeps what it received."""

    def __init__(self, answer: Answer, *, keeps: bool) -> None:
        self._answer, self._keeps = answer, keeps
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.port = self.socket.getsockname()[1]
        self.requests: list[bytes] = []
        self.connections = 0

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                self.connections += 1
                connection.settimeout(0.2)
                with connection, contextlib.suppress(OSError):
                    while (request := connection.recv(4096)) and self._serve(connection, request) and self._keeps:
                        pass

    def _serve(self, connection: socket.socket, request: bytes) -> bool:
        self.requests.append(request)
        response = self._answer(len(self.requests), request)
        if response is not None:
            connection.sendall(response)
        return response is not None


@contextlib.contextmanager
def serving(answer: Answer = lambda _number, _request: PONG, *, keeps: bool = False) -> Iterator[Server]:
    server = Server(answer, keeps=keeps)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.socket.shutdown(socket.SHUT_RDWR)
        server.socket.close()
        thread.join(60)


def _apply(server: Server, **load: object) -> Answers:
    return Clients(Load(**{"warm_up": 0.0, "seconds": 0.25, "timeout": 5.0} | load), server.port).run()


def test_closed_loop_counts_the_measured_time_only(capsys):
    """The warm-up does not count; the runner learns when it is over, and the time at which it was."""
    start = time.monotonic()
    with serving() as server:
        answers = _apply(server, clients=2, paths=("/a", "/b?c=d"), warm_up=0.1, seconds=0.1)
    assert 0 < answers.answered < len(server.requests)
    assert answers.errors == {}
    word, begin = capsys.readouterr().out.split()
    assert word == "begin"
    assert start + 0.1 <= float(begin) <= time.monotonic() - 0.1
    lines = [request.split(b"\r\n")[0] for request in server.requests[:4]]
    assert lines == [b"GET /a HTTP/1.0", b"GET /b?c=d HTTP/1.0"] * 2
    assert 0 < answers.p50 <= answers.p95 <= answers.p99 <= answers.longest


def test_open_loop_shows_the_delay_of_a_stopped_server():
    """A server that stops for 0.8 of a second delays all requests of that time, not only the one in service: no
    coordinated omission. Of 100 requests, 80 are due meanwhile; half of all wait for at least 0.3 s."""

    def stop_once(number: int, _request: bytes) -> bytes:
        time.sleep(0.8 if number == 1 else 0)
        return PONG

    with serving(stop_once) as server:
        answers = _apply(server, rate=100.0, seconds=1.0)
    assert (answers.answered, answers.errors) == (100, {})
    assert answers.p50 >= 0.29
    assert answers.longest >= 0.8


def test_requests_beyond_those_in_flight_are_left_out_and_counted(monkeypatch):
    """Each request of the measured time is answered, failed or left out."""
    monkeypatch.setattr(clients, "MOST_IN_FLIGHT", 5)

    def stop_once(number: int, _request: bytes) -> bytes:
        time.sleep(0.2 if number == 1 else 0)
        return PONG

    with serving(stop_once) as server:
        answers = _apply(server, rate=100.0)
    assert answers.errors.keys() == {"left out"}
    assert answers.errors["left out"] >= 10
    assert answers.answered + answers.errors["left out"] == 25


def test_calls_of_a_kept_connection():
    """A connection carries as many calls as asked for; the last one announces the end."""
    response = PONG.replace(b"1.0", b"1.1")
    with serving(lambda _number, _request: response, keeps=True) as server:
        answers = _apply(server, clients=1, keep_alive=3)
    assert answers.errors == {}
    assert [b"Connection: close" in request for request in server.requests[:6]] == [False, False, True] * 2
    assert server.requests[0].startswith(b"GET / HTTP/1.1\r\n")
    assert server.connections == -(-len(server.requests) // 3)


def test_connection_that_the_server_closes_between_calls_is_replaced():
    """A server may end a kept connection at any time between two calls; that is no failure."""
    response = PONG.replace(b"1.0", b"1.1")
    with serving(lambda _number, _request: response) as server:  # closes each connection after the response
        answers = _apply(server, rate=80.0, keep_alive=10)
    assert (answers.answered, answers.errors) == (20, {})


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (b"HTTP/1.0 503 Busy\r\nContent-Length: 0\r\n\r\n", "status 503"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 50\r\n\r\nPong!", "reset"),
        (b"HTTP/1.0 200 OK\r\n", "reset"),
        (b"SMTP ready\r\n\r\n", "no HTTP"),
        (None, "reset"),
    ],
)
def test_failures_are_counted_by_kind(response, kind):
    """A response that is not complete is a failure."""
    with serving(lambda _number, _request: response) as server:
        answers = _apply(server, rate=50.0, seconds=0.1)
    assert (answers.answered, answers.errors) == (0, {kind: 5})
    assert answers.mean is None


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nPong!\r\n0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ],
)
def test_responses_of_all_lengths_are_answers(response):
    """The end of a response is found whether it has a length, chunks, no body, or ends with the connection."""
    with serving(lambda _number, _request: response) as server:
        assert _apply(server, rate=50.0, seconds=0.1).answered == 5


def test_refused_connections_do_not_use_up_a_cpu():
    """A client pauses after a failure."""
    with socket.socket() as bound:  # not listening
        bound.bind(("127.0.0.1", 0))
        answers = Clients(Load(clients=2, warm_up=0.0, seconds=0.2), bound.getsockname()[1]).run()
    assert answers.errors.keys() == {"refused"}
    assert answers.errors["refused"] <= 10


def test_timeouts():
    """A request without an answer within the timeout is a failure; one that is still within it at the end of a closed
    loop counts if it has waited for the whole measured time."""
    silence = threading.Event()

    def wait(_number: int, _request: bytes) -> None:
        silence.wait(60)

    with serving(wait) as server:
        timed_out = _apply(server, rate=20.0, seconds=0.2, timeout=0.1)
        unanswered = _apply(server, clients=3, warm_up=0.1, seconds=0.1)
        silence.set()
    assert timed_out == Answers(seconds=pytest.approx(0.2), answered=0, errors={"timeout": 4})
    assert unanswered.errors == {"no answer": 3}


def test_idle_connections_are_opened_first_and_again():
    """They send nothing, and are opened again when the server closes them."""
    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            for _ in range(5):
                opened.append(listener.accept()[0])
                if len(opened) == 3:
                    opened[0].close()
                    opened[1].close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        answers = Clients(Load(idle=3, warm_up=0.0, seconds=0.3), listener.getsockname()[1]).run()
        thread.join(60)
    assert answers == Answers(seconds=pytest.approx(0.3), answered=0)
    assert len(opened) == 5
    opened[2].setblocking(False)
    with pytest.raises(BlockingIOError):
        opened[2].recv(100)
    for each in opened:
        each.close()


def test_percentiles_are_nearest_ranks():
    """A percentile is one of the values."""
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([1.0, 2.0], 0.5) == 1.0


@pytest.mark.parametrize("load", [{"clients": 2}, {"rate": 100.0}])
def test_redirects_and_errors_below_500_are_answers(load: dict[str, object]) -> None:
    """They are counted by status besides."""
    statuses = (b"200 OK", b"302 Found", b"404 Not Found")

    def answer(number: int, _request: bytes) -> bytes:
        return b"HTTP/1.0 %b\r\nContent-Length: 0\r\n\r\n" % statuses[number % 3]

    with serving(answer) as server:
        answers = _apply(server, **load)
    assert set(answers.statuses) == {302, 404}
    assert answers.statuses[302] == pytest.approx(answers.answered / 3, abs=2)
    assert answers.errors == {}
