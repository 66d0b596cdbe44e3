"""Bounds of a stats document: the most of each part, the longest texts and the largest numbers.

The document is decoded on the event loop, which all servers share, and its parts become series. A document over a
bound is refused as `too_large`; only a text that is too long is cut instead. The bounds are well above any real use of
uWSGI; docs/dev/bounds.md lists them. Rules:

* Parts are counted while they are built: msgspec checks the length of a list only when the list is complete, and
  millions of empty objects fit into a few megabytes. Metrics are not built, so they are counted at the end.
* Braces in request variables are not parts: a client that sends many must not blind the exporter.
* One document is decoded at a time, on one thread.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
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

"""The longest name: uWSGI keeps most names in 256 bytes. The exporter keeps a name as a label's value from scrape to
scrape."""

PATH_CHARACTERS = 4096
"""The longest path (PATH_MAX of Linux), and the longest command of a cron."""

_CUT = "texts that were cut"

_left: dict[str, int] = {**MOST, _CUT: 0}


def begin_document() -> None:
    """Reset all counts: another document is about to be decoded."""
    _left.update(MOST)
    _left[_CUT] = 0


def cut(part: Struct, field: str, most: int = NAME_CHARACTERS) -> None:
    """Cut a text to its longest length: a text that is too long costs no other field."""
    text = getattr(part, field)
    if len(text) > most:
        force_setattr(part, field, f"{text[: most - 1]}…")
        note_cut()


def note_cut() -> None:
    _left[_CUT] += 1


def count_cut() -> int:
    return _left[_CUT]


def count_part(part: str) -> None:
    """Count one more of a part in the document that is being decoded. Raises StatsError above the bound."""
    left = _left[part] = _left[part] - 1
    if left < 0:
        raise too_many(part)


def begin_part(part: str) -> None:
    """Reset the count of a part: its bound applies within each parent."""
    _left[part] = MOST[part]


def too_many(part: str) -> StatsError:
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
