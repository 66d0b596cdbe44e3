"""The child process of `aside`: answers questions until its parent ends. It imports nothing but what they need."""

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

LENGTH = struct.Struct("<I")
"""Of a request or an answer, in front of it."""

BEGUN = struct.Struct("<d")
"""What comes before an answer: the CPU time of this process when the question began, in seconds."""

_MOST_MEMORY = 256 << 20
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def serve(descriptor: int) -> NoReturn:
    """Answer questions as the child process, until the other end is closed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # also while it hangs in the kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of Ctrl-C: the parent may ask once more
    with contextlib.suppress(OSError, ValueError):  # a filter of system calls refuses it, or a lower limit holds
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    with socket.socket(fileno=descriptor) as stream:
        stream.sendall(b"\n")
        while request := _receive(stream):
            question, arguments = pickle.loads(request)  # noqa: S301 - of the parent; may import a module
            began = time.process_time()
            stream.sendall(BEGUN.pack(began))
            answer: tuple[bool, object]
            try:
                answer = True, question(*arguments)
            except Exception as error:  # noqa: BLE001 - the parent raises it
                answer = False, error
            text = _pack(answer, time.process_time() - began)
            stream.sendall(LENGTH.pack(len(text)) + text)
    os._exit(0)


def _pack(answer: tuple[bool, object], cost: float) -> bytes:
    """An answer, with the CPU seconds that it took."""
    try:
        return pickle.dumps((*answer, cost))
    except Exception as error:  # noqa: BLE001 - an exception with state that cannot be sent
        return pickle.dumps((False, OSError(f"{type(error).__name__}: {error}"), cost))


def _receive(stream: socket.socket) -> bytes:
    """The next request; empty at the end."""
    head = stream.recv(LENGTH.size, socket.MSG_WAITALL)
    return stream.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL) if len(head) == LENGTH.size else b""
