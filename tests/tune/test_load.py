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


def asked(serve: Serve, path: str = "/", **options: float) -> int | str:
    """What one request of this server gives."""

    async def run() -> int | str:
        async with serving(serve) as address:
            return await ask(address, path, **options)

    return asyncio.run(run())


def loaded(serve: Serve, begin=lambda: None, check=lambda: None, **load) -> Tally:
    """What a load of this server gives."""

    async def run() -> Tally:
        async with serving(serve) as address:
            return await measure(Load(**load), address, begin, check)

    return asyncio.run(run())


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
    seen: list[bytes] = []
    assert asked(answering(answer, seen), "/a?b") == expected
    assert seen == [b"GET /a?b HTTP/1.0\r\nHost: localhost\r\n\r\n"]


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers nothing until the client has left; from Python 3.12 on, a server waits for its connections."""
    with contextlib.suppress(asyncio.CancelledError):
        await reader.read()
    writer.close()


def test_a_server_that_does_not_answer():
    """A client's patience ends. All requests without an answer are failures, although nothing happened."""
    assert asked(hang, patience=0.05) == "timeout"
    assert loaded(hang, clients=4, warm_up=0.1, seconds=0.2).errors == {"no answer": 4}


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
    load = {"paths": ("/a", "/b?c"), "clients": 3, "warm_up": 0.1, "seconds": 0.3}
    tally = loaded(answering(OK, seen), lambda: begun.append(len(seen)), **load)
    paths = [request.split()[1] for request in seen]
    assert {paths.count(b"/a"), paths.count(b"/b?c")} <= {len(paths) // 2, (len(paths) + 1) // 2}
    assert begun[0] > 0
    assert len(seen) - begun[0] - 3 <= tally.answered <= len(seen) - begun[0] + 3
    assert tally.errors == {}
    assert tally.throughput == pytest.approx(tally.answered / tally.seconds)
    assert 0 < tally.mean <= tally.longest
    assert tally.percentile(0.5) <= tally.percentile(0.99) <= 1.02 * tally.longest


def test_failures_are_counted_by_kind_and_not_repeated_without_a_pause():
    tally = loaded(answering(b"HTTP/1.1 500 Error\r\n\r\n"), clients=2, warm_up=0.0, seconds=0.3)
    assert (tally.answered, tally.failed_part) == (0, 1.0)
    assert set(tally.errors) == {"status 500"}
    assert tally.errors.total() <= 2 * 0.3 / 0.05 + 2


def test_a_check_ends_the_load():
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
    tally = Tally(seconds=2.0)
    assert [tally.add(0.1, status) for status in (200, 300, 404, 404, 500)] == [True, True, True, True, False]
    assert (tally.answered, tally.throughput, tally.failed_part) == (4, 2.0, 0.2)
    assert tally.unsuccessful == {300: 1, 404: 2}
    # Percentiles are those of the times, to 1 %.
    tally = Tally()
    for number in range(1, 1001):
        tally.add(number / 1000, 200)
    assert tally.percentile(0.5) == pytest.approx(0.5, rel=0.011)
    assert tally.percentile(0.99) == pytest.approx(0.99, rel=0.011)
    assert Tally().percentile(0.99) == 0
