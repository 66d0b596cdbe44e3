"""Server-Sent Events: their content, their number, and listeners that are slow or leave."""

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.documents.test_openapi import validate
from tests.support.web_server import get, serving
from tests.web.test_app import replayed
from uwsgi_headroom.web import shared_builds as module
from uwsgi_headroom.web.bounds import MOST_STREAMS
from uwsgi_headroom.web.shared_builds import EventStreams


@contextlib.contextmanager
def listening(port: int, path: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        yield response
        response.close()


def next_document(response: http.client.HTTPResponse) -> dict[str, object]:
    while not (line := response.readline()).startswith(b"data: "):
        assert line, "the stream ended"
    return json.loads(line.removeprefix(b"data: "))


def test_a_server_and_the_list():
    """The first document arrives at once, another a second later, and each matches its description."""
    with serving(replayed("threads_4x8_busy"), "gone=/nowhere/stats") as port:
        get(port, "/api/v2/servers")
        for path, schema in (("servers/threads_4x8_busy/events", "ServerDocument"), ("events", "Servers")):
            with listening(port, f"/api/v2/{path}") as response:
                assert response.getheader("Content-Type", "").startswith("text/event-stream")
                assert response.getheader("Cache-Control") == "no-store"
                assert response.readline() == b"retry: 2000\n"
                first, second = next_document(response), next_document(response)
            validate(first, schema)
            assert second["time"] > first["time"]


def test_so_many_and_no_more():
    """A stream above the limit is refused with a retry time; after one is closed, there is room."""
    with serving(replayed("minified")) as port, contextlib.ExitStack() as stack:
        for _ in range(MOST_STREAMS - 1):
            next_document(stack.enter_context(listening(port, "/api/v2/servers/minified/events")))
        with listening(port, "/api/v2/events") as last:
            next_document(last)
            status, headers, body = get(port, "/api/v2/events")
            assert (status, headers["Retry-After"]) == (503, "2")
            validate(json.loads(body), "Problem")
            assert get(port)[0] == 200
        for _ in range(100):
            with listening(port, "/api/v2/events") as response:
                if response.status == 200:
                    next_document(response)
                    return
        pytest.fail("there is no room, though one was closed")


class Maker:
    """Makes documents and counts them; the last is followed by None."""

    def __init__(self, last: int = 10**9) -> None:
        self.made = 0
        self.last = last

    async def __call__(self) -> bytes | None:
        self.made += 1
        return None if self.made > self.last else b"%d" % self.made


@pytest.fixture
def at_once(monkeypatch):
    """Documents follow each other without delay."""
    monkeypatch.setattr(module, "EVERY_SECONDS", 0)


async def next_data(events: AsyncIterator[bytes]) -> bytes:
    async for event in events:
        if event.startswith(b"data: "):
            return event.removeprefix(b"data: ").strip()
    return b""


async def test_made_once_for_all_who_listen():
    streams, make = EventStreams(), Maker()
    with streams.subscribe("a", make) as first, streams.subscribe("a", make) as second:
        assert await next_data(first) == await next_data(second) == b"1"
        with streams.subscribe("a", make) as late:
            assert await next_data(late) == b"1"
        assert (make.made, streams.open) == (1, 2)
    made = make.made
    for _ in range(5):
        await asyncio.sleep(0)
    assert (make.made, streams.open) == (made, 0)
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.usefixtures("at_once")
async def test_who_is_slow_gets_the_newest():
    streams, make = EventStreams(), Maker()
    with streams.subscribe("a", make) as events:
        assert await next_data(events) == b"1"
        while make.made < 50:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        assert int(await next_data(events)) >= 49
    streams = EventStreams()
    with streams.subscribe("a", Maker(last=2)) as events:
        assert [await next_data(events) for _ in range(2)][-1] in (b"2", b"")
        assert await next_data(events) == b""
        with streams.subscribe("a", Maker()) as others:
            assert int(await next_data(others)) >= 1


async def test_a_fault_ends_the_stream_alone(caplog):
    """It is logged, unless it is a cancellation; no listener keeps waiting, and others continue."""

    async def broken():
        raise asyncio.CancelledError

    streams = EventStreams()
    with streams.subscribe("a", broken) as events, streams.subscribe("b", Maker()) as others:
        assert await asyncio.wait_for(next_data(events), 60) == b""
        assert await next_data(others) == b"1"

    async def broken():
        raise ZeroDivisionError

    streams = EventStreams()
    with streams.subscribe("a", broken) as events, streams.subscribe("b", Maker()) as others:
        assert await next_data(events) == b""
        assert await next_data(others) == b"1"
    assert "internal error" in caplog.text


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("documents", [0, 1])
async def test_a_cancelled_listener_leaves_nothing(documents):
    """A listener cancelled while it waits for the first or a later document leaves no task behind."""
    asked = asyncio.Event()
    made = 0

    async def make():
        nonlocal made
        made += 1
        if made > documents:
            asked.set()
            await asyncio.Event().wait()
        return b"x"

    streams = EventStreams()

    async def listen():
        with streams.subscribe("a", make) as events:
            async for _ in events:
                pass

    listener = asyncio.create_task(listen())
    await asyncio.wait_for(asked.wait(), 60)
    listener.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listener
    await asyncio.sleep(0)
    assert streams.open == 0
    assert len(asyncio.all_tasks()) == 1


async def test_when_the_exporter_stops():
    """Every stream ends at once, even one that waits for its first document."""

    async def never():
        await asyncio.Event().wait()
        return b""

    streams = EventStreams()
    with streams.subscribe("a", Maker()) as first, streams.subscribe("b", never) as second:
        assert await next_data(first) == b"1"
        waiting = [asyncio.create_task(next_data(events)) for events in (first, second)]
        await asyncio.sleep(0)
        streams.close()
        assert await asyncio.gather(*waiting) == [b"", b""]
