"""Measures sampling and scrapes while 200 clients ask for each route of the exporter at once, as fast as they can."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import random
import selectors
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median
from typing import Any

from tests.support import bad_servers, stored_days
from tests.support.bad_servers import CountedServer, counted_server
from tests.support.exporter import Exporter, configured_exporter
from tests.support.kernel_counts import peak_resident_bytes
from tests.support.real_uwsgi import wait_until
from tests.support.stand_in_servers import StandInServer
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.store.file import open_to_write
from uwsgi_headroom.store.record import Minute
from uwsgi_headroom.store.writer import Database

CLIENTS = 200
SETTLE_SECONDS = 2.0
"""By then every client is connected."""

SCRAPE_EVERY = 0.5
"""Seconds from one scrape to the next, or longer if a scrape takes longer."""

SCRAPE_TIMEOUT = 10.0
"""Seconds: Prometheus' default."""

FIRST_SECONDS = 10.0
"""Before the first figures: servers have a history then."""

SIZES = {"4x8": (4, 8), "1,000 workers": (1000, 1)}
"""The servers whose documents the clients ask for: each is another one at every sample."""

STORED_EVENTS = 20_000

QUIET = "(no clients)"

_ONE = "/api/v2/servers/large"
ROUTES: Mapping[str, str] = {
    "/-/healthy": "/-/healthy",
    "/metrics": "/metrics",
    "/probe": "/probe?target=large",
    "/": "/",
    "/servers/NAME": "/servers/large",
    "/api/v2/servers": "/api/v2/servers",
    "/api/v2/servers/NAME": _ONE,
    ".../findings": f"{_ONE}/findings",
    ".../history": f"{_ONE}/history",
    ".../history, each of another time": f"{_ONE}/history?seconds=3600&points=600&until={{time}}",
    ".../history, two weeks, each of another time": f"{_ONE}/history?seconds=1209600&until={{time}}",
    ".../journal": f"{_ONE}/journal",
    ".../journal, two years, each of another length": f"{_ONE}/journal?seconds={{seconds}}",
    ".../what-if, each for other settings": f"{_ONE}/what-if?settings={{setting}}",
    ".../events": f"{_ONE}/events",
    "/runbooks/": "/runbooks/?server=large",
    "/runbooks/NAME": "/runbooks/UwsgiDown?server=large&worker=1",
    "/api/v2/openapi.json": "/api/v2/openapi.json",
    "/static/": "/static/0/main.js",
}

LEAVE_SECONDS = 0.02

MANNERS = ("ask", "leave")
"""How the clients behave: they read each answer and ask again, or reset the connection LEAVE_SECONDS after their
request and connect again."""

SITUATIONS = tuple((size, manner) for size in SIZES for manner in MANNERS if size != "1,000 workers" or manner == "ask")


@dataclass(frozen=True)
class Crowd:
    """Figures of one route under its clients. samples: reads of the small server beside it, per second; scrapes:
    seconds; answers: requests per second that were answered with status 200, refused: with another one; resident: peak
    in bytes."""

    samples: float
    scrapes: tuple[float, ...]
    answers: float
    refused: float
    resident: int

    @property
    def median_scrape(self) -> float:
        return median(self.scrapes)


def measure(
    seconds: float,
    situations: Sequence[tuple[str, str]] = SITUATIONS,
    routes: Sequence[str] = tuple(ROUTES),
) -> Iterator[tuple[tuple[str, str, str], Crowd]]:
    """Measures each route for `seconds`; yields the server's size, the manner of the clients, the route and the
    figures. The route `QUIET`, first for each size, is without clients."""
    for size in dict(situations):
        with contextlib.ExitStack() as stack:
            good = stack.enter_context(counted_server())
            large = stack.enter_context(_changing_server(*SIZES[size]))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crowds-")))
            servers = [{"name": "good", "stats": good.address}, {"name": "large", "stats": large}]
            history, probe = str(folder / "history"), {"targets": ["unix:///nowhere/*"]}
            _store(folder / "history")
            exposed = stack.enter_context(configured_exporter(servers, "--history", history, probe=probe))
            wait_until(lambda server=good: server.reads, what="the first read")  # type: ignore[misc]
            time.sleep(FIRST_SECONDS)
            yield (size, "", QUIET), _figures(exposed, good, seconds, None)
            for route in routes:
                for manner in [manner for of, manner in situations if of == size]:
                    with _crowd(exposed.port, ROUTES[route], manner) as counts:
                        time.sleep(SETTLE_SECONDS)
                        yield (size, manner, route), _figures(exposed, good, seconds, counts)
                    time.sleep(SETTLE_SECONDS)


