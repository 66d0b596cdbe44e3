"""Asks questions about processes that a foreign process can make slow, endless or hanging, in a process that can be
thrown away: SIGKILL ends a read that waits in the kernel, which nothing can do to a thread."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def ask(question: Callable[..., T], *args: Any, seconds: float = 1.0) -> T:
    """The result of `question(*args)`, a function of a module. Raises what it raises, or TimeoutError if there is no
    result after `seconds`."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(here)
            _write(there, question, args)
        finally:
            os._exit(0)
    os.close(there)
    try:
        succeeded, result = pickle.loads(_read(here, time.monotonic() + seconds))  # noqa: S301 - of our own child
    finally:
        os.close(here)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not succeeded:
        raise result
    answer: T = result
    return answer


def _write(pipe: int, question: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        answer = True, question(*args)
    except Exception as error:  # noqa: BLE001 - the one who asks raises it
        answer = False, error
    with open(pipe, "wb") as file:
        file.write(pickle.dumps(answer))


def _read(pipe: int, end: float) -> bytes:
    parts: list[bytes] = []
    while not parts or parts[-1]:
        if not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            raise TimeoutError("there was no answer in time")
        parts.append(os.read(pipe, 1 << 16))
    return b"".join(parts)
