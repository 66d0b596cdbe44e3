"""The load: closed-loop clients, one thread each, in a separate process, that time every request; and their truth.

A client connects, sends a request, reads the response to its end, waits, and repeats. Times are nanoseconds of
CLOCK_MONOTONIC. Only uWSGI knows when it takes a request from the listen queue and when it closes it. The application's
interval (enter to leave) is a little shorter, and counts as the truth; the client's (connected to end) is a little
longer, or much longer in a queue, and how far it lies above bounds the error. A run counts only if no request failed.
"""

import contextlib
import math
import multiprocessing
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import fmean
from typing import NamedTuple

from tests.support.real_uwsgi import Uwsgi, sized

LONGEST_WAIT = 5
"""A random wait is at most this many times the mean."""

PATIENCE = 120
"""Seconds a client waits for room in the queue, or for an answer."""


@dataclass(frozen=True)
class Load:
    """clients: how many; io_ms: mean wait in the application; cpu_ms: additional CPU time; think_ms: mean pause between
    two requests (exponential); burst: seconds on, then as many off; 0 for always on; shape: the distribution of the
    wait, one of SHAPES."""

    clients: int
    io_ms: float
    cpu_ms: float = 0.0
    think_ms: float = 0.0
    burst: float = 0.0
    seed: int = 1
    shape: str = "exponential"


LISTEN = 100


class Case(NamedTuple):
    """One server and its load. long: whether a long request runs beside the load, for half of the time. by_log: whether
    the truth is uWSGI's request log: the application is called only when its thread has the interpreter lock, and does
    not see the wait for it."""

    name: str
    processes: int
    threads: int
    load: Load
    tcp: bool = False
    long: bool = False
    overload: bool = False
    by_log: bool = False

    @property
    def options(self) -> list[str]:
        # `web` is in uWSGI's directory: HTTP on a UNIX socket.
        return [*sized(self.processes, self.threads), "--listen", str(LISTEN), "--http-socket", "web"]

    def address(self, server: Uwsgi) -> str | tuple[str, int]:
        return ("127.0.0.1", server.http) if self.tcp else str(server.directory / "web")


class Record(NamedTuple):
    """One request. connecting <= connected <= enter <= leave, first_byte <= end; worker: the uWSGI worker id."""

    connecting: int
    connected: int
    enter: int
    leave: int
    first_byte: int
    end: int
    worker: int


class Clients:
    def __init__(self, load: Load, address: str | tuple[str, int]) -> None:
        self.load = load
        self.records: list[Record] = []
        self.failures: list[str] = []
        self._address = address
        self._stop = threading.Event()
        self._begin = 0.0
        self._threads: list[threading.Thread] = []

    def go(self) -> None:
        self._begin = time.monotonic()
        for number in range(self.load.clients):
            self._start(self._client, random.Random(f"{self.load.seed} {number}"))

    def long(self, seconds: float) -> None:
        self._start(self._ask, seconds * 1000)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _start(self, target: object, argument: object) -> None:
        thread = threading.Thread(target=target, args=(argument,))  # type: ignore[arg-type]
        thread.start()
        self._threads.append(thread)

    def _client(self, chance: random.Random) -> None:
        load = self.load
        while not self._stop.wait(max(self._until_on(), _draw(chance, load.think_ms) / 1000)):
            if not self._until_on():
                self._ask(SHAPES[load.shape](chance, load.io_ms))

    def _until_on(self) -> float:
        """Seconds until the clients may ask; 0 while they may."""
        if not self.load.burst:
            return 0.0
        phase = (time.monotonic() - self._begin) % (2 * self.load.burst)
        return 2 * self.load.burst - phase if phase >= self.load.burst else 0.0

    def _ask(self, io_ms: float) -> None:
        try:
            self.records.append(ask(self._address, f"/?io_ms={io_ms:.3f}&cpu_ms={self.load.cpu_ms:g}"))
        except (OSError, ValueError) as error:
            self.failures.append(repr(error))
            self._stop.wait(0.1)


def _draw(chance: random.Random, mean: float) -> float:
    return min(chance.expovariate(1 / mean), LONGEST_WAIT * mean) if mean else 0.0


