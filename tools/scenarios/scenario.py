"""Data classes of scenarios: a server, its load, events, and the verdict that an expert expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from app import load
from tests.support.real_uwsgi import Uwsgi

Outcome = Literal["ok", "warning", "critical", "unknown"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "warning", "critical", "unknown")

APPS = Path(__file__).parent
APP = APPS / "app.py"

NO_MORE = ("raise `threads`", "raise `processes`")
"""For `Expected.not_words`: advice that does not help."""


@dataclass(frozen=True)
class Load(load.Load):
    """Requests of one kind. Exactly one of part, rate and clients sets how many. part: of the server's thread capacity,
    as open-loop arrivals. socket: the file name of a UNIX socket in the server's directory, or "tcp"."""

    part: float = 0.0


@dataclass(frozen=True)
class Server:
    """A uWSGI. In options, `{directory}` is its directory, `{tcp}` a free loopback address for requests, `{clients}`
    where the clients of real servers are installed (`beside`).

    threads: threads or coroutines of each process. tcp_stats: serve the stats on loopback TCP. before: a shell command
    that runs in its directory before the start. cpus: a list for taskset. quota, memory: CPUs and bytes that a cgroup
    allows it. somaxconn: net.core.somaxconn in a network namespace of its own; 0: that of this machine. bare: an
    emperor, without an application. die_on_term: whether SIGTERM ends it. files: texts of files in its directory, by
    name. backend: how many requests a backend beside it works on at once, whose port is `{backend}` in options and
    BACKEND_PORT in the environment; 0: there is none. beside: other servers that its application asks, real or
    stand-ins, each `KIND` or `KIND:SECONDS` (`beside`); their addresses are in the variable OUTSIDE. output: a shell
    redirection of its standard output and error. nginx: settings of a real nginx in front of it, which listens on the
    UNIX socket `front`; empty for none. restarts: seconds after which it is started again when it has ended, as by a
    service manager; 0: never.
    """

    processes: int = 1
    threads: int = 1
    options: tuple[str, ...] = ()
    tcp_stats: bool = False
    before: str = ""
    cpus: str = ""
    quota: float = 0.0
    memory: int = 0
    somaxconn: int = 0
    bare: bool = False
    die_on_term: bool = True
    files: dict[str, str] = field(default_factory=dict)
    app: Path = APP
    backend: int = 0
    output: str = ""
    beside: tuple[str, ...] = ()
    nginx: str = ""
    restarts: float = 0.0

    @property
    def capacity(self) -> int:
        return self.processes * self.threads


@dataclass(frozen=True)
class Event:
    """An action on the server, `at` seconds after the check begins."""

    at: float
    act: Callable[[Uwsgi], None]


@dataclass(frozen=True)
class Expected:
    """The correct verdict. first: allowed codes of the first finding above info; empty: none is above info. also: codes
    that must be among the findings. words: that the first finding must contain (any finding, if none is above info).
    not_words: that no advice of a finding above info may contain. limits: allowed first limits of headroom; empty for
    any."""

    outcome: Outcome
    first: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    not_words: tuple[str, ...] = ()
    limits: tuple[str | None, ...] = ()


CALM = Expected("ok", limits=("threads",))


@dataclass(frozen=True)
class Twin:
    """The same set-up as that of a sick row, without the fault. name: if it is a row of its own; otherwise it runs with
    `--all` only. loads: others than those of the row, if any. server: another one, or other fields of it. changes:
    other fields of the row."""

    name: str = ""
    loads: tuple[Load, ...] = ()
    server: Server | Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


def healthy(name: str = "", *loads: Load, server: Server | Mapping[str, Any] | None = None, **changes: Any) -> Twin:
    return Twin(name, loads, server or {}, changes)


@dataclass(frozen=True)
class Scenario:
    """One row. seconds: length of the check, which begins `lead` seconds after the load. burners: how many busy loops
    run beside uWSGI. alone: no other row may run at the same time. as_nobody: the check runs as another user. log: the
    check reads uWSGI's log. quick: steady and short, for the tests. resized: variations change its processes and
    threads. why: why the expectation is correct. skip: returns why something is missing that is not of its server, or
    None. twin: of a sick row, how it is healthy, or the name of a row that is."""

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
    log: bool = False
    quick: bool = False
    resized: bool = False
    why: str = ""
    skip: Callable[[], str | None] = lambda: None
    twin: Twin | str | None = None

    def healthy(self) -> Scenario | None:
        """Its twin, which must stay quiet, if that is no other row: without its events, and with other changes."""
        if self.expected.outcome == "ok" or isinstance(self.twin, str) or not (self.twin or self.events):
            return None
        twin = self.twin or Twin()
        quiet = replace(self, name=twin.name or f"{self.name}, healthy", expected=Expected("ok"), events=(), burners=0)
        server = twin.server if isinstance(twin.server, Server) else replace(self.server, **twin.server)
        why = f"The healthy twin of `{self.name}`."
        quiet = replace(quiet, server=server, loads=twin.loads or self.loads, quick=False, why=why, twin=None)
        return replace(quiet, **twin.changes)
