"""Ctrl-C while modules load."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ending_the_process() -> Iterator[None]:
    """Have Ctrl-C end the process, without a traceback, for as long as the block runs: it only imports.

    Code that handles SIGINT already keeps its handler.
    """
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupted)
