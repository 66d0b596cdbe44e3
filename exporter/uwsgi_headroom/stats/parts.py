"""The parts of a server's document that need no arithmetic: decoded straight into what the rest of the program uses.

A field is named in this project's words; `field(name=...)` gives uWSGI's key where it differs. Optional parts are
absent from a uWSGI that does not use them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from uwsgi_headroom.stats.bounds import Name, Path, count_part

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A counter or size: uWSGI holds it unsigned; what does not fit is no count."""

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Any other number uWSGI writes. One that does not fit 64 bits does not fit a float either, and would be an error of
the whole scrape when it is rendered."""


def hide_negatives(part: Struct, *fields: str) -> None:
    """Make fields None that are below zero where uWSGI means a count or a date: what is there is not known."""
    for name in fields:
        value = getattr(part, name)
        if value is not None and value < 0:
            force_setattr(part, name, None)


class App(Struct, frozen=True, gc=False):
    """An application loaded in one worker. `requests` counts at the *start* of a request and falls to 0 with
    lazy-apps when the worker respawns."""

    app_id: Whole = field(default=0, name="id")
    mountpoint: Name = ""
    startup_seconds: Count | None = field(default=None, name="startup_time")
    requests: Count | None = None
    exceptions: Count | None = None

    def __post_init__(self) -> None:
        count_part("applications of one worker")
        count_part("applications")


class Cache(Struct, frozen=True, gc=False):
    """A uWSGI cache. Sizes in items; `full` counts refused insertions."""

    name: Name = ""
    hits: Count | None = None
    misses: Count | None = field(default=None, name="miss")
    full: Count | None = None
    items: Count | None = None
    max_items: Count | None = None

    def __post_init__(self) -> None:
        count_part("caches")


class Spooler(Struct, frozen=True, gc=False):
    """A spooler process. `running` is 1 while it works on a task."""

    directory: Path = field(default="", name="dir")
    tasks: Count | None = None
    respawns: Count | None = None
    running: Whole | None = None

    def __post_init__(self) -> None:
        count_part("spoolers")
        hide_negatives(self, "running")


class Cron(Struct, frozen=True, gc=False):
    """A cron line. Fields of the schedule are as in crontab, -1 for any, -N for every N. `pid` is -1 while idle;
    `started_at` is in epoch seconds while the command runs, and 0 again when it has ended."""

    minute: Whole = -1
    hour: Whole = -1
    day: Whole = -1
    month: Whole = -1
    week: Whole = -1
    command: Path = ""
    pid: Whole = -1
    started_at: Whole = 0

    def __post_init__(self) -> None:
        count_part("crons")
        if self.started_at < 0:
            force_setattr(self, "started_at", 0)


class LegionMember(Struct, frozen=True, gc=False):
    """Another node of a legion; `last_seen` in epoch seconds."""

    name: Name = ""
    last_seen: Whole | None = None

    def __post_init__(self) -> None:
        count_part("members of legions")
        hide_negatives(self, "last_seen")


class Legion(Struct, frozen=True):
    """A legion this instance is a member of. `lord_since` is the epoch second since when it
    is the lord, 0 while it is not; `members` are the others."""

    name: Name = field(default="", name="legion")
    valor: Whole | None = None
    quorum: Whole | None = None
    lord_since: Whole | None = field(default=None, name="i_am_the_lord")
    members: tuple[LegionMember, ...] = ()

    def __post_init__(self) -> None:
        count_part("legions")
        hide_negatives(self, "valor", "quorum", "lord_since")
