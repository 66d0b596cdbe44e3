"""The application of the scenarios: computes, waits, fails, leaks memory or ends its worker, as its URL says.

Its answers have the worker, and when it began and ended, in nanoseconds of the clock that all processes share.

`/?cpu_ms=&io_ms=` computes, then waits; `/lock` does so one request at a time, `/hold` waits without releasing the
interpreter lock, `/hash` computes without it; `/backend` asks the backend, with `time_out=1` on a socket with a
time-out; `/events?seconds=` sends an event ten times a second, and computes before each; `/error` raises, `/failed`
answers with status 500; `/exit` ends the worker, `/crash` by signal 11; `/leak?kb=` leaks memory; `/cache` stores an
item of a new name, and `/spool?task_ms=` hands a task of this length to the spooler. A file `broken` in the working
directory makes the import fail; with `dies` it ends the worker, with `slow` it takes 3 s, or as many as the file says.
"""

import contextlib
import ctypes
import hashlib
import itertools
import os
import signal
import socket
import threading
import time
from urllib.parse import parse_qs

import uwsgi  # type: ignore[import-not-found,import-untyped,unused-ignore]  # uWSGI makes it

if os.path.exists("broken"):
    raise ImportError("asked to fail")
if os.path.exists("dies"):
    os._exit(1)
if os.path.exists("slow"):
    with open("slow") as file:
        time.sleep(float(file.read() or 3))

NUMBERS = itertools.count()
LEAKED: list[bytes] = []
LOCK = threading.Lock()
BACKEND = threading.local()
HOLDING = ctypes.PyDLL(None)  # unlike CDLL, it keeps the interpreter lock during a call


def ask_backend(time_out: float | None) -> None:
    connection = getattr(BACKEND, "connection", None)
    if connection is None:
        connection = socket.create_connection(("127.0.0.1", int(os.environ["BACKEND_PORT"])), time_out)
        BACKEND.connection = connection
    connection.sendall(b"50\n")
    if not connection.recv(1):
        raise ConnectionError("the backend has gone")


def stream(seconds: float, cpu: float):  # type: ignore[no-untyped-def]
    for _ in range(round(10 * seconds)):
        end = time.thread_time() + cpu
        while time.thread_time() < end:
            pass
        yield b"data: x\n\n"
        time.sleep(0.1)


def process_task(task):  # type: ignore[no-untyped-def]
    time.sleep(float(task[b"ms"]) / 1000)
    return uwsgi.SPOOL_OK


uwsgi.spooler = process_task


def application(environ, start_response):  # type: ignore[no-untyped-def]
    enter = time.monotonic_ns()
    query = parse_qs(environ["QUERY_STRING"])
    path = environ["PATH_INFO"]
    wait = float(query.get("io_ms", ["0"])[0]) / 1000
    if path == "/events":
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return stream(float(query["seconds"][0]), float(query.get("cpu_ms", ["0"])[0]) / 1000)
    with LOCK if path == "/lock" else contextlib.nullcontext():
        end = time.thread_time() + float(query.get("cpu_ms", ["0"])[0]) / 1000
        while time.thread_time() < end:
            if path == "/hash":
                hashlib.pbkdf2_hmac("sha256", b"", b"", 40000)
        if path == "/backend":
            ask_backend(30.0 if "time_out" in query else None)
        if path == "/hold":
            HOLDING.usleep(round(wait * 1e6))
        else:
            time.sleep(wait)
    match path:
        case "/error":
            raise RuntimeError("asked to fail")
        case "/exit":
            os._exit(1)
        case "/crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "/cache":
            uwsgi.cache_set(f"{os.getpid()} {next(NUMBERS)}", b"x", 0, "pages")
        case "/spool":
            uwsgi.spool({b"ms": query["task_ms"][0].encode()})
        case "/leak":
            LEAKED.append(b"x" * (1024 * int(query["kb"][0])))
    status = "500 Internal Server Error" if path == "/failed" else "200 OK"
    times = [("X-Enter", str(enter)), ("X-Leave", str(time.monotonic_ns())), ("X-Worker", str(uwsgi.worker_id()))]
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", "3"), *times])
    return [b"ok\n"]
