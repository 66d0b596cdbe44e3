"""Runs the application of this folder under load, looks at its code meanwhile, and compares."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import random
import select
import socket
import struct
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import NoReturn

from tools.bench.clients import Kind, Plan, running
from tools.scenarios.client_environment import PACKAGES
from tools.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from uwsgi_headroom import stats
from uwsgi_headroom.history.code_time import CodeHistory
from uwsgi_headroom.history.window import CodeWindow
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.stacks.looks import CodeLooks
from uwsgi_headroom.kernel.waits import WaitSetting
from uwsgi_headroom.record import State
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats import Snapshot

APP = Path(__file__).with_name("app.py")

LOOPBACK = "127.0.0.1", 0

_LOOKS_A_READING = 2  # as in `check`

FUNCTIONS: Mapping[str, State] = {
    "nap": "sleep",
    "ask": "backend",
    "wait_for_lock": "lock",
    "wait_for_file": "lock",
    "wait_for_interpreter": "interpreter_lock",
    "read_pipe": "pipe",
    "run_program": "child",
    "store": "disk",
    "compute": "cpu",
    "parse": "cpu",
}
"""Those of the application, in the order of its record, with the state that each was written for."""


@dataclass(frozen=True, slots=True)
class Use:
    """A function. truth, seen: its part in the time of all functions, by the application's own record and by looks.
    looks: at threads in it; states: their parts of these looks."""

    name: str
    truth: float
    seen: float
    looks: float
    states: Mapping[State, float]

    @property
    def ratio(self) -> float:
        """How many times its time its looks make out."""
        return self.seen / self.truth

    @property
    def error(self) -> float:
        """The standard error of the ratio if the looks were independent."""
        return self.ratio * math.sqrt((1 - self.seen) / self.looks) if self.looks else math.inf


@dataclass(frozen=True, slots=True)
class Compared:
    """functions: in the order of FUNCTIONS. busy: threads in these functions on average, by the application's record;
    seen_busy: the same by looks. elsewhere: the lines in none of them, such as where uWSGI reads a request, by their
    part of all looks. use: all that was counted. late: by so many seconds a tenth of the looks began late, or by more.
    ready: threads that run or could run on average, by the kernel's count; seen_ready: the same by looks."""

    functions: Sequence[Use]
    busy: float
    seen_busy: float
    elsewhere: Mapping[str, float]
    use: CodeWindow
    late: float
    ready: float
    seen_ready: float

    @property
    def largest_difference(self) -> float:
        """Of a share, in parts of 1."""
        return max(abs(use.truth - use.seen) for use in self.functions)


class Watched:
    """Looks at the code of a server by its latest document. pid: of its master here, if it has another one itself."""

    def __init__(self, server: Uwsgi, pid: int | None = None) -> None:
        self._server, self._pid = server, pid or server.pid
        self._host, self._looks, self._history = Host(waits=WaitSetting()), CodeLooks(), CodeHistory()
        self.read()

    def read(self) -> None:
        """Read the server's document, and facts about its processes."""
        snapshot = stats.decode(self._server.document())
        assert isinstance(snapshot, Snapshot)
        self.snapshot = snapshot
        self._facts = self._host.read_facts(snapshot, Answer(b"", peer_pid=self._pid))

    def look(self) -> CodeWindow:
        """Look once; returns all that was counted so far."""
        found = self._looks.look(self.snapshot, self._facts)
        self._history.add(time.monotonic(), found, 0.0)
        return self._history.of(0.0, time.monotonic())


def measure(
    processes: int,
    threads: int,
    clients: int,
    kept: int,
    pause: float,
    framework: str = "plain",
    *,
    realtime: bool = False,
) -> Compared:
    """Look at a server with so many workers and threads until so many looks at busy threads were kept. clients:
    requests at a time; pause: mean seconds between two looks at the server; framework: as in the application;
    realtime: let no other program delay a look, which takes root."""
    with busy_server(processes, threads, clients, framework) as (server, record):
        if realtime:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # of the threads that it starts as well
        watched, use, before = Watched(server), CodeWindow(), read_record(record)
        runnable = _read_runnable(watched.snapshot)
        late = []
        due = began = time.monotonic()
        while use.threads < kept:
            watched.read()
            for _ in range(_LOOKS_A_READING):
                # At times that do not depend on how long the last look or reading took, as on a busy machine.
                due += random.uniform(0.5, 1.5) * pause
                time.sleep(max(0.0, due - time.monotonic()))
                late.append(time.monotonic() - due)
                use = watched.look()
            assert use.off is None, use.off
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        later = _read_runnable(watched.snapshot)
        after, seconds = read_record(record), time.monotonic() - began
    spent = {name: after[name] - before[name] for name in FUNCTIONS}
    ready = sum(later[thread] - runnable[thread] for thread in runnable.keys() & later.keys()) / seconds
    return _compare(spent, seconds, use, quantiles(late, n=10)[8], ready)


