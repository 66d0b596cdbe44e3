"""Requests that wait for threads which serve none, for all processes, for each other, or for their own server.

They need the right to see waits, as the rows in `waits` do.
"""

from __future__ import annotations

from pathlib import Path

from tools.scenarios.rows.kernel import NO_MORE
from tools.scenarios.scenario import Expected, Load, Scenario, Server, healthy

APP = Path(__file__).parents[1] / "threads_app.py"
CONSUMER = ("--env", "CONSUMER=1")

ROWS = (
    Scenario(
        "an executor of two threads",
        Server(2, 8, app=APP),
        Expected(
            "critical",
            ("waits_for_threads",),
            words=("no running request of the same worker could hold this lock", "max_workers"),
            not_words=(*NO_MORE, "hold the lock"),
            limits=("other",),
        ),
        (Load(rate=60, io_ms=100, path="/executor", most=100),),
        lead=4.0,
        why="Each request waits until one of two threads of its worker has slept 100 ms for it: no request holds what "
        "the others wait for.",
        twin=healthy(
            "an executor with room",
            Load(clients=5, io_ms=100, path="/executor"),
            server=Server(2, 8, ("--env", "EXECUTOR=8"), app=APP),
            lead=2.0,
        ),
    ),
    Scenario(
        "a thread that was started before the fork",
        Server(2, 4, CONSUMER, app=APP),
        Expected(
            "warning",
            ("waits_for_threads",),
            words=("do not end", "before uwsgi forked them", "set `lazy-apps`"),
            not_words=NO_MORE,
        ),
        (Load(clients=5, io_ms=20, path="/consumer"),),
        lead=8.0,
        twin=healthy(
            "a thread that each worker has started",
            Load(clients=4, io_ms=20, think_ms=100, path="/consumer"),
            server=Server(2, 4, (*CONSUMER, "--lazy-apps"), app=APP),
            lead=4.0,
        ),
    ),
    Scenario(
        "a C library that answers from a thread of its own",
        Server(2, 8, app=APP),
        Expected("ok", not_words=("lock of the application",), limits=("threads",)),
        (Load(rate=60, io_ms=100, path="/native"),),
        why="As with gRPC: each request waits in a condition variable of the C library for its own answer, at times "
        "beside requests that sleep, and none has what another one waits for.",
    ),
    Scenario(
        "a rate limit that requests sleep for",
        Server(2, 4, app=APP),
        Expected(
            "critical",
            ("saturation",),
            words=("unless a rate limit or retries make requests wait",),
            not_words=("serves at least",),
        ),
        (Load(clients=16, path="/limited"),),
        why="Ten requests a second are served, whatever the number of threads. From outside, this sleep is like any "
        "other, so no figure is promised.",
        twin=healthy("", Load(rate=3, path="/limited")),
    ),
    Scenario(
        "a lock that all processes share",
        Server(4, 2, app=APP),
        Expected(
            "warning",
            ("application_lock",),
            words=("all processes", "more threads or processes would also wait"),
            not_words=(*NO_MORE, "processes` help"),
            limits=("lock",),
        ),
        (Load(clients=8, io_ms=30, path="/processes"),),
        twin=healthy("", Load(clients=3, io_ms=30)),
    ),
    Scenario(
        "two locks, taken in both orders",
        Server(2, 4, app=APP),
        Expected(
            "critical",
            ("waits_for_threads",),
            words=("deadlock", "or for each other, and do not end"),
            not_words=NO_MORE,
        ),
        (Load(rate=20, io_ms=50, path="/deadlock", most=40),),
        seconds=16.0,
        lead=4.0,
        twin=healthy("", Load(rate=20, io_ms=50)),
    ),
    Scenario(
        "requests that call their own server",
        Server(4, 2, ("--http-socket", "{tcp}", "--env", "SELF={tcp}"), app=APP),
        Expected(
            "critical",
            ("waits_for_backend",),
            words=("call the uwsgi that serves them", "call the code behind the second requests"),
            not_words=NO_MORE,
        ),
        (Load(rate=30, io_ms=200, path="/itself", socket="tcp", most=60),),
        twin=healthy("", Load(rate=2, io_ms=200, path="/itself", socket="tcp")),
    ),
    Scenario(
        "a thread of the application computes",
        Server(1, 4, app=APP),
        Expected(
            "warning",
            ("interpreter_bound", "interpreter_lock_held"),
            words=("threads that serve no request", "mule"),
            not_words=NO_MORE,
        ),
        (Load(rate=20, io_ms=10, path="/computes"),),
        alone=True,
        why="The interpreter is saturated by a thread in the background; requests wait for its lock, again and again. "
        "Another process would start such a thread as well.",
        twin=healthy("", Load(rate=20, io_ms=10)),
    ),
    Scenario(
        "an event loop in each request",
        Server(2, 4, app=APP, backend=64),
        Expected(
            "critical", ("waits_for_backend",), words=("wait for 127.0.0.1:",), not_words=("py-spy", "is not known")
        ),
        (Load(clients=16, io_ms=200, path="/event_loop"),),
        why="`asyncio.run()` makes a loop with a pair of sockets that wakes it up; what the request waits for is the "
        "backend.",
        twin=healthy("", Load(clients=2, io_ms=200, path="/event_loop")),
    ),
)
