"""Listen queues that overflow, stuck threads and requests behind them; refused requests, and starts that fail."""

from pathlib import Path

from tools.scenarios import actions
from tools.scenarios.scenario import CALM, NO_MORE, Event, Expected, Load, Scenario, Server, healthy

SHORT = ("--listen", "40")
TCP = ("--http-socket", "{tcp}")
LONG = 600_000
FASTEST = """def application(environ, start_response):
    start_response("204 No Content", [])
    return []
"""

LARGE_HEADS = (Load(rate=20, io_ms=5), Load(rate=10, io_ms=5, path=f"/?cookie={'x' * 5000}"))
NO_PLUGIN = ("--http-socket-modifier1", "5")

REFUSED = Expected("critical", ("clients_refused",), words=("listen",), limits=("threads",))

ROWS = (
    Scenario(
        "UNIX queue of 40 overflowing",
        Server(2, 1, SHORT),
        REFUSED,
        (Load(clients=60, io_ms=200),),
        quick=True,
        twin=healthy("", Load(part=0.4, io_ms=200)),
    ),
    Scenario(
        "TCP queue of 40 overflowing",
        Server(2, 1, (*SHORT, *TCP)),
        REFUSED,
        (Load(clients=80, io_ms=200, socket="tcp"),),
        twin=healthy("", Load(part=0.4, io_ms=200, socket="tcp")),
    ),
    Scenario(
        "a burst fills half of the queue",
        Server(2, 1, SHORT),
        Expected("warning", ("queue_wait", "queue_filling"), words=("processes",), limits=("threads", None)),
        (Load(part=0.2, io_ms=100), Load(clients=25, requests=1, io_ms=100, start=8)),
        twin=healthy("", Load(part=0.2, io_ms=100)),
    ),
    Scenario(
        "one stuck request",
        Server(4),
        Expected("warning", ("request_stuck",), words=("py-spy",)),
        (Load(clients=1, io_ms=LONG, requests=1), Load(part=0.2, io_ms=100)),
        lead=26,
        twin=healthy("", Load(part=0.2, io_ms=100)),
        resized=True,
    ),
    Scenario(
        "half of the threads stuck",
        Server(2, 4),
        Expected("critical", ("request_stuck",), words=("timeouts",)),
        (Load(clients=4, io_ms=LONG, requests=1), Load(part=0.1, io_ms=100)),
        lead=26,
        twin=healthy("", Load(part=0.1, io_ms=100)),
    ),
    Scenario(
        "all threads stuck",
        Server(2, 2),
        Expected("critical", ("request_stuck", "saturation", "queue_wait"), words=("timeouts",)),
        (
            Load(clients=4, io_ms=LONG, requests=1),
            Load(clients=10, io_ms=100, start=2),
        ),
        lead=26,
        twin=healthy("", Load(clients=1, io_ms=100)),
    ),
    Scenario(
        "all threads held, not yet stuck",
        Server(2, 2),
        Expected("critical", ("saturation", "queue_wait"), limits=("threads",)),
        (
            Load(clients=4, io_ms=LONG, requests=1),
            Load(clients=10, io_ms=100, start=2),
        ),
        lead=4,
        twin=healthy("", Load(clients=1, io_ms=100)),
    ),
    Scenario(
        "eight long polls",
        Server(4, 8),
        CALM,
        (Load(clients=8, io_ms=20_000), Load(part=0.05, io_ms=100)),
    ),
    Scenario(
        "long polls in every thread",
        Server(1, 8),
        Expected("critical", ("saturation", "queue_wait"), words=("threads",), limits=("threads",)),
        (Load(clients=10, io_ms=8000), Load(rate=1.5, io_ms=50, start=1)),
        seconds=18,
        lead=4,
        twin=healthy("", Load(clients=4, io_ms=8000), Load(rate=1.5, io_ms=50)),
    ),
    Scenario(
        "a full log pipe",
        Server(2, 2, ("--logto", "{directory}/pipe"), before="mkfifo pipe"),
        Expected("critical", ("output_blocked",), words=("pipe",)),
        (Load(clients=12, io_ms=5),),
        lead=12,
        why="Master and workers are stopped at a line that the pipe does not take: the kernel shows where they wait.",
        twin=healthy("", Load(clients=1, io_ms=50), server={"before": "mkfifo pipe; cat pipe > /dev/null &"}),
    ),
    Scenario(
        "clients give up while their requests wait",
        Server(4, 1, ("--listen", "100")),
        Expected(
            "critical",
            ("clients_refused", "saturation"),
            ("clients_left",),
            words=("do not raise `listen`",),
            not_words=("net.core.somaxconn",),
        ),
        (Load(clients=60, io_ms=250, patience_ms=1500),),
        lead=8,
        why="Each of them asks again at once, so that the queue is full of requests that nobody waits for: uWSGI "
        "serves 16 a second, and hardly any answer comes in time. A queue of 15 would serve as many in time.",
        twin=healthy("", Load(clients=2, io_ms=250, patience_ms=1500)),
    ),
    Scenario(
        "as many clients, who have the time",
        Server(4, 1, ("--listen", "100")),
        Expected("critical", ("queue_wait", "saturation"), not_words=("lower `listen`", "do not raise")),
        (Load(clients=60, io_ms=250, patience_ms=20_000),),
        lead=8,
        twin=healthy("", Load(clients=2, io_ms=250, patience_ms=20_000)),
    ),
    Scenario(
        "event streams in most threads",
        Server(2, 8),
        Expected(
            "warning",
            ("slow_clients",),
            words=("stay open", "event streams"),
            not_words=("raise `processes`",),
        ),
        (Load(clients=14, path="/events?seconds=60"), Load(rate=4, io_ms=30)),
        lead=6,
        why="A stream that sends something now and then sleeps like a request that tries again, but its thread writes.",
        twin=healthy("", Load(clients=4, path="/events?seconds=60"), Load(rate=4, io_ms=30)),
    ),
    Scenario(
        "heads above buffer-size, with the log",
        Server(2, 2),
        Expected(
            "warning",
            ("requests_rejected",),
            words=("log says", "larger than `buffer-size`", "raise `buffer-size` (4096)"),
            not_words=("processes", "threads"),
        ),
        LARGE_HEADS,
        log=True,
        twin=healthy(
            "large heads that fit, with the log",
            server=Server(2, 2, ("--buffer-size", "32768")),
        ),
    ),
    Scenario(
        "the http router sends to an http-socket",
        Server(2, 2, ("--http", "{tcp}")),
        Expected(
            "critical",
            ("slow_clients",),
            words=(
                "no request is completed",
                "the threads wait for their clients",
                "speaks the protocol of the socket",
            ),
            not_words=NO_MORE,
        ),
        (Load(clients=12, io_ms=100, socket="tcp"),),
        why="The router speaks uwsgi to the first socket, and that one expects HTTP: each thread waits for the end of "
        "a head that never comes, until `socket-timeout`.",
        twin=healthy(
            "the http router sends to a socket",
            Load(clients=1, io_ms=100, socket="tcp"),
            server=Server(2, 2, ("--http", "{tcp}", "--http-to", "{directory}/app", "--socket", "{directory}/app")),
        ),
    ),
    Scenario(
        "a modifier without a plugin",
        Server(2, 2, NO_PLUGIN),
        Expected(
            "critical",
            ("requests_unanswered",),
            words=("at once, without a response", "no application", "modifier", "`plugins`"),
            not_words=("processes", "threads", "exception"),
            limits=(None,),
        ),
        (Load(rate=30),),
        quick=True,
        why="All requests fail within microseconds, and uWSGI counts them as requests like any other.",
        twin="the fastest application",
    ),
    Scenario(
        "a modifier without a plugin, with the log",
        Server(2, 2, NO_PLUGIN),
        Expected(
            "critical",
            ("requests_rejected",),
            words=("no plugin serves", "uwsgi's log says", "now 5"),
            not_words=("processes", "threads"),
        ),
        (Load(rate=30),),
        log=True,
        twin="the fastest application",
    ),
    Scenario(
        "the fastest application",
        Server(2, 2, app=Path("fastest.py"), files={"fastest.py": FASTEST}),
        Expected("ok"),
        (Load(rate=30),),
        quick=True,
        log=True,
    ),
    Scenario(
        "most responses are errors, with the log",
        Server(2, 2, ("--logto", "{directory}/log")),
        Expected("critical", ("server_errors",), words=("status 5xx", "the application's own log")),
        (Load(rate=10, io_ms=20, path="/failed"), Load(rate=3, io_ms=20)),
        log=True,
        why="Flask and Django catch exceptions: uWSGI counts none, threads are free, and requests are fast.",
        twin=healthy(
            "few responses are errors, with the log",
            Load(rate=30, io_ms=20),
            Load(rate=0.13, io_ms=20, path="/failed"),
            expected=Expected("ok", also=("server_errors",)),
        ),
    ),
    Scenario(
        "an import that fails, with the log",
        Server(4, 1, ("--lazy-apps",)),
        Expected(
            "critical",
            ("no_application",),
            words=("no worker has loaded its application", "importerror at scenarios/app.py:"),
            not_words=("processes",),
            limits=(None,),
        ),
        (Load(part=0.3, io_ms=100),),
        (Event(1, actions.deploy_broken),),
        log=True,
        seconds=20,
        twin=healthy(
            "a reload that works, with the log",
            Load(clients=1, io_ms=20),
            expected=Expected("ok", also=("reloaded",)),
            events=(Event(4, actions.reload),),
            seconds=12,
        ),
    ),
)