@contextlib.contextmanager
def busy_server(processes: int, threads: int, clients: int, framework: str = "plain") -> Iterator[tuple[Uwsgi, Path]]:
    """A server of that size that serves so many requests at a time, and the path of its application's record."""
    with tempfile.TemporaryDirectory(prefix="code-") as folder, socket.create_server(LOOPBACK, backlog=512) as backend:
        record = Path(folder, "record")
        record.write_bytes(bytes(8 * processes * threads * len(FUNCTIONS)))
        environment = {
            "RECORD": record,
            "THREADS": threads,
            "BACKEND": backend.getsockname()[1],
            "FRAMEWORK": framework,
        }
        options = [f"--env={name}={value}" for name, value in environment.items()]
        options += ["--processes", str(processes), "--threads", str(threads), "--disable-logging"]
        options += ["--pythonpath", str(PACKAGES)] if framework == "django" else []
        with uwsgi(*options, app=APP) as server, _answering(backend), running(_load(server, clients)):
            wait_until(lambda: sum(read_record(record).values()) > clients / 10, what="requests to be served")
            yield server, record


def _read_runnable(snapshot: Snapshot) -> dict[int, float]:
    """The seconds in which each thread of the workers has run or could run so far, by its id."""
    found: dict[int, float] = {}
    for worker in snapshot.workers:
        for path in Path(f"/proc/{worker.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # has ended
                found[int(path.parent.name)] = sum(map(int, path.read_text().split()[:2])) / 1e9
    return found


def read_record(path: Path) -> dict[str, float]:
    """The seconds that all threads have spent in each function so far."""
    content = path.read_bytes()
    numbers = struct.unpack(f"<{len(content) // 8}d", content)
    return {function: sum(numbers[place :: len(FUNCTIONS)]) for place, function in enumerate(FUNCTIONS)}


def _compare(spent: Mapping[str, float], seconds: float, use: CodeWindow, late: float, ready: float) -> Compared:
    """spent: seconds in each function, of all threads, in so many seconds."""
    states: dict[str, dict[State, float]] = {name: defaultdict(float) for name in FUNCTIONS}
    elsewhere: dict[str, float] = {}
    for line in use.lines:
        if line.line.function in FUNCTIONS:
            for state, number in line.states.items():
                states[line.line.function][state] += number
        else:
            elsewhere[f"{line.line.function}:{line.line.line}"] = line.looks / use.threads
    seen_ready = sum(line.states.get("cpu", 0.0) + line.states.get("cpu_wait", 0.0) for line in use.lines)
    looks = {name: sum(numbers.values()) for name, numbers in states.items()}
    recorded, seen = sum(spent.values()), sum(looks.values())
    functions = [
        Use(
            name,
            truth=spent[name] / recorded,
            seen=looks[name] / seen,
            looks=looks[name],
            states={state: number / looks[name] for state, number in numbers.items()},
        )
        for name, numbers in states.items()
    ]
    return Compared(
        functions, recorded / seconds, seen / use.looks, elsewhere, use, late, ready, seen_ready / use.looks
    )


def _load(server: Uwsgi, clients: int) -> Plan:
    """So many requests at a time."""
    return Plan(((server.http, 1.0),), (Kind(1.0, "/"),), clients=clients)


@contextlib.contextmanager
def _answering(backend: socket.socket) -> Iterator[None]:
    """Answers as the backend until the block ends: in a process of its own, so that nothing that happens there decides
    when the server is looked at."""
    process = multiprocessing.get_context("fork").Process(target=_answer_late, args=(backend,))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


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
