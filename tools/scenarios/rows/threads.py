"""Threads: quiet, busy and full servers whose requests wait rather than compute, and cheaper mode."""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server, healthy

CALM = Expected("ok", limits=("threads",))
PREFORK, THREADED = Server(8), Server(4, 8)
CHEAPER = ("--cheaper", "2", "--cheaper-initial", "2")

ROWS = (
    Scenario("2x1 at 30 %", Server(2), CALM, (Load(part=0.3, io_ms=100),), resized=True),
    Scenario(
        "1x1 at 83 %",
        Server(),
        Expected("warning", ("saturation",), words=("processes",), limits=("threads",)),
        (Load(part=0.83, io_ms=100),),
        seconds=20.0,
        why="Near its limit; arrivals are so even that hardly any waits.",
        twin=healthy(
            "1x1 at 12 %",
            Load(part=0.12, io_ms=100),
            expected=CALM,
            seconds=12.0,
            quick=True,
        ),
        resized=True,
    ),
    Scenario("prefork 8x1 at 50 %", PREFORK, CALM, (Load(part=0.5, io_ms=100),), resized=True),
    Scenario(
        "prefork 8x1 at 90 %",
        PREFORK,
        Expected("warning", ("saturation",), words=("processes",), limits=("threads",)),
        (Load(part=0.9, io_ms=200),),
        twin="prefork 8x1 at 50 %",
        resized=True,
    ),
    Scenario(
        "prefork 8x1 at 120 %",
        PREFORK,
        Expected(
            "critical",
            ("saturation", "clients_refused", "queue_wait"),
            words=("processes",),
            limits=("threads",),
        ),
        (Load(part=1.2, io_ms=100),),
        quick=True,
        lead=3.0,
        why="The queue of 100 fills: users wait a second for 100 ms of service, or are refused.",
        twin="prefork 8x1 at 50 %",
        resized=True,
    ),
    Scenario(
        "4x8 io at 110 %",
        THREADED,
        Expected("critical", ("saturation", "clients_refused", "queue_wait"), words=("threads",), limits=("threads",)),
        (Load(part=1.1, io_ms=400, most=150),),
        lead=12.0,
        why="The queue of 100 fills: users wait longer than they are served, or are refused.",
        twin=healthy("4x8 io at 50 %", Load(part=0.5, io_ms=200), expected=CALM, lead=2.0),
        resized=True,
    ),
    Scenario(
        "4x1 full, a short wait",
        Server(4),
        Expected("critical", ("saturation",), words=("processes",), limits=("threads",)),
        (Load(clients=6, io_ms=300),),
        why="No thread is ever free, and everybody waits half of the service time before it begins.",
        twin=healthy("", Load(clients=1, io_ms=300)),
        resized=True,
    ),
    Scenario(
        "4x1 full, nobody waits",
        Server(4),
        Expected("warning", ("saturation",), words=("processes",), limits=("threads",)),
        (Load(clients=4, io_ms=300),),
        why="At the limit: a closed group of four users is served at once, the fifth would wait.",
        twin=healthy("", Load(clients=1, io_ms=300)),
        resized=True,
    ),
    Scenario(
        "thunder-lock",
        Server(4, 8, ("--thunder-lock",)),
        Expected("ok", also=("thunder_lock",), words=("thunder",), limits=("threads",)),
        (Load(part=0.3, io_ms=200),),
        resized=True,
    ),
    Scenario(
        "cheaper at rest",
        Server(8, 1, CHEAPER),
        Expected("ok", limits=("threads", None)),
        (Load(part=0.08, io_ms=100),),
    ),
    Scenario(
        "cheaper scaling",
        Server(8, 1, CHEAPER),
        Expected("ok", limits=("threads",)),
        (Load(clients=4, io_ms=300),),
        seconds=18.0,
        lead=0.0,
    ),
    Scenario(
        "cheaper, an application that loads slowly",
        Server(8, 1, ("--cheaper", "1", "--lazy-apps"), files={"slow": "10"}),
        Expected(
            "critical",
            ("cheaper_starts_slowly",),
            words=("takes a long time to load", "raise `cheaper` and `cheaper-initial` to"),
            limits=(None,),
        ),
        (Load(clients=6, io_ms=300),),
        seconds=16.0,
        lead=12.0,
        why="Six users need six workers. Cheaper mode starts the next one only when the last one is up, ten seconds "
        "later.",
        twin=healthy(
            "cheaper, enough workers from the start",
            Load(clients=3, io_ms=300),
            server=Server(8, 1, ("--cheaper", "7", "--lazy-apps"), files={"slow": "10"}),
            expected=Expected("ok", limits=("threads",)),
        ),
    ),
    Scenario(
        "a slow route beside a fast one",
        Server(3, 3),
        Expected("warning", ("saturation",), words=("the slowest 1 % of the requests take at least", "`--routes`")),
        (Load(rate=150, io_ms=10), Load(rate=3, io_ms=2000, path="/slow")),
        seconds=20.0,
        why="One request in 51 takes 2 s: these hold six of nine threads, and the others one and a half.",
        twin=healthy("", Load(rate=150, io_ms=10)),
    ),
    Scenario(
        "cheaper at its ceiling",
        Server(4, 1, CHEAPER),
        Expected("warning", ("saturation",), words=("processes",), limits=("threads",)),
        (Load(clients=4, io_ms=300),),
        lead=14.0,
        twin=healthy("", Load(clients=1, io_ms=300)),
    ),
    Scenario("nearly idle", Server(2, 2), Expected("ok", limits=(None,)), (Load(rate=0.3),)),
    Scenario("no request at all", Server(2, 2), Expected("ok", limits=(None,)), seconds=8.0, resized=True),
    Scenario(
        "static files only",
        Server(2, 2, ("--static-map", "/static={directory}/files"), files={"files/page.txt": "x" * 2000}),
        Expected("ok"),
        (Load(rate=40, path="/static/page.txt"),),
        resized=True,
    ),
    Scenario(
        "stats without cores",
        Server(2, 2, ("--stats-no-cores",)),
        Expected("ok", not_words=("nearly idle",)),
        (Load(part=0.3, io_ms=100),),
        resized=True,
    ),
)
