"""The states in which a request spends its time, and the state of all request threads at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

State = Literal[
    "cpu",
    "cpu_wait",
    "interpreter_lock",
    "backend",
    "client",
    "dns",
    "disk",
    "lock",
    "sleep",
    "child",
    "pipe",
    "other",
    "unknown",
]
"""What a thread with a request in service does.

cpu: it runs. cpu_wait: it could run, but all CPUs are taken. interpreter_lock: it waits for CPython's global lock.
backend: for an answer of another server, such as a database. client: for the client of its request, to send or to
receive. dns: for a name server. disk: for a file or a block device, page faults included. lock: for a lock of the
application or of a library, a file lock, a semaphore. sleep: for time to pass. child: for a process that it started.
pipe: for a pipe. other: for something else that is known. unknown: the kernel's facts do not decide it.
"""

STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True)
class Waits:
    """What the request threads of a server wait for at one instant.

    off: why that is unknown, as a sentence for an operator; then nothing else is set but `needs_right`: whether another
        user of this host, such as root, could see it.
    threads: the mean number of threads in each state that is not 0. If a random part of the threads was looked at, the
        numbers are weighted: each is an unbiased estimate.
    interpreter_lock: the same for the interpreter lock, by worker id.
    backends: the same for the backends that are configured, by their name; addresses: the address of each.
        `threads["backend"]` includes them.
    busy: threads with a request in service according to uWSGI's document, which is read a moment earlier.
    gaps: why threads are `unknown`, as sentences for an operator.
    """

    off: str | None = None
    needs_right: bool = False
    threads: Mapping[State, float] = field(default_factory=dict)
    interpreter_lock: Mapping[int, float] = field(default_factory=dict)
    backends: Mapping[str, float] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    busy: int = 0
    gaps: tuple[str, ...] = ()
