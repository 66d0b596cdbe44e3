"""What threads wait for: locks, backends, clients, work without the interpreter lock; and checks from elsewhere.

They need the right to see it: as an ordinary user beside uWSGI of the same user, without Yama, or as root. One row
shows what is said without it.
"""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server, healthy

SERVER = Server(2, 8)

SWINGING = Load(clients=80, fewest=8, period=10.0, think_ms=1000, path="/backend")
"""About 8 requests a second, up to 80 and back, in 10 s."""

ROWS = (
    Scenario(
        "2x8, a lock of the application",
        SERVER,
        Expected("warning", ("application_lock",), words=("py-spy", "lock")),
        (Load(clients=8, path="/lock", io_ms=20),),
        why="In each worker one request holds the lock, and three wait for it. More threads would wait as well.",
        twin=healthy("", Load(clients=8, io_ms=20)),
        resized=True,
    ),
    Scenario(
        "4x8, a lock of the application, as another user",
        Server(4, 8, ("--hook-master-start=safeexec:chmod 666 {directory}/stats",), before="chmod 755 ."),
        Expected(
            "critical",
            ("saturation",),
            also=("queue_wait",),
            words=("sudo", "a lock of the application", "a backend", "slow clients"),
            not_words=("raise `threads`", "raise `processes`"),
            limits=("threads",),
        ),
        (Load(clients=60, path="/lock", io_ms=40),),
        as_nobody=True,
        quick=True,
        why="All threads are busy and all interpreters idle, and this user may not see why. More threads would wait "
        "for the lock as well, and answer no more requests.",
        twin=healthy("", Load(clients=8, io_ms=40)),
        resized=True,
    ),
    Scenario(
        "2x8, an extension sleeps with the interpreter lock",
        SERVER,
        Expected("warning", ("interpreter_lock_held",), words=("extension", "processes"), limits=("other", None)),
        (Load(clients=8, path="/hold", io_ms=20),),
        why="The interpreters use hardly any CPU, and yet three of four requests wait for their lock.",
        twin=healthy("", Load(clients=8, io_ms=20)),
        resized=True,
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
        why="The CPUs are the limit. The interpreter seems saturated by its CPU use, but no thread waits for a lock.",
        twin=healthy("", Load(rate=4, path="/hash", cpu_ms=50)),
    ),
    Scenario(
        "4x4, a saturated backend",
        Server(4, 4, backend=2),
        Expected(
            "warning",
            ("backend_saturated",),
            words=("backend", "faster", "saturated"),
            not_words=("raise `threads`", "raise `processes`"),
            limits=("other", None),
        ),
        (SWINGING,),
        seconds=60.0,
        why="The backend works on two requests at once, 50 ms on each: 40/s. At times twice as many arrive, and all 16 "
        "threads wait for it. More threads would wait as well. On average, they wait 0.3 s for one.",
        twin=healthy(
            "4x4, a backend with room, at the same load",
            server=Server(4, 4, backend=16),
            expected=Expected("ok", not_words=("saturated",)),
        ),
    ),
    Scenario(
        "4x4, the same backend at 30 %",
        Server(4, 4, backend=2),
        Expected("ok", not_words=("saturated",)),
        (Load(rate=12, path="/backend"),),
        seconds=30.0,
        resized=True,
    ),
    Scenario(
        "2x2, clients keep their connections",
        Server(2, 2, ("--http11-socket", "{directory}/web")),
        Expected(
            "critical",
            ("queue_wait", "clients_refused"),
            words=("keep connections open", "http11-socket", "at least"),
            not_words=("raise `threads`", "raise `processes`"),
        ),
        (Load(clients=4, io_ms=50, think_ms=1000, keep_alive=True), Load(rate=4, io_ms=50, most=50, start=1.0)),
        seconds=20.0,
        why="A kept connection takes a thread, also between its requests. All other clients wait until one is closed.",
        twin=healthy("", Load(clients=2, io_ms=50, think_ms=1000), Load(rate=4, io_ms=50, start=1.0)),
    ),
    Scenario(
        "stats over TCP, as another user",
        Server(2, 2, tcp_stats=True),
        Expected("ok", limits=("threads",)),
        (Load(part=0.3, io_ms=100),),
        as_nobody=True,
        resized=True,
    ),
    Scenario(
        "emperor with a broken vassal",
        Server(
            options=("--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats"),
            bare=True,
            files={"vassals/broken.ini": "[uwsgi]\nmaster = true\nhttp-socket = /nonexistent/web\n"},
        ),
        Expected("warning", first=("vassals_throttled",), words=("log",)),
        seconds=8.0,
        lead=5.0,
        why="The other vassals serve; the application of this one is down, and only its emperor's log says why.",
        twin=healthy("", server={"files": {"vassals/good.ini": "[uwsgi]\nmaster = true\nhttp-socket = %dweb\n"}}),
    ),
)
