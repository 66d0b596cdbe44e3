"""Workers that end: harakiri, crashes, recycling, reloads, broken deployments, leaks; and exceptions."""

from __future__ import annotations

from tools.scenarios import actions
from tools.scenarios.scenario import Event, Expected, Load, Scenario, Server

CHAIN = ("--lazy-apps", "--touch-chain-reload", "{directory}/reload")
LEAK = Load(rate=8, io_ms=10, path="/leak?kb=1024")
PREFORK = Server(8)
HARAKIRI = Server(8, 1, ("--harakiri", "2"))
RECYCLED = ("--min-worker-lifetime", "0")

ROWS = (
    Scenario(
        "one harakiri",
        HARAKIRI,
        Expected("warning", ("harakiri",), words=("harakiri",), limits=("threads",)),
        (Load(part=0.4, io_ms=100), Load(clients=1, io_ms=20_000, requests=1, start=3.0, vary=(1.0, 1.0))),
        quick=True,
        fixed=True,
    ),
    Scenario(
        "a storm of harakiri",
        HARAKIRI,
        Expected("critical", ("harakiri",), words=("harakiri",)),
        (Load(part=0.2, io_ms=100), Load(rate=1.0, io_ms=20_000, vary=(0.9, 1.0))),
        fixed=True,
        why="One request in 16 takes its worker down.",
    ),
    Scenario(
        "max-requests, gentle",
        Server(4, 1, ("--max-requests", "100", *RECYCLED)),
        Expected("ok", also=("workers_respawned",), limits=("threads",)),
        (Load(part=0.6, io_ms=50),),
        seconds=15.0,
        why="A worker lives 8 s here so that the check sees it, and no request is lost.",
    ),
    Scenario(
        "max-requests too tight",
        Server(4, 1, ("--max-requests", "8", *RECYCLED)),
        Expected("warning", ("respawn_loop", "workers_respawned"), words=("raise `max-requests`",)),
        (Load(rate=7, io_ms=50),),
        seconds=18.0,
        why="Workers live four seconds: CPU and capacity go into respawns, but nobody is refused.",
    ),
    Scenario(
        "max-requests far too tight",
        Server(4, 1, ("--max-requests", "5", *RECYCLED)),
        Expected(
            "critical", ("clients_refused", "queue_wait", "respawn_loop", "workers_missing"), words=("max-requests",)
        ),
        (Load(part=0.4, io_ms=50),),
        fixed=True,
        why="uWSGI respawns about two workers a second, so four of 5 requests each cannot serve 32 requests a second.",
    ),
    Scenario(
        "import ends a worker of a chain reload",
        Server(4, 1, CHAIN),
        Expected("warning", ("workers_missing", "respawn_loop"), words=("log",)),
        (Load(part=0.3, io_ms=100),),
        (Event(1.0, actions.deploy_dying),),
        seconds=15.0,
        fixed=True,
        why="uWSGI waits for the first worker to come up, and the other three serve.",
    ),
    Scenario(
        "import ends every worker",
        Server(4, 1, ("--lazy-apps", "--touch-workers-reload", "{directory}/reload")),
        Expected("critical", ("workers_missing", "respawn_loop"), words=("log",)),
        (Load(part=0.3, io_ms=100),),
        (Event(1.0, actions.deploy_dying),),
        seconds=20.0,
        fixed=True,
        why="After a deployment no worker comes up.",
    ),
    Scenario(
        "import error without need-app",
        Server(4, 1, ("--lazy-apps",)),
        Expected("critical", words=("application",), first=("no_application",)),
        (Load(part=0.3, io_ms=100),),
        (Event(1.0, actions.deploy_broken),),
        seconds=15.0,
        fixed=True,
        why="uWSGI answers every request with status 500 itself: no worker has an application.",
    ),
    Scenario(
        "import error with need-app",
        Server(4, 1, ("--need-app",)),
        Expected("unknown"),
        (Load(part=0.3, io_ms=100),),
        (Event(1.0, actions.deploy_broken),),
        seconds=8.0,
        fixed=True,
        why="uWSGI ends: there is nothing left to judge.",
    ),
    Scenario(
        "one request in 50 ends its worker",
        Server(4),
        Expected("critical", ("requests_lost", "respawn_loop"), words=("log",)),
        (Load(rate=16, io_ms=50), Load(rate=0.33, io_ms=30, path="/exit")),
        seconds=18.0,
        fixed=True,
        why="At least 3 requests are lost, and 1 % of all.",
    ),
    Scenario(
        "one request in 200 ends its worker",
        Server(4),
        Expected("warning", ("requests_lost",), words=("log",)),
        (Load(rate=40, io_ms=40), Load(rate=0.2, io_ms=30, path="/exit", vary=(0.8, 1.0))),
        seconds=18.0,
        fixed=True,
        why="3 or 4 of 720 requests are lost: under 1 %.",
    ),
    Scenario(
        "kill -9 of a worker",
        PREFORK,
        Expected("warning", ("requests_lost",), words=("log",), limits=("threads",)),
        (Load(clients=4, io_ms=300),),
        (Event(4.0, actions.kill_busy_worker),),
        quick=True,
        fixed=True,
    ),
    Scenario(
        "kill -9 of the master",
        Server(2),
        Expected("unknown"),
        (Load(part=0.3, io_ms=100),),
        (Event(3.0, actions.kill_master),),
        seconds=8.0,
    ),
    Scenario(
        "full reload",
        Server(4),
        Expected("ok", also=("reloaded",), limits=("threads",)),
        (Load(part=0.3, io_ms=100),),
        (Event(4.0, actions.reload),),
        quick=True,
        why="Requests wait in the queue for the moment of it.",
    ),
    Scenario(
        "chain reload",
        Server(3, 1, CHAIN),
        Expected("ok", limits=("threads",)),
        (Load(part=0.2, io_ms=100),),
        (Event(2.0, actions.touch),),
        seconds=15.0,
        why="One worker after the other is replaced, and requests go to the rest.",
    ),
    Scenario(
        "leak with reload-on-rss",
        Server(2, 1, ("--reload-on-rss", "70", *RECYCLED)),
        Expected("ok", also=("workers_respawned",), not_words=("leak",)),
        (LEAK,),
        seconds=18.0,
        why="Workers are replaced between requests, each after some seconds: what the option is for.",
    ),
    Scenario(
        "leak without a limit",
        Server(2),
        Expected("warning", ("memory_growing",), words=("reload-on-rss",)),
        (LEAK,),
    ),
    Scenario(
        "9 % exceptions",
        Server(2, 2),
        Expected("warning", ("exceptions",), words=("tracebacks",)),
        (Load(rate=10, io_ms=50), Load(rate=1.0, io_ms=50, path="/error")),
        quick=True,
        fixed=True,
    ),
    Scenario(
        "0.4 % exceptions",
        Server(2, 2),
        Expected("ok", also=("exceptions",)),
        (Load(rate=30, io_ms=40), Load(rate=0.13, io_ms=40, path="/error")),
        seconds=15.0,
        fixed=True,
    ),
)
