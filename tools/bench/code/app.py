"""A WSGI application that spends its time in a few functions, and records how much in each.

The record is a file of doubles, shared by all workers: for each thread, the seconds in each function. In the
environment: RECORD, its path; THREADS, those of a worker; BACKEND, the port of a server on loopback that answers late.
"""

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

import uwsgi  # type: ignore[import-untyped]

LOCK = threading.Lock()
TEXT = json.dumps([{"number": number, "name": "x" * 20} for number in range(500)])

with open(os.environ["RECORD"], "r+b") as file:
    RECORD = mmap.mmap(file.fileno(), 0)


def nap(seconds: float) -> None:
    time.sleep(seconds)


def wait_in_line(seconds: float) -> None:
    with LOCK:
        time.sleep(seconds)


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    number = 0
    while time.thread_time() < end:
        number = number * 3 % 1000003


def ask(seconds: float) -> None:
    with socket.create_connection(("127.0.0.1", int(os.environ["BACKEND"]))) as connection:
        connection.sendall(struct.pack("<d", seconds))
        connection.recv(1)


def parse(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        json.loads(TEXT)


MEAN_SECONDS: dict[Callable[[float], None], float] = {
    nap: 0.06,
    wait_in_line: 0.008,
    compute: 0.003,
    ask: 0.03,
    parse: 0.002,
}


def application(environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], Any]) -> list[bytes]:
    core = (uwsgi.worker_id() - 1) * int(os.environ["THREADS"]) + environ["uwsgi.core"]
    for place, (function, mean) in enumerate(MEAN_SECONDS.items()):
        began = time.monotonic()
        function(random.uniform(0.2, 1.8) * mean)
        where = 8 * (core * len(MEAN_SECONDS) + place)
        (before,) = struct.unpack_from("<d", RECORD, where)
        struct.pack_into("<d", RECORD, where, before + time.monotonic() - began)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
