"""Server-Sent Events: their content, their number, and listeners that are slow or leave."""

import asyncio
import contextlib
import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.documents.test_openapi import validate
from tests.support.captured_documents import document
from tests.support.exporter import Exporter, exporter
from tests.support.real_uwsgi import uwsgi, wait_until
from tests.support.web_server import get, serving
from tests.web.test_app import replayed
from uwsgi_headroom.web import shared_builds as module
from uwsgi_headroom.web.bounds import MOST_STREAMS, STALLED_SECONDS, UNSENT_BYTES
from uwsgi_headroom.web.request_values import RefusedError
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
    """The first document arrives at once, others each second, and each matches its description."""
    with serving(replayed("threads_4x8_busy"), "gone=/nowhere/stats") as port:
        get(port, "/api/v2/servers")
        for path, schema in (("servers/threads_4x8_busy/events", "ServerDocument"), ("events", "Servers")):
            with listening(port, f"/api/v2/{path}") as response:
                assert response.getheader("Content-Type", "").startswith("text/event-stream")
                assert response.getheader("Cache-Control") == "no-store"
                assert response.readline() == b"retry: 2000\n"
                first, _, third = (next_document(response) for _ in range(3))
            validate(first, schema)
            assert third["time"] > first["time"]


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


async def next_document_of(events: AsyncIterator[bytes]) -> bytes:
    """The next document of a stream; b"" at its end."""
    async for part in events:
        if part == b"data: ":
            return await anext(events)
    return b""


def test_streams_of_a_server_have_the_same_instants():
    """So that they share each build; those of many servers do not all begin at once."""
    for key in ("a", "b"):
        instants = [now + module.pause_seconds(key, now) for now in (7.0, 7.3, 8.9, 1e6)]
        assert [(each - instants[0] + 0.5) % 1 for each in instants] == pytest.approx([0.5] * 4, abs=1e-6)
        assert all(0 < module.pause_seconds(key, now) <= module.EVERY_SECONDS for now in (7.0, 7.3, 8.9))
    assert len({round(module.pause_seconds(key, 0.0), 3) for key in range(50)}) == 50


async def test_who_is_slow_gets_the_newest(monkeypatch):
    """Nothing is made for a listener that takes nothing."""
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.001)
    streams, make = EventStreams(), Maker(last=3)
    events = streams.events("a", make)
    assert await next_document_of(events) == b"1"
    for _ in range(5):
        await asyncio.sleep(0.001)
    assert make.made == 1
    assert [await next_document_of(events) for _ in range(3)] == [b"2", b"3", b""]


async def test_a_refused_document_is_left_out(monkeypatch):
    """The exporter is too busy for it, and the stream goes on."""
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.001)
    make = Maker()

    async def refuse_first():
        if await make() == b"1":
            raise RefusedError(503, "too many")
        return b"x"

    assert await next_document_of(EventStreams().events("a", refuse_first)) == b"x"
    assert make.made == 2


async def never() -> bytes:
    await asyncio.Event().wait()
    return b""


@pytest.mark.parametrize("make", [never, Maker()])
async def test_a_cancelled_listener_leaves_nothing(make):
    """While it waits for its first document, or for a later one."""
    before, streams, sent = asyncio.all_tasks(), EventStreams(), []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "asgi": {"spec_version": "2.3"}, "method": "GET", "path": "/", "headers": []}
    listener = asyncio.create_task(streams.response("a", make)(scope, never, send))
    while len(sent) < (2 if make is never else 5):  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0)
    assert streams.open == 1
    listener.cancel()
    await asyncio.wait({listener})
    assert (streams.open, streams._waits) == (0, set())
    assert asyncio.all_tasks() == before


async def test_when_the_exporter_stops():
    """Every stream ends at once, even one that waits for its first document."""
    streams = EventStreams()
    first, second = streams.events("a", Maker()), streams.events("b", never)
    assert await next_document_of(first) == b"1"
    waiting = [asyncio.create_task(next_document_of(events)) for events in (first, second)]
    await asyncio.sleep(0.01)
    streams.close()
    assert await asyncio.gather(*waiting) == [b"", b""]
    assert await next_document_of(streams.events("c", Maker())) == b""


def get_now(exporter: Exporter, path: str) -> dict[str, object]:
    return json.loads(exporter.get(path)[1])


def until(response: object, condition: Callable[[dict[str, object]], object], documents: int = 40) -> dict[str, object]:
    for _ in range(documents):
        received = next_document(response)
        if condition(received):
            return received
    raise AssertionError(f"not within {documents} documents: {received}")


