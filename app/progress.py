"""What a person sees while something takes time: one line for each step, with how long it took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

WIDTH = 62  # columns for the sentence; the time follows and the line stays within 80


@contextlib.contextmanager
def step(sentence: str) -> Iterator[None]:
    """Say what is being done, and when the block has ended, how many seconds it took."""
    start = time.monotonic()
    print(f"  {sentence:<{WIDTH}}", end="", flush=True)
    try:
        yield
    except BaseException:
        print("  not done", flush=True)
        raise
    print(f"{time.monotonic() - start:8.1f} s", flush=True)
