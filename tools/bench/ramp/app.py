"""A WSGI application that sleeps, computes or holds a lock for the seconds in its path, as `/lock/0.08`.

The response is the monotonic time of the start and of the end in the application.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOCK = threading.Lock()


def application(environ: dict[str, str], start_response: Callable[..., object]) -> list[bytes]:
    began = time.monotonic()
    _, kind, seconds = environ["PATH_INFO"].split("/")
    if kind == "cpu":
        _compute(float(seconds))
    elif kind == "lock":
        with _LOCK:
            time.sleep(float(seconds))
    else:
        time.sleep(float(seconds))
    start_response("200 OK", [])
    return [f"{began} {time.monotonic()}".encode()]


def _compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))
