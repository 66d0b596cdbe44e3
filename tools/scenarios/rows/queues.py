"""Overflowing listen queues, stuck threads, and requests that wait behind them."""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server, healthy

SHORT = ("--listen", "40")
TCP = ("--http-socket", "{tcp}")
LONG = 600_000

ROWS = (
    Scenario(
        "UNIX queue of 40 overflowing",
        Server(2, 1, SHORT),
        Expected("critical", ("clients_refused",), words=("listen",), limits=("threads",)),
        (Load(clients=60, io_ms=200),),
        quick=True,
        twin=healthy("", Load(part=0.4, io_ms=200)),
    ),
    Scenario(
        "TCP queue of 40 overflowing",
        Server(2, 1, (*SHORT, *TCP)),
        Expected("critical", ("clients_refused",), words=("listen",), limits=("threads",)),
        (Load(clients=80, io_ms=200, socket="tcp"),),
        twin=healthy("", Load(part=0.4, io_ms=200, socket="tcp")),
    ),
    Scenario(
        "a burst fills half of the queue",
        Server(2, 1, SHORT),
        Expected("warning", ("queue_wait", "queue_filling"), words=("processes",), limits=("threads", None)),
        (Load(part=0.2, io_ms=100), Load(clients=25, requests=1, io_ms=100, start=8.0)),
        twin=healthy("", Load(part=0.2, io_ms=100)),
    ),
    Scenario(
        "one stuck request",
        Server(4),
        Expected("warning", ("request_stuck",), words=("py-spy",)),
        (Load(clients=1, io_ms=LONG, requests=1), Load(part=0.2, io_ms=100)),
        lead=26.0,
        twin=healthy("", Load(part=0.2, io_ms=100)),
        resized=True,
    ),
    Scenario(
        "half of the threads stuck",
        Server(2, 4),
        Expected("critical", ("request_stuck",), words=("timeouts",)),
        (Load(clients=4, io_ms=LONG, requests=1), Load(part=0.1, io_ms=100)),
        lead=26.0,
        twin=healthy("", Load(part=0.1, io_ms=100)),
    ),
    Scenario(
        "all threads stuck",
        Server(2, 2),
        Expected("critical", ("request_stuck", "saturation", "queue_wait"), words=("timeouts",)),
        (
            Load(clients=4, io_ms=LONG, requests=1),
            Load(clients=10, io_ms=100, start=2.0),
        ),
        lead=26.0,
        twin=healthy("", Load(clients=1, io_ms=100)),
    ),
    Scenario(
        "all threads held, not yet stuck",
        Server(2, 2),
        Expected("critical", ("saturation", "queue_wait"), limits=("threads",)),
        (
            Load(clients=4, io_ms=LONG, requests=1),
            Load(clients=10, io_ms=100, start=2.0),
        ),
        lead=4.0,
        twin=healthy("", Load(clients=1, io_ms=100)),
    ),
    Scenario(
        "eight long polls",
        Server(4, 8),
        Expected("ok", limits=("threads",)),
        (Load(clients=8, io_ms=20_000), Load(part=0.05, io_ms=100)),
    ),
    Scenario(
        "long polls in every thread",
        Server(1, 8),
        Expected("critical", ("saturation", "queue_wait"), words=("threads",), limits=("threads",)),
        (Load(clients=10, io_ms=8000), Load(rate=1.5, io_ms=50, start=1.0)),
        seconds=18.0,
        lead=4.0,
        twin=healthy("", Load(clients=4, io_ms=8000), Load(rate=1.5, io_ms=50)),
    ),
    Scenario(
        "a full log pipe",
        Server(2, 2, ("--logto", "{directory}/pipe"), before="mkfifo pipe"),
        Expected("unknown", words=("pipe",)),
        (Load(clients=12, io_ms=5),),
        lead=12.0,
        why="Master and workers are stopped at a line that the pipe does not take: there is nothing to judge, but why.",
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
        lead=8.0,
        why="Each of them asks again at once, so that the queue is full of requests that nobody waits for: uWSGI "
        "serves 16 a second, and hardly any answer comes in time. A queue of 15 would serve as many in time.",
        twin=healthy("", Load(clients=2, io_ms=250, patience_ms=1500)),
    ),
    Scenario(
        "as many clients, who have the time",
        Server(4, 1, ("--listen", "100")),
        Expected("critical", ("queue_wait", "saturation"), not_words=("lower `listen`", "do not raise")),
        (Load(clients=60, io_ms=250, patience_ms=20_000),),
        lead=8.0,
        twin=healthy("", Load(clients=2, io_ms=250, patience_ms=20_000)),
    ),
    Scenario(
        "event streams in most threads",
        Server(2, 8),
        Expected(
            "warning",
            ("sleeps_again",),
            words=("sleep again and again", "event streams"),
            not_words=("raise `processes`",),
        ),
        (Load(clients=14, path="/events?seconds=60"), Load(rate=4, io_ms=30)),
        lead=6.0,
        why="From outside, a stream that sends something now and then sleeps like a request that tries again: both are "
        "named.",
        twin=healthy("", Load(clients=4, path="/events?seconds=60"), Load(rate=4, io_ms=30)),
    ),
)
