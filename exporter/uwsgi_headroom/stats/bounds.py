"""Bounds of a stats document: how many of each part it may have, and how long its texts may be.

The document is read on the event loop, which all servers share, and every part of it becomes a series: what is over a
bound refuses the document as `too_large`. Bounds are well above what uWSGI is used with. Rules that live here:

* Parts are counted while they are built. msgspec checks the length of a list when the list is complete, and millions
  of empty objects fit into a few megabytes. Metrics, which are not built, are counted when all are there.
* Braces in request variables are no parts: a client that sends many must not blind the exporter.
* One document is decoded at a time, on one thread.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from uwsgi_headroom.errors import StatsError

MOST: dict[str, int] = {
    "workers": 1024,  # 64 is much; an hour of history takes 144 kB for each
    "cores": 16_384,  # 64 x 64 threads are 4,096; gevent with 256 cores in each of 64 workers is as much as this
    "applications of one worker": 256,  # `max-apps` is 64 unless set
    "applications": 8192,  # in all workers together
    "sockets": 1024,  # each is looked for among the kernel's listeners
    "caches": 1024,
    "spoolers": 1024,
    "crons": 1024,
    "legions": 256,
    "members of legions": 4096,
    "locks": 1024,  # one for each cache, spooler and user lock
    "metrics": 32_768,  # uWSGI's own are 9 a worker and 7 a core: 29,248 for 64 x 64
    "metrics of its own making": 4096,  # those that become series
    "vassals": 4096,  # hosters run thousands
    "blacklisted vassals": 4096,
    "subscriptions": 4096,
    "nodes": 8192,  # of all subscriptions together
    "static nodes": 1024,
}
"""The most of each part that one document may have."""

LOCKS_BYTES = 256 * 1024
"""The longest list of locks. An entry has no fixed key, so the list is measured before it is built: 1,024 locks of
uWSGI's take 30 kB, or 150 kB with the directories of spoolers in their names."""

QUOTES = 500_000
"""The most quotation marks of a document beyond 1 MB, those within its texts left out. Each name and each text has two:
16,384 threads in 1,024 workers have 387,000. Many names take longer to read than anything else of the same size."""

NAME_CHARACTERS = 255

Name = Annotated[str, Meta(max_length=NAME_CHARACTERS)]
"""Names: uWSGI keeps most of them in 256 bytes. A name is a label's value, kept from scrape to scrape."""

Path = Annotated[str, Meta(max_length=4096)]
"""Paths (PATH_MAX of Linux), and the commands of crons."""

LockName = Annotated[str, Meta(max_length=4096 + 64)]
"""Locks of spoolers hold a path ("spooler on ...")."""

_left: dict[str, int] = dict(MOST)


def begin_document() -> None:
    """Count from nothing: another document is about to be decoded."""
    _left.update(MOST)


def count_part(part: str) -> None:
    """Count one more of a part in the document that is being decoded. Raises StatsError at the first too many."""
    left = _left[part] = _left[part] - 1
    if left < 0:
        raise too_many(part)


def begin_part(part: str) -> None:
    """Count a part from nothing: its bound is for each of what holds it."""
    _left[part] = MOST[part]


def too_many(part: str) -> StatsError:
    """The refusal of a document that has more of a part than its bound."""
    advice = "; run uWSGI with stats-no-cores" if part == "cores" else ""
    return StatsError("too_large", f"the document has more than {MOST[part]:,} {part}, the most that are read{advice}")
