"""Overflowing listen queues, stuck threads, and requests that wait behind them."""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server

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
        fixed=True,
    ),
    Scenario(
        "TCP queue of 40 overflowing",
        Server(2, 1, (*SHORT, *TCP)),
        Expected("critical", ("clients_refused",), words=("listen",), limits=("threads",)),
        (Load(clients=80, io_ms=200, socket="tcp"),),
        fixed=True,
    ),
    Scenario(
        "a burst fills half of the queue",
        Server(2, 1, SHORT),
        Expected("warning", ("queue_wait", "queue_filling"), words=("processes",), limits=("threads", None)),
        (Load(part=0.2, io_ms=100), Load(clients=25, requests=1, io_ms=100, start=8.0, vary=(1.0, 1.0))),
        fixed=True,
        why="25 users at once are served within 1.3 s; the others have no wait.",
    ),
    Scenario(
        "one stuck request",
        Server(4),
        Expected("warning", ("request_stuck",), words=("py-spy",)),
        (Load(clients=1, io_ms=LONG, requests=1), Load(part=0.2, io_ms=100)),
        lead=26.0,
    ),
    Scenario(
        "half of the threads stuck",
        Server(2, 4),
        Expected("critical", ("request_stuck",), words=("timeouts",)),
        (Load(clients=4, io_ms=LONG, requests=1, vary=(1.0, 1.2)), Load(part=0.1, io_ms=100)),
        lead=26.0,
        fixed=True,
    ),
    Scenario(
        "all threads stuck",
        Server(2, 2),
        Expected("critical", ("request_stuck", "saturation", "queue_wait"), words=("timeouts",)),
        (
            Load(clients=4, io_ms=LONG, requests=1, vary=(1.0, 1.0)),
            Load(clients=10, io_ms=100, start=2.0, vary=(1.0, 1.2)),
        ),
        lead=26.0,
        fixed=True,
        why="Nobody is served, and ten clients wait.",
    ),
    Scenario(
        "all threads held, not yet stuck",
        Server(2, 2),
        Expected("critical", ("saturation", "queue_wait"), limits=("threads",)),
        (
            Load(clients=4, io_ms=LONG, requests=1, vary=(1.0, 1.0)),
            Load(clients=10, io_ms=100, start=2.0, vary=(1.0, 1.2)),
        ),
        lead=4.0,
        fixed=True,
        why="Nobody is served for all of the check, and ten clients wait.",
    ),
    Scenario(
        "eight long polls",
        Server(4, 8),
        Expected("ok", limits=("threads",)),
        (Load(clients=8, io_ms=20_000), Load(part=0.05, io_ms=100)),
        fixed=True,
        why="They are meant to wait 20 s, and 24 threads are left.",
    ),
    Scenario(
        "long polls in every thread",
        Server(1, 8),
        Expected("critical", ("saturation", "queue_wait"), words=("threads",), limits=("threads",)),
        (Load(clients=10, io_ms=8000, vary=(1.0, 1.2)), Load(rate=1.5, io_ms=50, start=1.0)),
        seconds=18.0,
        lead=4.0,
        fixed=True,
        why="Short requests wait for seconds behind the polls.",
    ),
    Scenario(
        "a full log pipe",
        Server(
            2,
            2,
            ("--logto", "{directory}/pipe"),
            before="mkfifo pipe",
        ),
        Expected("unknown", words=("pipe",)),
        (Load(clients=12, io_ms=5),),
        lead=12.0,
        fixed=True,
        why="Master and workers are stopped at a line that the pipe does not take: there is nothing to judge, but why.",
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
        (Load(clients=60, io_ms=250, patience_ms=1500, vary=(1.0, 1.0)),),
        lead=8.0,
        fixed=True,
        why="Each of them asks again at once, so that the queue is full of requests that nobody waits for: uWSGI "
        "serves 16 a second, and hardly any answer comes in time. A queue of 15 would serve as many in time.",
    ),
    Scenario(
        "as many clients, who have the time",
        Server(4, 1, ("--listen", "100")),
        Expected("critical", ("queue_wait", "saturation"), not_words=("lower `listen`", "do not raise")),
        (Load(clients=60, io_ms=250, patience_ms=20_000, vary=(1.0, 1.0)),),
        lead=8.0,
        fixed=True,
        why="They wait for four seconds, and all of them get their answer.",
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
        (Load(clients=14, path="/events?seconds=60", vary=(1.0, 1.0)), Load(rate=4, io_ms=30)),
        lead=6.0,
        fixed=True,
        why="From outside, a stream that sends something now and then sleeps like a request that tries again: both are "
        "named.",
    ),
)
