"""The parts of a server's document that need no conversion: the decoder builds the types that the program uses.

A field has this project's name; `field(name=...)` gives uWSGI's key where it differs. uWSGI omits the parts that its
configuration does not use.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from uwsgi_headroom.stats.bounds import Name, Path, count_part

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A counter or size. uWSGI's are unsigned; any other value is invalid."""

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Any other number that uWSGI writes. The bounds exclude numbers too large for a float, which would break a scrape."""


def hide_negatives(part: Struct, *fields: str) -> None:
    """Set these fields to None if they are negative: a negative count or date is an unknown one."""
    for name in fields:
        value = getattr(part, name)
        if value is not None and value < 0:
            force_setattr(part, name, None)


class App(Struct, frozen=True, gc=False):
    """An application loaded in one worker. `requests` counts at the *start* of a request; with lazy-apps it falls to
    0 when the worker respawns."""

    app_id: Whole = field(default=0, name="id")
    mountpoint: Name = ""
    startup_seconds: Count | None = field(default=None, name="startup_time")
    requests: Count | None = None
    exceptions: Count | None = None

    def __post_init__(self) -> None:
        count_part("applications of one worker")
        count_part("applications")


class Cache(Struct, frozen=True, gc=False):
    """A uWSGI cache. Sizes are in items; `full` counts refused insertions."""

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
    """A cron line. The schedule's fields are as in crontab, with -1 for any and -N for every N. While the command
    runs, `pid` is its process and `started_at` its start in epoch seconds; otherwise they are -1 and 0."""

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
    """A legion that this instance is a member of. `lord_since` is the epoch second when it became the lord, 0 if it
    is not the lord; `members` are the others."""

    name: Name = field(default="", name="legion")
    valor: Whole | None = None
    quorum: Whole | None = None
    lord_since: Whole | None = field(default=None, name="i_am_the_lord")
    members: tuple[LegionMember, ...] = ()

    def __post_init__(self) -> None:
        count_part("legions")
        hide_negatives(self, "valor", "quorum", "lord_since")
