"""What threads wait for: locks, and work that a library does without the interpreter lock.

They need the right to see it: as an ordinary user beside uWSGI of the same user, without Yama, or as root.
"""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server

SERVER = Server(2, 8)

ROWS = (
    Scenario(
        "2x8, a lock of the application",
        SERVER,
        Expected("warning", ("application_lock",), words=("py-spy", "lock")),
        (Load(clients=8, path="/lock", io_ms=20, vary=(1.0, 1.5)),),
        why="In each worker one request holds the lock, and three wait for it. More threads would wait as well.",
    ),
    Scenario(
        "2x8, an extension sleeps with the interpreter lock",
        SERVER,
        Expected("warning", ("interpreter_lock_held",), words=("extension", "processes")),
        (Load(clients=8, path="/hold", io_ms=20, vary=(1.0, 1.5)),),
        why="The interpreters use hardly any CPU, and yet three of four requests wait for their lock.",
    ),
    Scenario(
        "1x8 hashing without the interpreter lock",
        Server(1, 8),
        Expected(
            "critical",
            ("cpu_bound",),
            also=("computes_outside_the_lock",),
            not_words=("raise `threads`", "raise `processes`"),
            limits=("cpu",),
        ),
        (Load(clients=6, path="/hash", cpu_ms=50),),
        alone=True,
        fixed=True,
        why="The CPUs are the limit. The interpreter seems saturated by its CPU use, but no thread waits for a lock.",
    ),
)
