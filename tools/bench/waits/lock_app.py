"""A WSGI application of which 60 % of the requests hold a lock for 80 ms, asleep. The path says which."""

from __future__ import annotations

import fcntl
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

LOCKED, HOLD_SECONDS, OTHER_SECONDS = 0.6, 0.08, 0.02
"""The share of the requests that hold the lock, and for how long; how long the others sleep."""

_chance = random.Random()


@contextmanager
def _file() -> Iterator[None]:
    with open("locked", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_SAME = {"lock": threading.Lock(), "rlock": threading.RLock(), "condition": threading.Condition()}
_PLACES = threading.BoundedSemaphore(2)
_TWO = ((threading.Lock(), 0.03), (threading.Lock(), 0.05))


def application(environ: dict[str, str], start_response: Callable[..., object]) -> list[bytes]:
    kind = environ["PATH_INFO"].strip("/")
    if kind == "two":
        for lock, seconds in _TWO:
            with lock:
                time.sleep(seconds)
    elif kind != "semaphore" and _chance.random() >= LOCKED:
        time.sleep(OTHER_SECONDS)
    else:
        with ExitStack() as stack:
            held: Any = _file() if kind == "flock" else _PLACES if kind == "semaphore" else _SAME[kind]
            stack.enter_context(held)
            time.sleep(HOLD_SECONDS)
    start_response("200 OK", [])
    return [b"done"]
