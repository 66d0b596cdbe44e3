"""A WSGI application that sleeps, computes or holds a lock for the seconds in its path, as `/lock/0.08`.

The response is the monotonic time of the end in the application.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def _locked_file() -> Iterator[None]:
    with open("locked", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _same(lock: AbstractContextManager[object]) -> Callable[[], AbstractContextManager[object]]:
    return lambda: lock


_LOCKS = {
    "lock": ((_same(threading.Lock()), 1.0),),
    "rlock": ((_same(threading.RLock()), 1.0),),
    "condition": ((_same(threading.Condition()), 1.0),),
    "semaphore": ((_same(threading.BoundedSemaphore(2)), 1.0),),
    "flock": ((_locked_file, 1.0),),
    "two": ((_same(threading.Lock()), 0.375), (_same(threading.Lock()), 0.625)),
}
"""What a request holds, one after the other, each for a part of its seconds."""


def application(environ: dict[str, str], start_response: Callable[..., object]) -> list[bytes]:
    _, kind, text = environ["PATH_INFO"].split("/")
    seconds = float(text)
    if kind == "cpu":
        _compute(seconds)
    elif kind == "sleep":
        time.sleep(seconds)
    else:
        for lock, part in _LOCKS[kind]:
            with lock():
                time.sleep(part * seconds)
    start_response("200 OK", [])
    return [f"{time.monotonic()}".encode()]


def _compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))
