"""Bounds of a stats document: the most of each part, and the longest texts.

The document is decoded on the event loop, which all servers share, and its parts become series. A document over a
bound is refused as `too_large`. The bounds are well above any real use of uWSGI. Rules of this module:

* Parts are counted while they are built: msgspec checks the length of a list only when the list is complete, and
  millions of empty objects fit into a few megabytes. Metrics are not built, so they are counted at the end.
* Braces in request variables are not parts: a client that sends many must not blind the exporter.
* One document is decoded at a time, on one thread.

The parts of a server's document that need no conversion: the decoder builds the types that the program uses.

A field has this project's name; `field(name=...)` gives uWSGI's key where it differs. uWSGI omits the parts that its
configuration does not use.

Decodes custom metrics: those that an application or an operator has defined in uWSGI's metrics subsystem.

uWSGI adds metrics of its own for every worker and thread, tens of thousands on a large server. They only repeat what
the rest of the document says, so they are not decoded.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Raw, Struct, field
from msgspec.json import Decoder
from msgspec.structs import force_setattr

from uwsgi_headroom.errors import StatsError

MOST: dict[str, int] = {
    "workers": 1024,  # 64 are many; an hour of history takes some 10 kB for each
    "cores": 16_384,  # 64 x 64 threads are 4,096; gevent with 256 cores in each of 64 workers reaches the bound
    "applications of one worker": 256,  # `max-apps` is 64 unless set
    "applications": 8192,  # in all workers together
    "sockets": 1024,  # each is looked up among the kernel's listeners
    "caches": 1024,
    "spoolers": 1024,
    "crons": 1024,
    "legions": 256,
    "members of legions": 4096,
    "locks": 1024,  # one for each cache, spooler and user lock
    "metrics": 32_768,  # uWSGI's own are 9 per worker and 7 per core: 29,248 for 64 x 64
    "custom metrics": 4096,  # each becomes a series
    "vassals": 4096,  # hosting providers run thousands
    "blacklisted vassals": 4096,
    "subscriptions": 4096,
    "nodes": 8192,  # of all subscriptions together
    "static nodes": 1024,
}
"""The maximum number of each part in one document."""

LOCKS_BYTES = 256 * 1024
"""The longest list of locks. An entry has no fixed key, so the list is measured before it is built: 1,024 of uWSGI's
locks take 30 kB, or 150 kB with the directories of spoolers in their names."""

QUOTES = 500_000
"""The most quotation marks in a document of more than 1 MB, without escaped ones. Each name and each text has two:
16,384 threads in 1,024 workers have 387,000. A document of many names takes the longest to decode for its size."""

NAME_CHARACTERS = 255

Name = Annotated[str, Meta(max_length=NAME_CHARACTERS)]
"""A name: uWSGI keeps most names in 256 bytes. The exporter keeps a name as a label's value from scrape to scrape."""

Path = Annotated[str, Meta(max_length=4096)]
"""A path (PATH_MAX of Linux), or the command of a cron."""

LockName = Annotated[str, Meta(max_length=4096 + 64)]
"""The name of a lock; that of a spooler's lock contains a path ("spooler on ...")."""

_left: dict[str, int] = dict(MOST)


def begin_document() -> None:
    """Reset all counts: another document is about to be decoded."""
    _left.update(MOST)


def count_part(part: str) -> None:
    """Count one more of a part in the document that is being decoded. Raises StatsError above the bound."""
    left = _left[part] = _left[part] - 1
    if left < 0:
        raise too_many(part)


def begin_part(part: str) -> None:
    """Reset the count of a part: its bound applies within each parent."""
    _left[part] = MOST[part]


def too_many(part: str) -> StatsError:
    """The error for a document with more of a part than its bound."""
    advice = "; run uWSGI with stats-no-cores" if part == "cores" else ""
    return StatsError("too_large", f"the document has more than {MOST[part]:,} {part}, the limit{advice}")


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


COUNTER = 0
"""The `kind` of a custom metric that is a counter."""

_match_built_in = re.compile(r"(core|worker\.\d+|socket\.\d+)\.|(rss|vsz)_size$").match


class CustomMetric(Struct, frozen=True, gc=False):
    """`kind` is 0 for a counter, 1 for a gauge, 2 for absolute, 3 for an alias."""

    kind: Whole = field(default=1, name="type")
    value: Whole | None = None


_decoder = Decoder(CustomMetric)


def decode_custom_metrics(metrics: dict[str, Raw]) -> dict[str, CustomMetric]:
    """The custom metrics of a document, by name.

    Raises StatsError (`too_large`) if the document has more metrics than the bounds allow, or a name is too long.
    """
    if len(metrics) > MOST["metrics"]:
        raise too_many("metrics")
    custom = [name for name in metrics if not _match_built_in(name)]
    if len(custom) > MOST["custom metrics"]:
        raise too_many("custom metrics")
    if any(len(name) > NAME_CHARACTERS for name in custom):
        raise StatsError("too_large", f"a metric's name is longer than {NAME_CHARACTERS} characters")
    return {name: _decoder.decode(metrics[name]) for name in custom}
