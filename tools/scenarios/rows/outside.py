"""Other servers that the application asks, each beside a twin of the same setup whose servers answer at once.

They need the right to see waits, as the rows in `waits` do; those of DNS also need the right to serve port 53.
"""

from __future__ import annotations

from pathlib import Path

from tools.scenarios.scenario import Expected, Load, Scenario, Server, healthy
from tools.scenarios.servers import why_no_port_53

APP = Path(__file__).parents[1] / "outside_app.py"
NO_MORE = ("raise `threads`", "raise `processes`")

ROWS = (
    Scenario(
        "2x4, two backends, one of them slow",
        Server(2, 4, app=APP, beside=("answer:0.4", "answer:0.02")),
        Expected(
            "warning",
            ("waits_for_backend",),
            words=("the threads wait for 127.0.0.1:", "queries", "more `threads` help only if"),
            not_words=NO_MORE,
        ),
        (Load(clients=7, path="/ask?n=0&n=1&timeout=30"),),
        seconds=15.0,
        why="Seven of eight threads wait, nearly all of the time for the slow one, on sockets with a timeout.",
        twin=healthy(
            "2x4, two backends that answer",
            Load(rate=20, path="/ask?n=0&n=1&timeout=30"),
            server=Server(2, 4, app=APP, beside=("answer:0.02", "answer:0.02")),
            why="A tenth of the threads wait for them.",
        ),
    ),
    Scenario(
        "2x4, a backend that does not answer",
        Server(2, 4, app=APP, beside=("hole",)),
        Expected(
            "warning",
            ("waits_for_backend",),
            words=("does not answer", "127.0.0.1:", "timeout"),
            not_words=NO_MORE,
        ),
        (Load(clients=6, path="/new?n=0&timeout=2"),),
        seconds=15.0,
        quick=True,
        why="Its queue of connections is full, as behind a firewall that drops packets: six threads hang until their "
        "timeout of two seconds.",
        twin=healthy(
            "2x4, a backend that answers to new connections",
            Load(rate=20, path="/new?n=0&timeout=2"),
            server=Server(2, 4, app=APP, beside=("answer:0.02",)),
            why="The same requests, and a server that takes their connections.",
        ),
    ),
    Scenario(
        "2x4, a lock around a backend that does not answer",
        Server(2, 4, app=APP, beside=("hole",)),
        Expected(
            "critical",
            ("waits_for_backend",),
            words=("does not answer", "127.0.0.1:", "that one of these threads holds", "timeout"),
            not_words=(*NO_MORE, "holds the lock for less time"),
        ),
        (Load(clients=12, path="/locked?n=0&timeout=1"),),
        seconds=15.0,
        why="As with a log handler whose host is gone: one thread of each worker waits for its connection, with the "
        "lock that the other three wait for. What ends the wait ends both.",
        twin=healthy("", Load(rate=20, path="/locked?n=0&timeout=1"), server={"beside": ("answer:0.02",)}),
    ),
    Scenario(
        "2x4, slow DNS",
        Server(2, 4, app=APP, beside=("dns:0.5",)),
        Expected(
            "warning",
            ("waits_for_backend",),
            words=("dns at 127.0.9.", "resolver with a cache"),
            not_words=NO_MORE,
        ),
        (Load(clients=4, path="/lookup?n=0&timeout=5"),),
        seconds=15.0,
        skip=why_no_port_53,
        why="Each request looks up a name, which takes half a second.",
        twin=healthy(
            "2x4, DNS that answers",
            Load(rate=20, path="/lookup?n=0&timeout=5"),
            server=Server(2, 4, app=APP, beside=("dns:0.002",)),
            why="The same lookups, of two milliseconds.",
        ),
    ),
)
