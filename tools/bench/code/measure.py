"""Runs the application of this folder under load, looks at its code meanwhile, and compares."""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import struct
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.stacks import CodeLooks, CodeUse
from uwsgi_headroom.kernel.waits import WaitSetting
from uwsgi_headroom.record import State
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats import Snapshot

APP = Path(__file__).with_name("app.py")

FUNCTIONS = ("nap", "wait_in_line", "compute", "ask", "parse")
"""Those of the application, in the order of its record."""


@dataclass(frozen=True, slots=True)
class Compared:
    """truth, seen: the part of each function in the time of busy threads, by the application's own record and by looks.
    states: the same of each function and state. use: all that was counted."""

    truth: dict[str, float]
    seen: dict[str, float]
    states: dict[tuple[str, State], float]
    use: CodeUse

    @property
    def largest_difference(self) -> float:
        """In parts of 1."""
        return max(abs(self.truth[function] - self.seen.get(function, 0.0)) for function in FUNCTIONS)


def measure(processes: int, threads: int, clients: int, kept: int, pause: float) -> Compared:
    """Look at a server with so many workers and threads until so many looks at busy threads were kept. clients: requests
    at a time; pause: mean seconds between two looks at the server."""
    with tempfile.TemporaryDirectory(prefix="code-") as folder, _backend() as port:
        record = Path(folder, "record")
        record.write_bytes(bytes(8 * processes * threads * len(FUNCTIONS)))
        options = ["--env", f"RECORD={record}", "--env", f"THREADS={threads}", "--env", f"BACKEND={port}"]
        options += ["--processes", str(processes), "--threads", str(threads)]
        with uwsgi(*options, app=APP) as server, _load(server, clients):
            wait_until(lambda: sum(read_record(record).values()) > clients / 10, what="requests to be served")
            host, looks = Host(waits=WaitSetting()), CodeLooks()
            before = read_record(record)
            while looks.report().threads < kept:
                snapshot = stats.decode(server.document())
                assert isinstance(snapshot, Snapshot)
                looks.look(snapshot, host.read_facts(snapshot, Answer(b"", peer_pid=server.pid)))
                use = looks.report()
                assert use.off is None, use.off
                time.sleep(random.uniform(0.5, 1.5) * pause)
            after = read_record(record)
    spent = {function: after[function] - before[function] for function in FUNCTIONS}
    return _compare(spent, looks.report())


def read_record(path: Path) -> dict[str, float]:
    """The seconds that all threads have spent in each function so far."""
    content = path.read_bytes()
    numbers = struct.unpack(f"<{len(content) // 8}d", content)
    return {function: sum(numbers[place :: len(FUNCTIONS)]) for place, function in enumerate(FUNCTIONS)}


def _compare(spent: dict[str, float], use: CodeUse) -> Compared:
    total = sum(spent.values())
    seen: dict[str, float] = defaultdict(float)
    states: dict[tuple[str, State], float] = defaultdict(float)
    for line in use.lines:
        seen[line.line.function] += line.looks / use.threads
        for state, looks in line.states.items():
            states[line.line.function, state] += looks / use.threads
    return Compared({function: part / total for function, part in spent.items()}, dict(seen), dict(states), use)


@contextlib.contextmanager
def _load(server: Uwsgi, clients: int) -> Iterator[None]:
    """Sends requests, so many at a time, until the block ends."""
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.http), 10) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                while connection.recv(4096):
                    pass

    senders = [threading.Thread(target=send, daemon=True) for _ in range(clients)]
    for sender in senders:
        sender.start()
    try:
        yield
    finally:
        stop.set()
        for sender in senders:
            sender.join(30)


@contextlib.contextmanager
def _backend() -> Iterator[int]:
    """A server on loopback that answers each connection after as many seconds as it is asked for."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        end, wake = os.pipe()
        thread = threading.Thread(target=_answer_late, args=(listener, end), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            os.write(wake, b"x")
            thread.join(30)
            os.close(end)
            os.close(wake)


def _answer_late(listener: socket.socket, end: int) -> None:
    waiting: list[tuple[float, socket.socket]] = []
    unread: set[socket.socket] = set()
    while True:
        timeout = max(0.0, min((due for due, _ in waiting), default=time.monotonic() + 1) - time.monotonic())
        ready, _, _ = select.select([end, listener, *unread], [], [], timeout)
        if end in ready:
            for connection in (*unread, *(connection for _, connection in waiting)):
                connection.close()
            return
        if listener in ready:
            unread.add(listener.accept()[0])
        for connection in unread.intersection(ready):
            unread.remove(connection)
            request = connection.recv(8)
            due = time.monotonic() + (struct.unpack("<d", request)[0] if len(request) == 8 else 0.0)
            waiting.append((due, connection))
        for each in [each for each in waiting if each[0] <= time.monotonic()]:
            waiting.remove(each)
            with contextlib.suppress(OSError):
                each[1].sendall(b"x")
            each[1].close()
