"""A WSGI application that spends its time in a few functions, one for each state, and records how much in each.

The record is a file of doubles, shared by all workers: for each request thread, the seconds in each function. In the
environment: RECORD, its path; THREADS, those of a worker; BACKEND, the port of a server on loopback that answers late.
"""

import _thread
import ctypes
import fcntl
import itertools
import json
import mmap
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import uwsgi

TEXT = json.dumps([{"number": number, "name": "x" * 20} for number in range(500)])
PATH = os.environ["RECORD"]

with open(PATH, "r+b") as file:
    RECORD = mmap.mmap(file.fileno(), 0)

_LOCKED = ctypes.PyDLL(None)  # keeps the interpreter lock while it runs a function
_numbers = itertools.count()
_mine = threading.local()


def nap(seconds: float) -> None:
    time.sleep(seconds)


def ask(seconds: float) -> None:
    with socket.create_connection(("127.0.0.1", int(os.environ["BACKEND"]))) as connection:
        connection.sendall(struct.pack("<d", seconds))
        connection.recv(1)


def wait_for_lock(seconds: float) -> None:
    lock = threading.Lock()
    lock.acquire()
    _thread.start_new_thread(_later(seconds, lock.release), ())
    lock.acquire()


def wait_for_file(seconds: float) -> None:
    path = f"{PATH}.{threading.get_native_id()}"
    with open(path, "w") as held, open(path, "w") as wanted:
        fcntl.flock(held, fcntl.LOCK_EX)
        _thread.start_new_thread(_later(seconds, lambda: fcntl.flock(held, fcntl.LOCK_UN)), ())
        fcntl.flock(wanted, fcntl.LOCK_EX)


def wait_for_interpreter(seconds: float) -> None:
    end = time.monotonic() + seconds
    _thread.start_new_thread(_LOCKED.usleep, (int(1e6 * seconds),))
    while time.monotonic() < end:
        time.sleep(0)


def read_pipe(seconds: float) -> None:
    reader, writer = os.pipe()
    _thread.start_new_thread(_later(seconds, lambda: os.write(writer, b"x")), ())
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)


def run_program(seconds: float) -> None:
    os.waitpid(os.posix_spawn("/bin/sleep", ["sleep", str(seconds)], {}), 0)


def store(seconds: float) -> None:
    end = time.monotonic() + seconds
    with open(f"{PATH}.{threading.get_native_id()}", "wb", buffering=0) as file:
        while time.monotonic() < end:
            os.pwrite(file.fileno(), TEXT.encode(), 0)
            os.fsync(file.fileno())


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    number = 0
    while time.thread_time() < end:
        number = number * 3 % 1000003


def parse(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        json.loads(TEXT)


def _later(seconds: float, act: Callable[[], object]) -> Callable[[], object]:
    """What a thread does that serves no requests: it acts after a time."""

    def wait() -> None:
        time.sleep(seconds)
        act()

    return wait


PLAN: dict[Callable[[float], None], tuple[float, int]] = {
    nap: (0.014, 1),
    ask: (0.014, 1),
    wait_for_lock: (0.012, 1),
    wait_for_file: (0.012, 1),
    wait_for_interpreter: (0.010, 1),
    read_pipe: (0.012, 1),
    run_program: (0.012, 1),
    store: (0.010, 1),
    compute: (0.003, 4),
    parse: (0.002, 4),
}
"""The mean seconds of a call, and how many calls a request makes. Those on the CPU come last."""


def spend() -> str:
    """Do what a request does: wait in an order at random, and compute a moment after each wait."""
    calls = [function for function, (_, number) in PLAN.items() for _ in range(number)]
    half = len(calls) // 2
    for pair in zip(random.sample(calls[:half], half), random.sample(calls[half:], half)):  # noqa: B905
        for function in pair:
            seconds = random.uniform(0.2, 1.8) * PLAN[function][0]
            began = time.monotonic()
            function(seconds)
            _record(list(PLAN).index(function), time.monotonic() - began)
    return "ok"


def _record(place: int, seconds: float) -> None:
    if not hasattr(_mine, "row"):
        _mine.row = (uwsgi.worker_id() - 1) * int(os.environ["THREADS"]) + next(_numbers)
    where = 8 * (_mine.row * len(PLAN) + place)
    (before,) = struct.unpack_from("<d", RECORD, where)
    struct.pack_into("<d", RECORD, where, before + seconds)


def application(_environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], Any]) -> list[bytes]:
    text = spend()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text.encode()]
