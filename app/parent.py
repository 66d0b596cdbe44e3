"""Ends this process with its parent: a killed `make` cannot pass a signal on."""

from __future__ import annotations

import contextlib
import os
import signal

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int) -> None:
    """Let the kernel send SIGTERM to this process when its parent, which has this pid, ends or has ended already."""
    with contextlib.suppress(ImportError, AttributeError):  # a Python without ctypes: then only Ctrl-C ends it
        import ctypes  # noqa: PLC0415  # not every Python has it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before that call
        os.kill(os.getpid(), signal.SIGTERM)
