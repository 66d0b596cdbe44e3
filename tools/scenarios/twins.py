"""The healthy twin of each sick row: the same set-up without the fault, which must stay quiet.

A twin is another row, or is made from its row: without its events, and with the changes listed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tools.scenarios import actions
from tools.scenarios.scenario import Event, Expected, Load, Scenario
from tools.scenarios.table import ROWS


@dataclass(frozen=True)
class Changes:
    """What a twin has instead of what its row has. loads: its loads; None: the same. server: fields of its server."""

    loads: tuple[Load, ...] | None = None
    events: tuple[Event, ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict)


def _with(*loads: Load, **server: Any) -> Changes:
    return Changes(loads or None, server=server)


GOOD_VASSAL = "[uwsgi]\nmaster = true\nhttp-socket = %dweb\n"
CALM_POLLS = _with(Load(clients=4, io_ms=8000), Load(rate=1.5, io_ms=50))
ONE_CLIENT = _with(Load(clients=1, io_ms=100))

TWINS: Mapping[str, str | Changes] = {
    "1x1 at 83 %": "1x1 at 12 %",
    "prefork 8x1 at 90 %": "prefork 8x1 at 50 %",
    "prefork 8x1 at 120 %": "prefork 8x1 at 50 %",
    "4x8 io at 110 %": "4x8 io at 50 %",
    "4x1 full, a short wait": _with(Load(clients=1, io_ms=300)),
    "4x1 full, nobody waits": _with(Load(clients=1, io_ms=300)),
    "cheaper at its ceiling": _with(Load(clients=1, io_ms=300)),
    "async on the CPU": _with(Load(rate=3, cpu_ms=80)),
    "gevent full": "gevent at rest",
    "gevent, more clients than cores": "gevent at rest",
    "gevent, a call that sleeps": "gevent, calls that yield",
    "gevent, a connection that is not answered": "gevent, connections that yield",
    "gevent, the lock of a file": "gevent, calls that yield",
    "gevent, a call that computes": "gevent at 60 % of a CPU",
    "cheaper, an application that loads slowly": "cheaper, enough workers from the start",
    "heads above buffer-size, with the log": "large heads that fit, with the log",
    "the http router sends to an http-socket": "the http router sends to a socket",
    "a modifier without a plugin": "the fastest application",
    "a modifier without a plugin, with the log": "the fastest application",
    "most responses are errors, with the log": "few responses are errors, with the log",
    "an import that fails, with the log": "a reload that works, with the log",
    "UNIX queue of 40 overflowing": _with(Load(part=0.4, io_ms=200)),
    "TCP queue of 40 overflowing": _with(Load(part=0.4, io_ms=200, socket="tcp")),
    "a burst fills half of the queue": _with(Load(part=0.2, io_ms=100)),
    "one stuck request": _with(Load(part=0.2, io_ms=100)),
    "half of the threads stuck": _with(Load(part=0.1, io_ms=100)),
    "all threads stuck": ONE_CLIENT,
    "all threads held, not yet stuck": ONE_CLIENT,
    "long polls in every thread": CALM_POLLS,
    "a slow route beside a fast one": _with(Load(rate=150, io_ms=10)),
    "a full log pipe": _with(Load(clients=1, io_ms=50), before="mkfifo pipe; cat pipe > /dev/null &"),
    "a storm of harakiri": _with(Load(part=0.2, io_ms=100)),
    "harakiri that cannot fire": _with(Load(rate=10, io_ms=50)),
    "max-requests too tight": "max-requests, gentle",
    "max-requests far too tight": "max-requests, gentle",
    "import ends a worker of a chain reload": "chain reload",
    "import ends every worker": Changes((Load(clients=1, io_ms=20),), (Event(1.0, actions.touch),)),
    "import error without need-app": Changes((Load(clients=1, io_ms=20),), (Event(1.0, actions.reload),)),
    "import error with need-app": Changes((Load(clients=1, io_ms=20),), (Event(1.0, actions.reload),)),
    "one request in 50 ends its worker": _with(Load(rate=16, io_ms=50)),
    "one request in 200 ends its worker": _with(Load(rate=40, io_ms=40)),
    "one request in 50 crashes its worker": _with(Load(rate=16, io_ms=50)),
    "kill -9 of a worker": _with(Load(part=0.3, io_ms=100)),
    "full reload of a slow application": "full reload",
    "a full reload waits for a request": "full reload",
    "a worker at max-requests waits for a long request": _with(options=()),
    "a full reload that has two minutes waits": "full reload",
    "leak without a limit": _with(Load(rate=8, io_ms=10)),
    "leak with evil-reload-on-rss": "leak with reload-on-rss",
    "every request raises an exception": _with(Load(rate=10, io_ms=50)),
    "9 % exceptions": _with(Load(rate=10, io_ms=50)),
    "emperor with a broken vassal": _with(files={"vassals/good.ini": GOOD_VASSAL}),
    "4x8 on the CPU": _with(Load(rate=5, cpu_ms=50)),
    "1x8 on the CPU": _with(Load(rate=4, cpu_ms=50)),
    "4x8 on the CPU, beside burners": _with(Load(rate=5, cpu_ms=50)),
    "some CPU, beside burners": _with(),
    "hot worker by map-socket": "uneven and harmless",
    "full worker by map-socket": "uneven and harmless",
    "pinned on one CPU by taskset": _with(Load(rate=8, cpu_ms=50), cpus=""),
    "cgroup quota of half a CPU": "a CPU quota that nobody feels",
    "2x8, a lock of the application": _with(Load(clients=8, io_ms=20)),
    "4x8, a lock of the application, as another user": _with(Load(clients=8, io_ms=40)),
    "2x8, an extension sleeps with the interpreter lock": _with(Load(clients=8, io_ms=20)),
    "1x8 hashing without the interpreter lock": _with(Load(rate=4, path="/hash", cpu_ms=50)),
    "4x4, a saturated backend": "4x4, a backend with room, at the same load",
    "2x2, clients keep their connections": _with(
        Load(clients=2, io_ms=50, think_ms=1000), Load(rate=4, io_ms=50, start=1.0)
    ),
    "throttled by a CPU quota": "a CPU quota that nobody feels",
    "a connection opened before the fork": "a connection of each worker",
    "standard output is a pipe that nobody reads": "standard output is a pipe that is read",
    "a leak of descriptors reaches the limit": "few descriptors and no leak",
    "a timer that runs in a worker": "a timer that runs in a mule",
    "a leak of threads": "a pool of threads that fills up",
    "the import waits for a backend": "the same reload with an import that ends",
    "the import waits for a lock": "the same reload with an import that ends",
    "one file lock for all processes": _with(Load(clients=3, io_ms=30)),
    "a pool of five connections": "a pool that is large enough",
    "SQLite that one request writes to at a time": "SQLite with room",
    "requests that sleep once, in every thread": ONE_CLIENT,
    "a semaphore of two, held while asleep": _with(Load(clients=2, io_ms=200, path="/two")),
    "requests that start programs which compute": "requests that start few programs",
    "a rate limit that requests sleep for": _with(Load(rate=3, path="/limited")),
    "an executor of two threads": "an executor with room",
    "a lock that all processes share": _with(Load(clients=3, io_ms=30)),
    "two locks, taken in both orders": _with(Load(rate=20, io_ms=50)),
    "requests that call their own server": _with(Load(rate=2, io_ms=200, path="/itself", socket="tcp")),
    "an event loop in each request": _with(Load(clients=2, io_ms=200, path="/event_loop")),
    "a thread of the application computes": _with(Load(rate=20, io_ms=10)),
    "two mules compute": "two mules at rest",
    "a leak reaches the cgroup's memory limit": "a memory limit that nobody reaches",
    "2x4, two backends, one of them slow": "2x4, two backends that answer",
    "2x4, a backend that does not answer": "2x4, a backend that answers to new connections",
    "2x4, a lock around a backend that does not answer": _with(
        Load(rate=20, path="/locked?n=0&timeout=1"), beside=("answer:0.02",)
    ),
    "2x4, slow DNS": "2x4, DNS that answers",
    "clients leave before the answer": "clients that have time for the answer",
    "clients leave, and the application fails": "clients that have time for the answer",
    "the holder of the thunder lock is stopped": "a thunder lock that works",
    "all workers reach max-requests together": "max-requests with a delta",
    "a leak that reload-on-rss cannot keep up with": "leak with reload-on-rss",
    "a full cache": "a cache with room",
    "a spooler that falls behind": "a spooler that keeps up",
    "static files for slow clients": "static files by offload threads",
    "psycopg2 and a slow query": "psycopg2 and a fast query",
    "SQLAlchemy's pool of five": "SQLAlchemy's pool with room",
    "Django and a row that all requests lock": "Django and rows that nobody waits for",
    "redis-py and a blocked Redis": "redis-py and a Redis that answers",
    "requests and a server that does not answer": "requests and an nginx that answers",
    "clients give up while their requests wait": _with(Load(clients=2, io_ms=250, patience_ms=1500)),
    "as many clients, who have the time": _with(Load(clients=2, io_ms=250, patience_ms=20_000)),
    "event streams in most threads": _with(Load(clients=4, path="/events?seconds=60"), Load(rate=4, io_ms=30)),
    "a lock, and then a sleep without it": _with(Load(clients=2, io_ms=30, path="/turn")),
    "a program has the lock of a worker that ended": _with(Load(clients=3, io_ms=20)),
    "a thread that was started before the fork": "a thread that each worker has started",
    "reload-on-rss below what a worker has": _with(options=("--reload-on-rss", "200")),
    "nginx gives up before the answer": "nginx that waits for the answer",
}


def find_twin(row: Scenario) -> Scenario | None:
    """The twin of a sick row; None for a healthy one, or if there is none.

    A sick row that is not listed has one if it has events: itself without them."""
    if row.expected.outcome == "ok":
        return None
    changes = TWINS.get(row.name, Changes() if row.events else None)
    if isinstance(changes, str):
        return next(twin for twin in ROWS if twin.name == changes)
    if changes is None:
        return None
    return replace(
        row,
        name=f"{row.name}, healthy",
        server=replace(row.server, **changes.server),
        expected=Expected("ok"),
        loads=row.loads if changes.loads is None else changes.loads,
        events=changes.events,
        burners=0,
        quick=False,
        why=f"The healthy twin of `{row.name}`.",
    )


def list_without_twin(rows: Iterable[Scenario]) -> list[str]:
    """The names of the sick rows that have no twin."""
    return [row.name for row in rows if row.expected.outcome != "ok" and find_twin(row) is None]
