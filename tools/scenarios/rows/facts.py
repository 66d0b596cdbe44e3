"""What uWSGI's own document shows: clients that leave, and later rows of the same kind, each beside a healthy twin."""

from __future__ import annotations

from tools.scenarios import actions
from tools.scenarios.scenario import NO_MORE, Event, Expected, Load, Scenario, Server, healthy

TOGETHER = ("--lazy-apps", "--thunder-lock", "--min-worker-lifetime", "0")
"""Workers that share the requests evenly, and load the application at each start."""

STATIC = ("--static-map", "/static={directory}/files")
SLOW_READERS = Load(clients=12, path="/static/big.txt", late_ms=1000)

ROWS = (
    Scenario(
        "clients leave before the answer",
        Server(4, 2),
        Expected(
            "warning",
            ("clients_left",),
            words=("clients disconnect", "timeout"),
            not_words=("traceback", "processes", "threads"),
        ),
        (Load(rate=15, io_ms=200, patience_ms=100), Load(rate=5, io_ms=20)),
        twin="clients that have time for the answer",
    ),
    Scenario(
        "clients leave, and the application fails",
        Server(4, 2),
        Expected("warning", ("exceptions", "clients_left"), ("exceptions", "clients_left"), words=()),
        (Load(rate=10, io_ms=200, patience_ms=100), Load(rate=10, io_ms=20, path="/error")),
        twin="clients that have time for the answer",
    ),
    Scenario(
        "clients that have time for the answer",
        Server(4, 2),
        Expected("ok"),
        (Load(rate=15, io_ms=200, patience_ms=5000), Load(rate=5, io_ms=20)),
    ),
    Scenario(
        "the holder of the thunder lock is stopped",
        Server(4, 1, ("--thunder-lock",)),
        Expected(
            "critical",
            ("accept_blocked",),
            words=("workers are idle", "pid", "accept lock", "kill -cont"),
            not_words=("processes",),
        ),
        (Load(part=0.2, io_ms=50),),
        (Event(3.0, actions.stop_accept_lock_holder),),
        quick=True,
        why="Nobody is served from then on: with `thunder-lock` only the holder of its lock may accept.",
        twin=healthy(
            "a thunder lock that works",
            Load(part=0.5, io_ms=50),
            expected=Expected("ok", limits=("threads",)),
        ),
    ),
    Scenario(
        "a worker of four is stopped",
        Server(4, 1),
        Expected("warning", ("workers_stopped",), words=("stopped", "kill -cont"), not_words=("processes",)),
        (Load(part=0.2, io_ms=50),),
        (Event(1.0, actions.stop_worker),),
    ),
    Scenario(
        "all workers reach max-requests together",
        Server(4, 1, ("--max-requests", "100", *TOGETHER), before="touch slow"),
        Expected(
            "critical",
            ("recycled_together",),
            words=("all workers reach `max-requests` together", "max-requests-delta"),
            not_words=("`processes`",),
            limits=("other", None),
        ),
        (Load(rate=27, io_ms=100),),
        seconds=20.0,
        lead=8.0,
        why="They share the requests evenly, so that all load the application at once, for three seconds.",
        twin=healthy(
            "max-requests with a delta",
            Load(rate=10, io_ms=50),
            server=Server(4, 1, ("--max-requests", "60", "--max-requests-delta", "40", *TOGETHER), before="touch slow"),
            expected=Expected("ok", limits=("threads",)),
            lead=30.0,
        ),
    ),
    Scenario(
        "SIGTERM without die-on-term",
        Server(4, 1, die_on_term=False),
        Expected(
            "warning",
            ("requests_lost",),
            words=("sigterm", "die-on-term"),
            not_words=("dmesg", "died"),
        ),
        (Load(part=0.5, io_ms=1000),),
        (Event(5.0, actions.terminate),),
        why="Two requests or so are in service and are lost, of some twenty: one event, with one cause.",
    ),
    Scenario(
        "a leak that reload-on-rss cannot keep up with",
        Server(2, 1, ("--reload-on-rss", "50", "--lazy-apps", "--min-worker-lifetime", "0"), before="touch slow"),
        Expected(
            "critical",
            ("respawn_loop", "recycled_together"),
            words=("memory grows", "reload-on-rss", "per request (measured in"),
            not_words=("raise `processes`", "cpu"),
            limits=(None,),
        ),
        (Load(rate=10, io_ms=10, path="/leak?kb=2048"),),
        seconds=20.0,
        lead=5.0,
        why="Each worker serves some ten requests, and then the next one loads the application for three seconds.",
        twin="leak with reload-on-rss",
    ),
    Scenario(
        "a full cache",
        Server(2, 2, ("--cache2", "name=pages,items=50")),
        Expected("warning", ("cache_full",), words=("cache `pages` is full", "`items`"), not_words=("processes",)),
        (Load(rate=20, io_ms=5, path="/cache"),),
        twin=healthy(
            "a cache with room",
            server=Server(2, 2, ("--cache2", "name=pages,items=5000")),
        ),
    ),
    Scenario(
        "a spooler that falls behind",
        Server(2, 2, ("--spooler", "{directory}/spool"), before="mkdir spool"),
        Expected("warning", ("spooler_behind",), words=("spooler falls behind", "spooler-processes")),
        (Load(rate=3, io_ms=5, path="/spool?task_ms=2000"),),
        seconds=24.0,
        lead=8.0,
        twin=healthy(
            "a spooler that keeps up",
            Load(rate=3, io_ms=5, path="/spool?task_ms=20"),
        ),
    ),
    Scenario(
        "static files for slow clients",
        Server(2, 2, STATIC, files={"files/big.txt": "x" * 2_000_000}),
        Expected(
            "critical",
            ("static_files",),
            words=("static files hold the threads", "offload-threads"),
            not_words=NO_MORE,
        ),
        (SLOW_READERS, Load(rate=1, io_ms=20)),
        why="A client that reads after a second holds its worker's thread until then.",
        twin=healthy(
            "static files by offload threads",
            server=Server(2, 2, (*STATIC, "--offload-threads", "2"), files={"files/big.txt": "x" * 2_000_000}),
            expected=Expected("ok", limits=("threads", None)),
        ),
    ),
)
