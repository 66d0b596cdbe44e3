"""The child process of `aside`: answers questions until its parent ends. Imports only what they need."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import resource
import signal
import socket
import struct
import time
from typing import NoReturn

FLAG = "--answer-questions"
"""The first argument of the child process of a program in one file, which is its own Python."""

REQUEST = struct.Struct("<I?")
"""In front of a question: its length, and whether to say when it begins, since a module may have to be imported."""

ANSWER = struct.Struct("<Id")
"""In front of an answer: its length, and the CPU time that this process has used, in seconds. The length is 0 for what
is no answer: this process is ready, or a question begins."""

_MOST_MEMORY = 256 << 20
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def serve(descriptor: int) -> NoReturn:
    """Answer questions as the child process, until the other end is closed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # also while it hangs in the kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of Ctrl-C: the parent may ask once more
    with contextlib.suppress(OSError, ValueError):  # a filter of system calls refuses it, or a lower limit holds
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    schedule = None
    with contextlib.suppress(OSError):
        schedule = os.open("/proc/self/schedstat", os.O_RDONLY)
    with socket.socket(fileno=descriptor) as stream:
        stream.sendall(ANSWER.pack(0, time.process_time()))
        while request := stream.recv(REQUEST.size, socket.MSG_WAITALL):
            length, is_new = REQUEST.unpack(request)
            question, arguments = pickle.loads(stream.recv(length, socket.MSG_WAITALL))  # noqa: S301 - of the parent
            if is_new:
                stream.sendall(ANSWER.pack(0, time.process_time()))
            began = _time_without_delays(schedule)
            answer: tuple[bool, object]
            try:
                answer = True, question(*arguments)
            except Exception as error:  # noqa: BLE001 - the parent raises it
                answer = False, error
            text = _pack(answer, _time_without_delays(schedule) - began)
            stream.sendall(ANSWER.pack(len(text), time.process_time()) + text)
    os._exit(0)


def _time_without_delays(schedule: int | None) -> float:
    """A clock that stands while this process waits for a CPU, in seconds (schedstat in the kernel's
    Documentation/scheduler/sched-stats.rst); the CPU time of this process where the kernel does not count that."""
    if schedule is None:
        return time.process_time()
    return time.monotonic() - int(os.pread(schedule, 64, 0).split()[1]) / 1e9


def _pack(answer: tuple[bool, object], seconds: float) -> bytes:
    """An answer, with the seconds that it took."""
    try:
        return pickle.dumps((*answer, seconds))
    except Exception as error:  # noqa: BLE001 - an exception with state that cannot be sent
        return pickle.dumps((False, OSError(f"{type(error).__name__}: {error}"), seconds))
