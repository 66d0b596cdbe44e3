"""Coroutines: many requests at once in one thread, with gevent and with uWSGI's own ugreen.

Only the gevent rows have requests that wait: in ugreen, of several requests that wait at once, none ever ends
(uWSGI 2.0.31).
"""

from __future__ import annotations

from pathlib import Path

from tools.scenarios.scenario import Expected, Load, Scenario, Server, healthy

GEVENT = Server(2, 20, ("--gevent", "20", "--gevent-monkey-patch"))
UNPATCHED = ("--gevent", "20")
NO_MORE = ("raise `gevent`", "raise `async`", "raise `threads`", "raise `processes`")
KERNEL_APP = Path(__file__).parents[1] / "kernel_app.py"
OUTSIDE_APP = Path(__file__).parents[1] / "outside_app.py"
FULL = Expected("warning", ("saturation",), words=("async",), not_words=("raise `threads`",), limits=("threads",))

ROWS = (
    Scenario(
        "async on the CPU",
        Server(1, 20, ("--ugreen", "--async", "20")),
        Expected(
            "critical",
            ("interpreter_bound", "queue_wait", "saturation"),
            words=("processes",),
            not_words=("raise `gevent`", "raise `async`", "raise `threads`"),
            limits=("interpreters", "hottest_interpreter"),
        ),
        (Load(clients=16, cpu_ms=80),),
        alone=True,
        why="One interpreter at its limit: 16 users wait 1.3 s for 80 ms of work. More coroutines make it worse.",
        twin=healthy("", Load(rate=3, cpu_ms=80)),
    ),
    Scenario("gevent at rest", GEVENT, Expected("ok", limits=("threads",)), (Load(clients=4, io_ms=200),)),
    Scenario(
        "gevent with long requests",
        GEVENT,
        Expected("ok", limits=("threads",)),
        (Load(clients=20, io_ms=50_000), Load(clients=2, io_ms=50)),
        lead=33.0,
        why="Event streams and long polls last by nature, and half of the cores are free.",
    ),
    Scenario("gevent full", GEVENT, FULL, (Load(clients=40, io_ms=400),), twin="gevent at rest"),
    Scenario(
        "gevent, more clients than cores",
        GEVENT,
        Expected(
            "critical",
            ("saturation", "queue_wait"),
            words=("all async cores are busy", "gevent", "without a pause"),
            not_words=("CPUs", "`processes`", "`threads`"),
            limits=("threads",),
        ),
        (Load(clients=70, io_ms=400),),
        why="uWSGI looks for a free core without a pause and uses all CPUs for that; more CPUs would not serve more.",
        twin="gevent at rest",
    ),
    Scenario(
        "gevent, a call that sleeps",
        Server(2, 20, UNPATCHED),
        Expected(
            "critical",
            ("loop_held",),
            words=(
                "the event loops of workers 1 and 2 are blocked by calls that are sleeping",
                "gevent-early-monkey-patch",
            ),
            not_words=NO_MORE,
            limits=("other",),
        ),
        (Load(clients=20, io_ms=200),),
        why="Nothing is patched, so each worker serves one request at a time, and 18 of 20 clients wait in the queue.",
        twin="gevent, calls that yield",
    ),
    Scenario("gevent, calls that yield", GEVENT, Expected("ok", limits=("threads",)), (Load(clients=20, io_ms=200),)),
    Scenario(
        "gevent, a connection that is not answered",
        Server(2, 20, UNPATCHED, app=OUTSIDE_APP, beside=("hole",)),
        Expected(
            "critical",
            ("loop_held",),
            words=("blocked by calls that are connecting to 127.0.0.1:", "gevent-early-monkey-patch"),
            not_words=NO_MORE,
        ),
        (Load(clients=6, path="/new?n=0&timeout=5"),),
        seconds=15.0,
        twin=healthy(
            "gevent, connections that yield", server=Server(2, 20, GEVENT.options, app=OUTSIDE_APP, beside=("hole",))
        ),
    ),
    Scenario(
        "gevent, the lock of a file",
        Server(2, 20, GEVENT.options, app=KERNEL_APP),
        Expected(
            "critical",
            ("loop_held",),
            words=("blocked by calls that are waiting for the lock of a file", "threadpool"),
            not_words=NO_MORE,
            limits=("other",),
        ),
        (Load(clients=6, path="/flock", io_ms=100),),
        why="One coroutine sleeps with the lock, another one of the same thread waits for it in the kernel: no loop "
        "ever goes on.",
        twin="gevent, calls that yield",
    ),
    Scenario(
        "gevent, a call that computes",
        GEVENT,
        Expected(
            "warning",
            ("loop_held",),
            words=("blocked by calls that are computing", "another process"),
            not_words=NO_MORE,
        ),
        (Load(clients=1, cpu_ms=4000), Load(clients=10, io_ms=50)),
        alone=True,
        twin=healthy("gevent at 60 % of a CPU", Load(rate=200, cpu_ms=2), server=Server(1, 20, GEVENT.options)),
    ),
    Scenario(
        "gevent with event streams",
        Server(1, 20, ("--gevent", "30", "--gevent-monkey-patch")),
        Expected("ok"),
        (Load(clients=20, path="/events?seconds=60", cpu_ms=2),),
        alone=True,
        why="20 streams send ten events a second each: the loop computes 40 % of the time, and no request ends.",
    ),
)
