"""Coroutines: many requests at once in one thread, with gevent and with uWSGI's own ugreen.

Only the gevent rows have requests that wait: in ugreen, of several requests that wait at once, none ever ends
(uWSGI 2.0.31).
"""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server
from tools.scenarios.servers import why_no_gevent

GEVENT = Server(2, 20, ("--gevent", "20", "--gevent-monkey-patch"))
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
        (Load(clients=16, cpu_ms=80, vary=(1.0, 1.2)),),
        alone=True,
        fixed=True,
        why="One interpreter at its limit: 16 users wait 1.3 s for 80 ms of work. More coroutines make it worse.",
    ),
    Scenario(
        "gevent at rest",
        GEVENT,
        Expected("ok", limits=("threads",)),
        (Load(clients=4, io_ms=200),),
        fixed=True,
        skip=why_no_gevent,
    ),
    Scenario(
        "gevent with long requests",
        GEVENT,
        Expected("ok", limits=("threads",)),
        (Load(clients=20, io_ms=50_000), Load(clients=2, io_ms=50)),
        lead=33.0,
        fixed=True,
        skip=why_no_gevent,
        why="Event streams and long polls last by nature, and half of the cores are free.",
    ),
    Scenario(
        "gevent full",
        GEVENT,
        FULL,
        (Load(clients=40, io_ms=400, vary=(1.0, 1.0)),),
        fixed=True,
        skip=why_no_gevent,
    ),
)