def _figures(exposed: Exporter, good: CountedServer, seconds: float, counts: Any) -> Crowd:
    reads, began = len(good.reads), time.monotonic()
    before = list(counts) if counts else [0, 0]
    scrape = partial(exposed.get, timeout=SCRAPE_TIMEOUT)
    scrapes = tuple(scrape_until(began + seconds, SCRAPE_EVERY, scrape))
    passed = time.monotonic() - began
    after = list(counts) if counts else [0, 0]
    return Crowd(
        samples=(len(good.reads) - reads) / passed,
        scrapes=scrapes,
        answers=(after[0] - before[0]) / passed,
        refused=(after[1] - before[1]) / passed,
        resident=peak_resident_bytes(exposed.pid),
    )


def scrape_until(end: float, every: float, scrape: Callable[[], object]) -> Iterator[float]:
    """Scrapes until this time; yields the seconds of each scrape. One that fails counts with the time waited."""
    while (asked := time.monotonic()) < end:
        with contextlib.suppress(OSError):
            scrape()
        taken = time.monotonic() - asked
        yield taken
        time.sleep(max(0.0, every - taken))


def _store(path: Path) -> None:
    """Writes a history file of two weeks of the server `large`, and a journal of years."""
    now = time.time()
    stored_days.write(path, "large", now - 60, days=14.0, minutes=15)
    events = [
        Event(
            id=1,
            time=now - 600 - number * 300.0,
            since=now - 600 - number * 300.0,
            kind="server_down",
            title="The server is down.",
            evidence="x" * 120,
        )
        for number in range(STORED_EVENTS)
    ]
    database = Database(open_to_write(path), 10**9)
    database.write([Minute("large", int(now // 60) - 2, None, events)], now)
    database.close()


@contextlib.contextmanager
def _changing_server(workers: int, threads: int) -> Iterator[str]:
    """Serves a document of a server that has served more requests at every read."""
    server = StandInServer(workers, threads, has_traffic=True)
    turn = itertools.cycle([server.answer(4.0 * workers * number) for number in range(1, 9)])

    def behave(connection: socket.socket, _ended: threading.Event) -> None:
        connection.sendall(next(turn))

    with bad_servers.serving("unix", behave) as address:
        yield address


@contextlib.contextmanager
def _crowd(port: int, path: str, manner: str) -> Iterator[Any]:
    """Runs the clients in a process of their own; yields how many answers they got with
    status 200, with others, and whether they have begun."""
    context = multiprocessing.get_context("spawn")
    counts = context.Array("q", 3, lock=False)
    ended = context.Value("b", 0)
    process = context.Process(target=_clients, args=(port, path, manner, counts, ended))
    process.start()
    try:
        wait_until(lambda: counts[2], 60, what="the clients")
        yield counts
    finally:
        ended.value = 1
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()


class _Client:
    """One connection of the crowd."""

    def __init__(self, port: int, path: str, selector: selectors.BaseSelector) -> None:
        self._port, self._path, self._selector = port, path, selector
        self.socket = socket.socket()
        self.asked = float("inf")
        self.connect()

    def connect(self) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(self.socket)
        self.socket.close()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
        self.socket.connect_ex(("127.0.0.1", self._port))
        self._left, self._head = -1, b""  # bytes of the answer's body that are missing, -1 in its head
        self.asked = float("inf")
        self._selector.register(self.socket, selectors.EVENT_WRITE, self)

    def write(self) -> None:
        dice = random.random()
        path = self._path.format(
            time=f"{time.time() - 60 * dice:.6f}",
            seconds=f"{63_000_000 - 1e6 * dice:.3f}",
            setting=f"{1 + int(60 * dice)}x{1 + int(3600 * dice) % 60}",
        )
        self.socket.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self._selector.modify(self.socket, selectors.EVENT_READ, self)
        self.asked = time.monotonic()

    def read(self, counts: Any) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            self.connect()
            return
        if self._left < 0:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            counts[0 if b" 200 " in head[:15] else 1] += 1
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self._left = int(length) if length else 1 << 60  # a stream
        self._left -= len(data)
        if self._left <= 0:
            self._left, self._head = -1, b""
            self._selector.modify(self.socket, selectors.EVENT_WRITE, self)


def _clients(port: int, path: str, manner: str, counts: Any, ended: Synchronized[int]) -> None:
    with selectors.DefaultSelector() as selector:
        clients = [_Client(port, path, selector) for _ in range(CLIENTS)]
        counts[2] = 1
        while not ended.value:
            if manner == "leave":
                for client in clients:
                    if client.asked < time.monotonic() - LEAVE_SECONDS:
                        client.connect()
            for key, events in selector.select(0.005):
                client = key.data
                try:
                    if events & selectors.EVENT_WRITE:
                        client.write()
                    else:
                        client.read(counts)
                except OSError:
                    client.connect()
