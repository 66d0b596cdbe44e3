"""Ends this process when its parent ends: a killed `make` cannot forward a signal."""

from __future__ import annotations

import contextlib
import os
import signal

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int) -> None:
    """Makes the kernel send SIGTERM to this process when its parent (PID `parent`) ends or has already ended."""
    with contextlib.suppress(ImportError, AttributeError):  # without ctypes, only Ctrl-C ends this process
        import ctypes  # noqa: PLC0415  # missing from some builds of Python

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent ended before the call of prctl
        os.kill(os.getpid(), signal.SIGTERM)
