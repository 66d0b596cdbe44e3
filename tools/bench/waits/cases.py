"""The cases: servers, and what their requests do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A server and its load.

    plans: what a request does, one of them at random (`app`). pause: mean seconds between two requests of a client.
    nothing but the interpreter lock is expected to hold requests up, so its time is judged.
    """

    name: str
    workers: int
    threads: int
    clients: int
    plans: tuple[str, ...]
    pause: float = 0.0
    slow: float = 0.0
    read_pollfds: bool = True
    pinned: bool = False
    options: tuple[str, ...] = ()


MIX = ("cpu:4,sleep:30", "postgres:50", "redis:20,sleep:10", "cpu:8,postgres:25")

CASES = (
    Case("2x8 nearly idle, mixed", 2, 8, 2, MIX, pause=0.2),
    Case("2x8 half full, mixed", 2, 8, 8, MIX),
    Case("2x8 overloaded, mixed", 2, 8, 24, MIX),
    Case("8x1 half full, mixed", 8, 1, 4, MIX),
    Case("8x1 overloaded, mixed", 8, 1, 12, MIX),
    Case("1x16 half full, mixed", 1, 16, 8, MIX),
    Case("1x16 overloaded, mixed", 1, 16, 24, MIX),
    Case("1x16 lock, on a CPU of its own", 1, 16, 12, ("cpu:10,sleep:20",), pinned=True),
    Case("1x16 lock, mostly computing, on a CPU of its own", 1, 16, 8, ("cpu:20",), pinned=True),
    Case("2x8 computing", 2, 8, 12, ("cpu:10,sleep:30",)),
    Case("8x1 computing", 8, 1, 8, ("cpu:10,sleep:30",)),
    Case("2x8 sleeping", 2, 8, 10, ("sleep:60",)),
    Case("2x8 two backends", 2, 8, 10, ("postgres:50", "redis:50", "postgres:30,redis:30")),
    Case("2x8 one backend, time-out", 2, 8, 10, ("postgres-timeout:50",)),
    Case("2x8 two backends, time-outs", 2, 8, 10, ("postgres-timeout:50", "redis-timeout:50")),
    Case(
        "2x8 two backends, time-outs, --read-pollfds false",
        2,
        8,
        10,
        ("postgres-timeout:50", "redis-timeout:50"),
        read_pollfds=False,
    ),
    Case("2x8 a connection for each query", 2, 8, 10, ("postgres-new:50",)),
    Case("2x8 a connection for each query, time-out", 2, 8, 10, ("postgres-new-timeout:50",)),
    Case("2x8 lock of the application", 2, 8, 10, ("lock:20",)),
    Case("2x8 fsync", 2, 8, 6, ("fsync:1",)),
    Case("2x8 slow clients", 2, 8, 8, ("client:64",), slow=0.005),
    Case("2x8 half full, mixed, thunder-lock", 2, 8, 8, MIX, options=("--thunder-lock",)),
    Case("8x1 half full, mixed, thunder-lock", 8, 1, 4, MIX, options=("--thunder-lock",)),
)

SHORT = ("2x8 half full, mixed", "1x16 lock, on a CPU of its own")
"""The cases for further builds of uWSGI and Python."""