@pytest.mark.integration
def test_a_server_that_goes_down_and_comes_back():
    """The stream continues: down with the last figures and the reason, then up again."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(uwsgi("--processes", "2", "--threads", "2"))
        exporting = stack.enter_context(exporter("--stats", f"shop={server.stats}"))
        response = stack.enter_context(listening(exporting.port, "/api/v2/servers/shop/events"))
        up = until(response, lambda received: received["flow"])
        server.process.send_signal(signal.SIGSTOP)
        silent = until(response, lambda received: received["state"] != "up", 6)
        server.process.send_signal(signal.SIGCONT)
        again = until(response, lambda received: received["state"] == "up")
        server.process.send_signal(signal.SIGINT)
        server.process.wait(60)
        down = until(response, lambda received: received["state"] == "down")
        listed = get_now(exporting, "/api/v2/servers")
        history = get_now(exporting, "/api/v2/servers/shop/history?seconds=60&points=60")
    # Stale until the read under way times out, a moment later.
    assert silent["state"] in ("stale", "down")
    assert silent["workers"]
    assert down["error"]
    assert down["flow"]
    assert str(down["verdict"]).startswith("Down: ")
    for received in (up, silent, again, down):
        validate(received, "ServerDocument")
    validate(listed, "Servers")
    validate(history, "HistoryDocument")
    assert history["time"]


@pytest.mark.integration
def test_listeners_cost_uwsgi_nothing():
    """Streams use existing samples: with many listeners, uWSGI is read as often as with none."""
    with uwsgi("--processes", "1") as server, exporter("--stats", f"shop={server.stats}") as exporting:

        def samples():
            return int(get_now(exporting, "/api/v2/servers/shop")["sampling"]["samples"])

        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(listening(exporting.port, "/api/v2/servers/shop/events")) for _ in range(5)]
            next_document(streams[0])
            before, began = samples(), time.monotonic()
            for _ in range(50):
                samples()
                get_now(exporting, "/api/v2/servers")
            for response in streams:
                next_document(response)
            read, seconds = samples() - before, time.monotonic() - began
        assert read <= 5 * seconds * 1.25 + 2  # five a second, with a jitter of a fifth


@contextlib.contextmanager
def large(folder: Path) -> Iterator[Exporter]:
    """An exporter whose documents are larger than any buffer: 512 workers."""
    tree = json.loads(document("threads_4x8_busy"))
    tree["workers"] *= 128
    (folder / "large.json").write_text(json.dumps(tree))
    with exporter("--stats", f"large=file://{folder}/large.json") as exporting:
        yield exporting


def stalled(exporting: Exporter) -> socket.socket:
    """A client that requests a stream and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", exporting.port))
    client.sendall(b"GET /api/v2/servers/large/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


@pytest.mark.integration
def test_who_stalls_is_dropped_and_costs_no_memory(tmp_path):
    """With the most streams allowed, none of them read, the exporter grows only by their buffers, closes them, and has
    room again; a client that reads gets documents all the time."""
    with large(tmp_path) as exporting, contextlib.ExitStack() as stack:
        process = psutil.Process(exporting.process.pid)
        reader = stack.enter_context(listening(exporting.port, "/api/v2/servers/large/events"))
        size = len(json.dumps(next_document(reader)))
        assert size > 2 * UNSENT_BYTES
        before = process.memory_info().rss
        for _ in range(MOST_STREAMS - 1):
            stack.enter_context(contextlib.closing(stalled(exporting)))
        wait_until(lambda: _is_full(exporting), what="as many streams as there may be")
        times, most = [], 0
        end = time.monotonic() + 3 * STALLED_SECONDS
        while _connections(process) > 3 and time.monotonic() < end:
            times.append(next_document(reader)["time"])
            most = max(most, process.memory_info().rss)
        assert _connections(process) <= 3
        with listening(exporting.port, "/api/v2/events") as response:
            assert response.status == 200
        assert most - before < (MOST_STREAMS + 8) * 2 * size
        assert sorted(times) == times
        assert len(set(times)) > STALLED_SECONDS / 2


def _is_full(exporting: Exporter) -> bool:
    with listening(exporting.port, "/api/v2/events") as response:
        return response.status == 503


def _connections(process: psutil.Process) -> int:
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in process.net_connections("tcp"))


@pytest.mark.integration
def test_it_stops_in_its_usual_time(tmp_path):
    """Streams end when the exporter stops, including those that nobody reads."""
    with large(tmp_path) as exporting, contextlib.ExitStack() as stack:
        readers = [stack.enter_context(listening(exporting.port, "/api/v2/events")) for _ in range(3)]
        for response in readers:
            next_document(response)
        for _ in range(3):
            stack.enter_context(contextlib.closing(stalled(exporting)))
        for _ in range(4):
            next_document(readers[0])
        ended = threading.Event()

        def read_on():
            while readers[0].readline():
                pass
            ended.set()

        threading.Thread(target=read_on, daemon=True).start()
        exporting.process.send_signal(signal.SIGTERM)
        exporting.process.wait(60)
        assert ended.wait(60)
        assert not exporting.lines("requests were cut off")
        assert not exporting.lines("level=error")
