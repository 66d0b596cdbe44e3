"""Streams of the real exporter: beside a real uWSGI, with stalled clients, and at shutdown."""

import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.documents.test_openapi import validate
from tests.support.captured_documents import document
from tests.support.exporter import Exporter, exporter
from tests.support.real_uwsgi import uwsgi, wait_until
from tests.web.test_event_stream import listening, next_document
from uwsgi_headroom.web.bounds import MOST_STREAMS, STALLED_SECONDS, UNSENT_BYTES

pytestmark = pytest.mark.integration


def get(exporter: Exporter, path: str) -> dict[str, object]:
    return json.loads(exporter.get(path)[1])


def until(response: object, condition: Callable[[dict[str, object]], object], documents: int = 40) -> dict[str, object]:
    for _ in range(documents):
        received = next_document(response)
        if condition(received):
            return received
    raise AssertionError(f"not within {documents} documents: {received}")


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
        listed = get(exporting, "/api/v2/servers")
        history = get(exporting, "/api/v2/servers/shop/history?seconds=60&points=60")
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


def test_listeners_cost_uwsgi_nothing():
    """Streams use existing samples: with many listeners, uWSGI is read as often as with none."""
    with uwsgi("--processes", "1") as server, exporter("--stats", f"shop={server.stats}") as exporting:

        def samples():
            return int(get(exporting, "/api/v2/servers/shop")["sampling"]["samples"])

        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(listening(exporting.port, "/api/v2/servers/shop/events")) for _ in range(5)]
            next_document(streams[0])
            before, began = samples(), time.monotonic()
            for _ in range(50):
                samples()
                get(exporting, "/api/v2/servers")
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
        assert len(set(times)) == len(times) > STALLED_SECONDS / 2


def _is_full(exporting: Exporter) -> bool:
    with listening(exporting.port, "/api/v2/events") as response:
        return response.status == 503


def _connections(process: psutil.Process) -> int:
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in process.net_connections("tcp"))


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