def ask(address: str | tuple[str, int], path: str) -> Record:
    """Makes one request. Raises OSError, or ValueError if the response is not a complete one of the application."""
    connecting = time.monotonic_ns()
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as client:
        # Not settimeout(): with it, a connection to a UNIX socket whose queue is full fails at once instead of waiting.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE, 0))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", PATIENCE, 0))
        client.connect(address)
        connected = time.monotonic_ns()
        client.sendall(f"GET {path} HTTP/1.0\r\nHost: bench\r\n\r\n".encode())
        answer = client.recv(4096)
        first_byte = time.monotonic_ns()
        while more := client.recv(4096):
            answer += more
        end = time.monotonic_ns()
    head, _, body = answer.decode("latin-1").partition("\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
    if body != "ok\n" or "X-Leave" not in headers:
        raise ValueError(f"not a response of the application: {answer[:60]!r}")
    enter, leave = int(headers["X-Enter"]), int(headers["X-Leave"])
    return Record(connecting, connected, enter, leave, first_byte, end, int(headers["X-Worker"]))


def _draw_lognormal(chance: random.Random, mean: float) -> float:
    sigma = 1.05
    return chance.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)


def _draw_of_two_kinds(chance: random.Random, mean: float) -> float:
    """92 of 100 take about a third of the mean, 8 about nine times the mean."""
    return mean * chance.uniform(0.8, 1.2) * (0.3 if chance.random() < 0.92 else 9.05)


def _draw_pareto(chance: random.Random, mean: float) -> float:
    """With the shape 1.5, which has no variance; cut off at 200 times the mean."""
    return min(chance.paretovariate(1.5) * mean / 3, 200 * mean)


SHAPES: dict[str, Callable[[random.Random, float], float]] = {
    "exponential": _draw,
    "lognormal": _draw_lognormal,
    "two kinds": _draw_of_two_kinds,
    "constant": lambda _chance, mean: mean,
    "pareto": _draw_pareto,
}
"""Functions that draw a wait with a given mean, both in milliseconds."""


SECOND = 1_000_000_000


class Truth(NamedTuple):
    """The records of one load. Windows are (start, end) in monotonic seconds."""

    records: tuple[Record, ...]
    failures: tuple[str, ...] = ()

    def counts(self) -> dict[int, int]:
        return dict(Counter(record.worker for record in self.records))

    def in_application(self, window: tuple[float, float]) -> float:
        return mean_level(((record.enter, record.leave) for record in self.records), window)

    def in_client(self, window: tuple[float, float]) -> float:
        """The mean number of requests that clients waited for, including those in the listen queue."""
        return mean_level(((record.connected, record.end) for record in self.records), window)

    def completed(self, window: tuple[float, float]) -> float:
        """Concurrency by Little's law: application time of the requests that ended in the window, divided by
        its length."""
        time = sum(record.leave - record.enter for record in self._ended(window))
        return time / SECOND / (window[1] - window[0])

    def client_time(self, window: tuple[float, float]) -> float:
        return fmean((record.end - record.connected) / SECOND for record in self._ended(window))

    def wait(self, window: tuple[float, float]) -> float:
        """Mean seconds from connected to enter, of requests that ended in the window."""
        return fmean((record.enter - record.connected) / SECOND for record in self._ended(window))

    def _ended(self, window: tuple[float, float]) -> list[Record]:
        start, end = window
        return [record for record in self.records if start < record.leave / SECOND <= end]


def mean_level(intervals: Iterable[tuple[int, int]], window: tuple[float, float]) -> float:
    """How many intervals (in nanoseconds) cover a moment of the window (in seconds), on average."""
    start, end = round(window[0] * SECOND), round(window[1] * SECOND)
    covered = sum(max(0, min(late, end) - max(early, start)) for early, late in intervals)
    return covered / (end - start)


class Generator:
    """A running load. orders: how its process gets them."""

    def __init__(self, orders: Connection) -> None:
        self._orders = orders

    def go(self) -> None:
        self._orders.send(("go",))

    def long(self, seconds: float) -> None:
        """Makes one more request, of that length, beside those of the clients."""
        self._orders.send(("long", seconds))

    def stop(self) -> Truth:
        self._orders.send(("stop",))
        if not self._orders.poll(PATIENCE):
            raise AssertionError(f"requests did not end within {PATIENCE} s")
        truth: Truth = self._orders.recv()
        return truth


@contextlib.contextmanager
def generator(load: Load, address: str | tuple[str, int]) -> Iterator[Generator]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(load, address, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()  # it is ready
        yield Generator(ours)
    finally:
        process.kill()
        process.join()
        ours.close()


def _run(load: Load, address: str | tuple[str, int], orders: Connection) -> None:
    """Follows the orders, and sends the truth in the end. An end of the pipe, as when the parent has died, counts as
    `stop`."""
    threading.stack_size(256 * 1024)
    sys.setswitchinterval(0.0005)  # a thread whose response has arrived waits less for the other threads
    clients = Clients(load, address)
    orders.send("ready")
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while (order := orders.recv()) != ("stop",):
            getattr(clients, order[0])(*order[1:])
    clients.stop()
    orders.send(Truth(tuple(clients.records), tuple(clients.failures)))
