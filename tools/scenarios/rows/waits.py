"""What threads wait for: locks, and work that a library does without the interpreter lock.

They need the right to see it: as an ordinary user beside uWSGI of the same user, without Yama, or as root. One row
shows what is said without it.
"""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server
from tools.scenarios.servers import why_not_root

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
        "4x8, a lock of the application, as another user",
        Server(4, 8, ("--chmod-socket=666",), before="chmod 755 ."),
        Expected(
            "critical",
            ("saturation",),
            also=("queue_wait", "waits_not_known"),
            words=("sudo", "a lock of the application", "a backend", "slow clients"),
            not_words=("raise `threads`", "raise `processes`"),
            limits=("threads",),
        ),
        (Load(clients=60, path="/lock", io_ms=40, vary=(1.0, 1.2)),),
        as_nobody=True,
        quick=True,
        skip=why_not_root,
        why="All threads are busy and all interpreters idle, and this user may not see why. More threads would wait "
        "for the lock as well, and answer no more requests.",
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
