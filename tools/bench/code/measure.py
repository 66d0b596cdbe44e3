"""Runs the application of this folder under load, looks at its code meanwhile, and compares."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
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
from typing import NoReturn

from tools.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from uwsgi_headroom import stats
from uwsgi_headroom.history.code_time import CodeHistory
from uwsgi_headroom.history.window import CodeWindow
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.stacks import CodeLooks
from uwsgi_headroom.kernel.waits import WaitSetting
from uwsgi_headroom.record import State
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats import Snapshot

APP = Path(__file__).with_name("app.py")

LOOPBACK = "127.0.0.1", 0

_LOOKS_A_READING = 2  # as in `check`

FUNCTIONS = ("nap", "wait_in_line", "compute", "ask", "parse")
"""Those of the application, in the order of its record."""


@dataclass(frozen=True, slots=True)
class Compared:
    """truth, seen: the part of each function in the time of all of them, by the application's own record and by looks.
    states: the same of each function and state. elsewhere: the part of looks that were in none of them, as while uWSGI
    reads a request. use: all that was counted."""

    truth: dict[str, float]
    seen: dict[str, float]
    states: dict[tuple[str, State], float]
    elsewhere: float
    use: CodeWindow

    @property
    def largest_difference(self) -> float:
        """In parts of 1."""
        return max(abs(self.truth[function] - self.seen.get(function, 0.0)) for function in FUNCTIONS)


def measure(processes: int, threads: int, clients: int, kept: int, pause: float) -> Compared:
    """Look at a server with so many workers and threads until so many looks at busy threads were kept. clients:
    requests at a time; pause: mean seconds between two looks at the server."""
    with busy_server(processes, threads, clients) as (server, record):
        host, looks, history = Host(waits=WaitSetting()), CodeLooks(), CodeHistory()
        before = read_record(record)
        began = due = time.monotonic()
        use = CodeWindow()
        while use.threads < kept:
            snapshot = stats.decode(server.document())
            assert isinstance(snapshot, Snapshot)
            facts = host.read_facts(snapshot, Answer(b"", peer_pid=server.pid))
            for _ in range(_LOOKS_A_READING):
                # At times that do not depend on how long the last look or reading took, as on a busy machine.
                due += random.uniform(0.5, 1.5) * pause
                time.sleep(max(0.0, due - time.monotonic()))
                history.add(time.monotonic(), asyncio.run(looks.look(snapshot, facts)), 0.0)
            use = history.of(began, time.monotonic())
            assert use.off is None, use.off
        after = read_record(record)
    spent = {function: after[function] - before[function] for function in FUNCTIONS}
    return _compare(spent, use)


@contextlib.contextmanager
def busy_server(processes: int, threads: int, clients: int) -> Iterator[tuple[Uwsgi, Path]]:
    """A server of that size that serves so many requests at a time, and the path of its application's record."""
    with tempfile.TemporaryDirectory(prefix="code-") as folder, socket.create_server(LOOPBACK, backlog=512) as backend:
        port = backend.getsockname()[1]
        record = Path(folder, "record")
        record.write_bytes(bytes(8 * processes * threads * len(FUNCTIONS)))
        options = ["--env", f"RECORD={record}", "--env", f"THREADS={threads}", "--env", f"BACKEND={port}"]
        options += ["--processes", str(processes), "--threads", str(threads)]
        with uwsgi(*options, app=APP) as server, _load(server.http, clients, backend):
            wait_until(lambda: sum(read_record(record).values()) > clients / 10, what="requests to be served")
            yield server, record


def read_record(path: Path) -> dict[str, float]:
    """The seconds that all threads have spent in each function so far."""
    content = path.read_bytes()
    numbers = struct.unpack(f"<{len(content) // 8}d", content)
    return {function: sum(numbers[place :: len(FUNCTIONS)]) for place, function in enumerate(FUNCTIONS)}


def _compare(spent: dict[str, float], use: CodeWindow) -> Compared:
    lines = [line for line in use.lines if line.line.function in FUNCTIONS]
    recorded, looks = sum(spent.values()), sum(line.looks for line in lines)
    seen: dict[str, float] = defaultdict(float)
    states: dict[tuple[str, State], float] = defaultdict(float)
    for line in lines:
        seen[line.line.function] += line.looks / looks
        for state, number in line.states.items():
            states[line.line.function, state] += number / looks
    truth = {function: part / recorded for function, part in spent.items()}
    return Compared(truth, dict(seen), states, 1 - looks / use.threads, use)


@contextlib.contextmanager
def _load(port: int, clients: int, backend: socket.socket) -> Iterator[None]:
    """Sends requests, so many at a time, and answers as their backend, until the block ends: in a process of its own,
    so that nothing that happens there decides when the server is looked at."""
    process = multiprocessing.get_context("fork").Process(target=_send_and_answer, args=(port, clients, backend))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _send_and_answer(port: int, clients: int, backend: socket.socket) -> None:
    for _ in range(clients):
        threading.Thread(target=_send, args=(port,), daemon=True).start()
    _answer_late(backend)


def _send(port: int) -> None:
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while connection.recv(4096):
                pass


def _answer_late(listener: socket.socket) -> NoReturn:
    """Answer each connection after as many seconds as it asks for."""
    waiting: list[tuple[float, socket.socket]] = []
    unread: set[socket.socket] = set()
    while True:
        due = min((due for due, _ in waiting), default=time.monotonic() + 1)
        ready, _, _ = select.select([listener, *unread], [], [], max(0.0, due - time.monotonic()))
        if listener in ready:
            unread.add(listener.accept()[0])
        for connection in unread.intersection(ready):
            unread.remove(connection)
            request = connection.recv(8)
            waiting.append((time.monotonic() + (struct.unpack("<d", request)[0] if request else 0.0), connection))
        for each in [each for each in waiting if each[0] <= time.monotonic()]:
            waiting.remove(each)
            with contextlib.suppress(OSError):
                each[1].sendall(b"x")
            each[1].close()
