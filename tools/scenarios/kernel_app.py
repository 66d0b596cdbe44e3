"""The application of the scenarios in `rows.complaints`: each URL waits in one place that only the kernel sees.

`/shared?io_ms=` asks the backend (`beside`) over one connection that was opened at the import, `/own` over a connection
of its worker, `/pool` over one of a pool of five. `/print` writes 4 KB to standard output, `/flock` holds the lock of a
file, `/leave` leaves it to a program for 40 s and ends the worker, `/sqlite` a file of SQLite, `/two` one of two
places, `/turn` a lock and then sleeps without it, `/run` starts a program that computes, `/unread` one that writes so
many bytes, which nobody reads, `/open` keeps a descriptor open, `/thread` starts a thread that does not end, or uses a
pool of 32 with `pool=1`, and any other one takes `kb=` of memory for a moment. BACKEND is the backend's port. IMPORT
makes the import do one of these: `shared` opens the connection; if there is a file `hang`, `connect` asks for an answer
that never comes, and anything else waits for a lock that it holds; `timer` and `mule` run a timer for 1.8 of 2 s,
there.
"""

import concurrent.futures
import contextlib
import fcntl
import os
import queue
import socket
import sqlite3
import subprocess
import threading
import time
from urllib.parse import parse_qs

ADDRESS = ("127.0.0.1", int(os.environ.get("BACKEND", "0")))
IMPORT = os.environ.get("IMPORT", "")
LOCK = threading.Lock()
TWO = threading.BoundedSemaphore(2)
OPEN: "list[int]" = []
POOL: "queue.Queue[socket.socket]" = queue.Queue()
THREADS = concurrent.futures.ThreadPoolExecutor(32)


def ask(connection: socket.socket, ms: int) -> None:
    connection.sendall(b"%d\n" % ms)
    if not connection.recv(1):
        raise ConnectionError("the backend has closed the connection")


SHARED = socket.create_connection(ADDRESS) if IMPORT == "shared" else socket.socket()
OWN: "dict[int, socket.socket]" = {}

if os.path.exists("hang"):
    if IMPORT == "connect":
        ask(socket.create_connection(ADDRESS), 600_000)
    LOCK.acquire()
    LOCK.acquire()

METRICS = open("counter_1.db") if os.path.exists("counter_1.db") else None  # noqa: SIM115 - as prometheus_client does

if IMPORT in ("timer", "mule"):
    import uwsgidecorators  # type: ignore[import-untyped]

    @uwsgidecorators.timer(2, target=IMPORT.replace("timer", "worker"))  # type: ignore[untyped-decorator]
    def report(_signal: int) -> None:
        time.sleep(1.8)


def start_thread(ms: int, *, is_pooled: bool) -> None:
    if is_pooled:
        THREADS.submit(time.sleep, ms / 1000).result()
    else:
        threading.Thread(target=threading.Event().wait, daemon=True).start()


@contextlib.contextmanager
def pooled():  # type: ignore[no-untyped-def]
    with LOCK:
        if not OWN:
            OWN[os.getpid()] = socket.create_connection(ADDRESS)
            for _ in range(5):
                POOL.put(socket.create_connection(ADDRESS))
    connection = POOL.get()
    try:
        yield connection
    finally:
        POOL.put(connection)


def application(environ, start_response):  # type: ignore[no-untyped-def]
    path, query = environ["PATH_INFO"], parse_qs(environ["QUERY_STRING"])
    ms = round(float(query.get("io_ms", ["0"])[0]))
    match path:
        case "/shared" | "/own":
            with LOCK:
                if path == "/own" and os.getpid() not in OWN:
                    OWN[os.getpid()] = socket.create_connection(ADDRESS)
                ask(SHARED if path == "/shared" else OWN[os.getpid()], ms)
        case "/pool":
            with pooled() as connection:
                ask(connection, ms)
        case "/print":
            print("x" * 4096, flush=True)
            time.sleep(ms / 1000)
        case "/flock" | "/leave":
            with open("locked", "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if path == "/leave":
                    subprocess.Popen(["sleep", "40"], pass_fds=[file.fileno()])
                    os._exit(1)
                time.sleep(ms / 1000)
        case "/sqlite":
            with contextlib.closing(sqlite3.connect("file.db", timeout=10)) as database:
                database.execute("begin immediate")
                time.sleep(ms / 1000)
                database.rollback()
        case "/thread":
            start_thread(ms, is_pooled="pool" in query)
        case "/two" | "/turn":
            with TWO if path == "/two" else LOCK:
                time.sleep(ms / 1000)
            time.sleep(0.7 * ms / 1000 if path == "/turn" else 0)
        case "/run" | "/unread":
            computes = ["sh", "-c", f"i=0; while [ $i -lt {ms}000 ]; do i=$((i+1)); done"]
            writes = ["head", "-c", str(ms), "/dev/zero"]
            subprocess.Popen(computes if path == "/run" else writes, stdout=subprocess.PIPE).wait()
        case "/open":
            OPEN.append(os.open("/dev/null", os.O_RDONLY))
            time.sleep(ms / 1000)
        case _:
            bytearray(int(query.get("kb", ["0"])[0]) << 10)
            time.sleep(ms / 1000)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
