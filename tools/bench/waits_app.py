"""A WSGI application that does what the query string says, and records how long it spent in each state.

A plan is a list of parts, `cpu:8,sleep:60,postgres:50`, with milliseconds each; of several plans with `|` between them,
a request follows one at random. Each part has a known time in one state. What else it took, less the thread's CPU time
and the time in which it was ready and had no CPU (schedstat), is the wait for the interpreter lock. CPU time and the
wait for a CPU are the thread's own totals, because uWSGI also spends some before and after the application is called.
Every thread has a row of a file in memory that the benchmark reads: nothing is lost if two threads add at once.

`python3 -m tools.bench.waits_app PORT PORT` runs the two backends: each query is a number of seconds, and its answer,
after that time, the time of it.
"""

import asyncio
import itertools
import mmap
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator

COLUMNS = ("cpu", "cpu_wait", "interpreter_lock", "backend", "redis", "client", "disk", "lock", "sleep", "requests")
"""The columns of a row, in seconds; `backend` includes `redis`. Rows belong to threads."""

MOST_THREADS = 64
row_struct = struct.Struct(f"{len(COLUMNS)}d")

_BIG = bytes(256 << 10)
_LOCK = threading.Lock()
_local = threading.local()
_numbers = itertools.count()
_rows: list[mmap.mmap] = []
_released_at = [0.0]


def application(environ: dict[str, str], start_response: Callable[..., object]) -> Iterator[bytes]:
    plans = environ["QUERY_STRING"].partition("&")[0].split("|")
    plan = [part.partition(":")[::2] for part in random.choice(plans).split(",")]
    for name, milliseconds in plan:
        if name != "client":
            _measure(name, float(milliseconds) / 1e3)
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    for name, chunks in plan:
        if name == "client":
            yield from _send(int(chunks))
    _add("requests", 1.0)
    _set("cpu", time.thread_time())
    _set("cpu_wait", _run_delay())
    yield b"done"


def _measure(name: str, seconds: float) -> None:
    start, cpu, delay = time.monotonic(), time.thread_time(), _run_delay()
    state, known = _PARTS[name](seconds)
    cpu, delay = time.thread_time() - cpu, _run_delay() - delay
    rest = time.monotonic() - start - cpu - delay
    known = rest if known is None else min(known, rest)
    _add("interpreter_lock", rest - known)
    if state:
        _add(state, known)


def _send(chunks: int) -> Iterator[bytes]:
    """Send chunks to a client that reads them slowly: all the time in between is the client's."""
    for _ in range(chunks):
        start, cpu, delay = time.monotonic(), time.thread_time(), _run_delay()
        yield _BIG
        cpu, delay = time.thread_time() - cpu, _run_delay() - delay
        _add("client", time.monotonic() - start - cpu - delay)


def _compute(seconds: float) -> tuple[str, float | None]:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))
    return "", 0.0


def _sleep(seconds: float) -> tuple[str, float | None]:
    time.sleep(seconds)
    return "sleep", seconds


def _query(number: int, timeout: float | None, keep: bool) -> Callable[[float], tuple[str, float | None]]:
    """A query: the backend says when it began to answer, on the clock that all processes of a machine share."""

    def query(seconds: float) -> tuple[str, float | None]:
        connection = _connect(number, timeout) if not keep else _kept(number, timeout)
        connection.sendall(struct.pack("d", seconds))
        sent = time.monotonic()
        (answered,) = struct.unpack("d", connection.recv(8))
        if not keep:
            connection.close()
        if number:
            _add("redis", max(0.0, answered - sent))
        return "backend", max(0.0, answered - sent)

    return query


def _connect(number: int, timeout: float | None) -> socket.socket:
    port = int(os.environ["BENCH_BACKENDS"].split(",")[number])
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.settimeout(timeout)
    return connection


def _kept(number: int, timeout: float | None) -> socket.socket:
    kept: dict[tuple[int, float | None], socket.socket] = _local.__dict__.setdefault("connections", {})
    if (number, timeout) not in kept:
        kept[number, timeout] = _connect(number, timeout)
    return kept[number, timeout]


def _locked(seconds: float) -> tuple[str, float | None]:
    """Hold the lock for a time, asleep. The wait for it ends when the thread before releases it."""
    start = time.monotonic()
    with _LOCK:
        waited = max(0.0, _released_at[0] - start)
        _add("lock", waited)
        time.sleep(seconds)
        _add("sleep", seconds)
        _released_at[0] = time.monotonic()
    return "", waited + seconds


def _sync(_seconds: float) -> tuple[str, float | None]:
    path = os.path.join(os.environ["BENCH_RECORDS"], f"file-{os.getpid()}-{threading.get_ident()}")
    with open(path, "wb") as file:
        file.write(_BIG)
        file.flush()
        os.fsync(file.fileno())
    return "disk", None


_PARTS: dict[str, Callable[[float], tuple[str, float | None]]] = {
    "cpu": _compute,
    "sleep": _sleep,
    "postgres": _query(0, None, keep=True),
    "redis": _query(1, None, keep=True),
    "postgres-timeout": _query(0, 30.0, keep=True),
    "redis-timeout": _query(1, 30.0, keep=True),
    "postgres-new": _query(0, None, keep=False),
    "postgres-new-timeout": _query(0, 30.0, keep=False),
    "lock": _locked,
    "fsync": _sync,
}


def _run_delay() -> float:
    """The seconds in which this thread was ready and had no CPU, since its start."""
    with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
        return int(file.read(64).split()[1]) / 1e9


def _add(column: str, seconds: float) -> None:
    memory, offset = _place(column)
    (value,) = struct.unpack_from("d", memory, offset)
    struct.pack_into("d", memory, offset, value + seconds)


def _set(column: str, seconds: float) -> None:
    memory, offset = _place(column)
    struct.pack_into("d", memory, offset, seconds)


def _place(column: str) -> tuple[mmap.mmap, int]:
    row = getattr(_local, "row", None)
    if row is None:
        row = _local.row = next(_numbers)
    return _rows[0] if _rows else _open(), row * row_struct.size + 8 * COLUMNS.index(column)


def _open() -> mmap.mmap:
    """Open this process's file. Two threads that do so at once open the same one."""
    path = os.path.join(os.environ["BENCH_RECORDS"], f"record-{os.getpid()}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, MOST_THREADS * row_struct.size)
    memory = mmap.mmap(descriptor, MOST_THREADS * row_struct.size)
    os.close(descriptor)
    _rows.append(memory)
    return memory


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while query := await reader.read(8):
            await asyncio.sleep(struct.unpack("d", query)[0])
            writer.write(struct.pack("d", time.monotonic()))
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _run(ports: list[int]) -> None:
    servers = [await asyncio.start_server(_serve, "127.0.0.1", port, backlog=256) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(_run([int(port) for port in sys.argv[1:]]))
