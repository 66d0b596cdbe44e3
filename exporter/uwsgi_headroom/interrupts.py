"""Handles Ctrl-C while modules load. It stands alone because it must be loaded before everything else."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ending_the_process() -> Iterator[None]:
    """Have Ctrl-C end the process without a traceback while the block runs. The block may only import.

    If the program has set its own SIGINT handler, that handler stays.
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
