"""The application of the scenarios in `rows.coroutines`: requests wait for threads that serve none, or for themselves.

`/executor?io_ms=` waits in an executor of EXECUTOR threads, two by default, `/processes` with a lock that all processes
share, `/deadlock` with two locks, taken in both orders; `/itself` asks SELF, the address of this server; `/event_loop`
the backend (`beside`) at BACKEND_PORT in an event loop of its own; `/computes` starts a thread that never stops
computing. `/limited` sleeps until a rate limit of 5 requests a second in each worker lets it go on. `/consumer` waits
for a thread that the import starts if CONSUMER is set. `/native` sleeps for a quarter of the time, and waits for the
rest in a semaphore of the C library, as the client of gRPC does, until another thread posts it. `/exits` calls
sys.exit(). Every other URL sleeps.
"""

import asyncio
import contextlib
import ctypes
import itertools
import multiprocessing
import os
import queue
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs

EXECUTOR = ThreadPoolExecutor(int(os.environ.get("EXECUTOR", "2")))  # its threads start with the first requests
OF_ALL = multiprocessing.Lock()
BOTH = (threading.Lock(), threading.Lock())
NUMBERS = itertools.count()
EACH, NEXT, TAKING = 0.2, [0.0], threading.Lock()


def in_executor(ms: float) -> None:
    EXECUTOR.submit(time.sleep, ms / 1000).result()


def with_lock_of_all(ms: float) -> None:
    with OF_ALL:
        time.sleep(ms / 1000)


def with_both_locks(ms: float) -> None:
    first, second = BOTH[:: 1 - 2 * (next(NUMBERS) % 2)]
    with first:
        time.sleep(ms / 1000)
        with second:
            pass


def ask_itself(ms: float) -> None:
    url = f"http://{os.environ['SELF']}/?io_ms={ms}"
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        answer.read()


async def ask_backend(ms: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["BACKEND_PORT"]))
    writer.write(b"%d\n" % ms)
    await reader.read(1)
    writer.close()


def in_event_loop(ms: float) -> None:
    asyncio.run(ask_backend(ms))


def compute() -> None:
    while True:
        pass


def beside_a_computing_thread(ms: float) -> None:
    if not next(NUMBERS):
        threading.Thread(target=compute, daemon=True).start()
    time.sleep(ms / 1000)


def in_native_library(ms: float) -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    answered = ctypes.c_void_p(libc.malloc(64))  # kept, as the pools of such a library are
    libc.sem_init(answered, 0, 0)
    threading.Timer(ms / 1000, libc.sem_post, (answered,)).start()
    time.sleep(0.25 * ms / 1000)
    libc.sem_wait(answered)


QUEUE: "queue.Queue[tuple[float, threading.Event]]" = queue.Queue()


def consume() -> None:
    while True:
        seconds, done = QUEUE.get()
        time.sleep(seconds)
        done.set()


if os.environ.get("CONSUMER"):
    threading.Thread(target=consume, daemon=True).start()


def by_consumer(ms: float) -> None:
    done = threading.Event()
    QUEUE.put((ms / 1000, done))
    done.wait()


def under_a_rate_limit(_ms: float) -> None:
    with TAKING:
        now = time.monotonic()
        NEXT[0] = turn = max(now, NEXT[0] + EACH)
    time.sleep(turn - now)


def exits(_ms: float) -> None:
    sys.exit(1)


ROUTES = {
    "/exits": exits,
    "/executor": in_executor,
    "/processes": with_lock_of_all,
    "/deadlock": with_both_locks,
    "/itself": ask_itself,
    "/event_loop": in_event_loop,
    "/consumer": by_consumer,
    "/computes": beside_a_computing_thread,
    "/native": in_native_library,
    "/limited": under_a_rate_limit,
}


def application(environ, start_response):  # type: ignore[no-untyped-def]
    ms = float(parse_qs(environ["QUERY_STRING"]).get("io_ms", ["0"])[0])
    serve = ROUTES.get(environ["PATH_INFO"])
    if serve:
        serve(ms)
    else:
        time.sleep(ms / 1000)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
