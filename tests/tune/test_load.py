"""What the load client requests, counts and bounds."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.support import real_uwsgi
from uwsgi_headroom.tune.load import Load, Tally, ask, measure

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[tuple[str, int]]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()


def answering(answer: bytes, seen: list[bytes] | None = None) -> Serve:
    """A server that sends this, and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(request)
        writer.write(answer)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    return serve


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (OK, 200),
        (b"HTTP/1.0 404 Not Found\r\n\r\n" + b"x" * 300_000, 404),
        (b"HTTP/1.1 503 Busy\r\n\r\n", 503),
        (b"", "connection reset by peer"),
        (b"hello\n", "no HTTP"),
        (b"SSH-2.0 server\r\n", "no HTTP"),
    ],
)
def test_a_request_has_a_status_or_a_reason(answer, expected):
    """On a connection of its own."""
    seen: list[bytes] = []

    async def run() -> int | str:
        async with serving(answering(answer, seen)) as address:
            return await ask(address, "/a?b")

    assert asyncio.run(run()) == expected
    assert seen == [b"GET /a?b HTTP/1.0\r\nHost: localhost\r\n\r\n"]


def test_a_client_that_leaves():
    """Its patience ends before the answer comes."""

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # the client has left
        writer.close()

    async def run() -> int | str:
        async with serving(never) as address:
            return await ask(address, "/", patience=0.05)

    assert asyncio.run(run()) == "timeout"


def test_a_server_that_takes_no_connection(tmp_path):
    """A port without a listener, and a UNIX socket whose queue is full: both are refused at once."""
    assert asyncio.run(ask(("127.0.0.1", real_uwsgi.free_port()), "/")) == "refused"
    with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
        full.bind(str(tmp_path / "s"))
        full.listen(0)
        first.connect(str(tmp_path / "s"))
        assert asyncio.run(ask(str(tmp_path / "s"), "/")) == "refused"


def test_a_closed_loop():
    """So many clients request the paths in turn; only the measured time counts."""
    seen: list[bytes] = []
    begun: list[int] = []

    async def run() -> Tally:
        async with serving(answering(OK, seen)) as address:
            load = Load(paths=("/a", "/b?c"), clients=3, warm_up=0.1, seconds=0.3)
            return await measure(load, address, lambda: begun.append(len(seen)), lambda: None)

    tally = asyncio.run(run())
    paths = [request.split()[1] for request in seen]
    assert {paths.count(b"/a"), paths.count(b"/b?c")} <= {len(paths) // 2, (len(paths) + 1) // 2}
    assert begun[0] > 0
    assert len(seen) - begun[0] - 3 <= tally.answered <= len(seen) - begun[0] + 3
    assert tally.errors == {}
    assert tally.throughput == pytest.approx(tally.answered / tally.seconds)
    assert 0 < tally.mean <= tally.longest
    assert tally.percentile(0.5) <= tally.percentile(0.99) <= 1.02 * tally.longest


def test_failures_are_counted_by_kind():
    """And are not repeated without a pause."""

    async def run() -> Tally:
        async with serving(answering(b"HTTP/1.1 500 Error\r\n\r\n")) as address:
            return await measure(Load(clients=2, warm_up=0.0, seconds=0.3), address, lambda: None, lambda: None)

    tally = asyncio.run(run())
    assert (tally.answered, tally.failed_part) == (0, 1.0)
    assert set(tally.errors) == {"status 500"}
    assert tally.errors.total() <= 2 * 0.3 / 0.05 + 2


def test_requests_without_an_answer_for_the_whole_time():
    """They are failures, although nothing happened."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await reader.read()  # until the client has left: from Python 3.12 on, a server waits for its connections
        writer.close()

    async def run() -> Tally:
        async with serving(hang) as address:
            return await measure(Load(clients=4, warm_up=0.1, seconds=0.2), address, lambda: None, lambda: None)

    assert asyncio.run(run()).errors == {"no answer": 4}


def test_a_check_ends_the_load():
    """At once, with its error, and without clients that go on."""

    async def run() -> None:
        async with serving(answering(OK)) as address:

            def check() -> None:
                raise RuntimeError("the server has ended")

            with pytest.raises(RuntimeError, match="the server has ended"):
                await measure(Load(clients=2, seconds=60.0), address, lambda: None, check)
            clients = [task for task in asyncio.all_tasks() if "repeat" in task.get_coro().__qualname__]
            assert clients == []

    asyncio.run(run())


def test_redirects_and_errors_below_500_are_answers():
    """They are counted by status as well."""
    tally = Tally(seconds=2.0)
    assert [tally.add(0.1, status) for status in (200, 300, 404, 404, 500)] == [True, True, True, True, False]
    assert (tally.answered, tally.throughput, tally.failed_part) == (4, 2.0, 0.2)
    assert tally.unsuccessful == {300: 1, 404: 2}


def test_percentiles_are_those_of_the_times():
    """To 1 %."""
    tally = Tally()
    for number in range(1, 1001):
        tally.add(number / 1000, 200)
    assert tally.percentile(0.5) == pytest.approx(0.5, rel=0.011)
    assert tally.percentile(0.99) == pytest.approx(0.99, rel=0.011)
    assert Tally().percentile(0.99) == 0
