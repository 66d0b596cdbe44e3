"""What a scenario is: a server, its load, what happens to it, and the verdict that an expert expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from app import load
from tests.support.real_uwsgi import Uwsgi

Outcome = Literal["ok", "warning", "critical", "unknown"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "warning", "critical", "unknown")

APP = Path(__file__).with_name("app.py")


@dataclass(frozen=True)
class Load(load.Load):
    """Requests of one kind, also as a part of what the server can take. Exactly one of part, rate and clients says how
    many.

    part: of the server's thread capacity, as arrivals that wait for no answer (open loop). vary: the factors between
    which a variation may scale it. socket: the file name of a UNIX socket in the server's directory, or "tcp".
    """

    part: float = 0.0
    vary: tuple[float, float] = (0.8, 1.2)


@dataclass(frozen=True)
class Server:
    """A uWSGI. In options, `{directory}` is its directory, `{tcp}` a free loopback address for requests.

    threads: of each process; `async_cores` instead for coroutines. tcp_stats: its stats are on loopback TCP. before: a
    line of shell that runs in its directory before it starts. cpus: taskset's list of CPUs it may use. quota: CPUs that
    a cgroup allows it. bare: an emperor, which has no application. files: made in its directory.
    """

    processes: int = 1
    threads: int = 1
    options: tuple[str, ...] = ()
    tcp_stats: bool = False
    before: str = ""
    cpus: str = ""
    quota: float = 0.0
    bare: bool = False
    files: dict[str, str] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """Its threads."""
        return self.processes * self.threads


@dataclass(frozen=True)
class Event:
    """What is done to the server, `at` seconds after the check begins."""

    at: float
    act: Callable[[Uwsgi], None]


@dataclass(frozen=True)
class Expected:
    """The verdict that is right.

    first: codes of which the first finding above info must have one; empty: there is none above info. also: codes that
    must be among the findings. words: in that finding (or in any, where none is above info); not_words: in no advice
    of a finding above info. limits: which limits headroom may name as its first; empty for any.
    """

    outcome: Outcome
    first: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    not_words: tuple[str, ...] = ()
    limits: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """seconds: length of the check, which begins `lead` seconds after the load. burners: processes of others that use
    all the CPU they get. alone: nothing may run beside it. as_nobody: the check runs as another user. quick: steady and
    short, for the tests. fixed: a variation keeps its processes and threads. why: what makes the expectation right."""

    name: str
    server: Server
    expected: Expected
    loads: tuple[Load, ...] = ()
    events: tuple[Event, ...] = ()
    seconds: float = 12.0
    lead: float = 2.0
    burners: int = 0
    alone: bool = False
    as_nobody: bool = False
    quick: bool = False
    fixed: bool = False
    why: str = ""
    skip: Callable[[], str | None] = lambda: None
