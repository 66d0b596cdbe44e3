"""A WSGI application whose versions differ: the file `version.json` beside the master's directory says how.

Times are exponential with these means. The file is read when a process loads the application, as with `lazy-apps`.
"""

import fcntl
import json
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

VERSION = json.loads(Path("version.json").read_text())
_kept: list[bytes] = []
_of_thread = threading.local()


def _compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _ask_backend(seconds: float) -> None:
    connection = getattr(_of_thread, "connection", None)
    if connection is None:
        connection = _of_thread.connection = socket.create_connection(("127.0.0.1", VERSION["port"]))
    connection.sendall(b"%d\n" % round(1000 * seconds))
    connection.recv(16)


def _hold_lock(seconds: float) -> None:
    with open("lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        time.sleep(seconds)


def application(_environ: dict[str, str], start_response: Callable[..., object]) -> list[bytes]:
    _compute(random.expovariate(1 / VERSION["cpu"]))
    _ask_backend(random.expovariate(1 / VERSION["backend"]))
    _hold_lock(random.expovariate(1 / VERSION["lock"]))
    if VERSION["leak"]:
        _kept.append(random.randbytes(VERSION["leak"]))
    if random.random() < VERSION["errors"]:
        raise RuntimeError("a planted fault")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
