"""Keeps a history file within its size: servers that hold more than their share pay, with their own records.

Shares are max-min fair: what a small server leaves is divided among the larger ones. A server that holds no more than
its share keeps everything, whatever the others write.

A program that serves stats under a new name every few minutes is many servers. So all servers that were there for less
than an hour and are gone have one share together. Of the others there are not many more than `max_servers`: one that
was up for an hour keeps its place (`watch.globbed`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from uwsgi_headroom.store.tiers import DAY, HOURS, MINUTES, QUARTERS

_LEFT = 0.9
"""What is left of a file that has grown too large, so that it is not weighed again at the next write: weighing
reads all of it."""

_SHORTENED = ((MINUTES, DAY), (QUARTERS, 14 * DAY), (HOURS, 60 * DAY), (MINUTES, 0), (QUARTERS, 0), (HOURS, 0))
"""In which order the tiers of a server become shorter, and how much of each is left before the next one does, in
seconds."""

_HELD = """
CREATE TEMP VIEW IF NOT EXISTS held AS
SELECT server, length(data) + 16 AS bytes FROM records
UNION ALL SELECT server, length(data) + length(what) + 32 FROM events
UNION ALL SELECT server, 2 * length(CAST(text AS BLOB)) + 32 FROM texts
UNION ALL SELECT id, 2 * length(CAST(name AS BLOB)) + 32 FROM servers
"""
"""What each row takes; a name is in an index too."""

_BRIEF, _GONE = 3600, 600
"""Seconds of records below which a server was there briefly, and seconds without one after which it is gone."""

_PASSING = """
SELECT id FROM servers WHERE NOT EXISTS (
    SELECT 1 FROM records WHERE server = id GROUP BY tier HAVING (count(*) - 2) * tier >= ?1
) AND coalesce((SELECT max(slot) * tier FROM records WHERE server = id AND tier = 60), 0) < ?2
AND coalesce((SELECT max(time) FROM events WHERE server = id), 0) < ?2
ORDER BY id DESC
"""
"""Servers that were there briefly and are gone, the newest names first. The first and the last record of a tier may be
of a part of their time."""

_DROP = (
    "DELETE FROM records WHERE server = ?",
    "DELETE FROM events WHERE server = ?",
    "DELETE FROM texts WHERE server = ?",
    "DELETE FROM servers WHERE id = ?",
)

_NEWEST = """
SELECT max(coalesce((SELECT max(slot) * tier FROM records WHERE server = id AND tier = 60), 0),
    coalesce((SELECT max(time) FROM events WHERE server = id), 0)) AS latest FROM servers
"""

_PART = 4
"""A server's events and names may take one part in this many of its share each; the rest is for its records."""

_DROP_EVENTS = """
DELETE FROM events WHERE server = ?1 AND (since, what) IN (SELECT since, what FROM (
    SELECT since, what, sum(length(data) + length(what) + 32) OVER (ORDER BY time DESC) AS bytes
    FROM events WHERE server = ?1
) WHERE bytes > ?2)
"""
"""The oldest events of a server, until the others have at most so many bytes."""

_DROP_NAMES = """
DELETE FROM texts WHERE id IN (SELECT id FROM (
    SELECT id, sum(2 * length(CAST(text AS BLOB)) + 32) OVER (ORDER BY used DESC, id DESC) AS bytes
    FROM texts WHERE server = ?1
) WHERE bytes > ?2)
"""


def fit(database: sqlite3.Connection, max_size: int) -> bool:
    """Delete until the file uses at most `max_size` bytes; whether anything was deleted. Within a transaction."""
    is_changed = False
    while (used := used_bytes(database)) > max_size:
        weights = _weigh(database)
        room = sum(weights.values()) * _LEFT * max_size / used
        passing = {server: weights.pop(server) for server in _find_passing(database)}
        share = find_share([*weights.values(), sum(passing.values())], room)
        deleted = [_shorten(database, server, int(share)) for server, weight in weights.items() if weight > share]
        deleted.append(_drop_passing(database, passing, share))
        if not any(deleted):
            break
        is_changed = True
    return is_changed


def used_bytes(database: sqlite3.Connection) -> int:
    """Bytes of the pages that are in use."""
    return file_bytes(database) - free_bytes(database)


def file_bytes(database: sqlite3.Connection) -> int:
    """Bytes of all pages."""
    return _ask(database, "PRAGMA page_count") * _ask(database, "PRAGMA page_size")


def free_bytes(database: sqlite3.Connection) -> int:
    """Bytes of the pages that the next writes will use."""
    return _ask(database, "PRAGMA freelist_count") * _ask(database, "PRAGMA page_size")


def _ask(database: sqlite3.Connection, query: str) -> int:
    return int(database.execute(query).fetchone()[0])


def find_share(weights: Iterable[int], room: float) -> float:
    """The share with which all fit into `room`: the sum of each weight, or of the share if that is less, is `room`."""
    ordered = sorted(weights)
    for place, weight in enumerate(ordered):
        share = room / (len(ordered) - place)
        if weight > share:
            return share
        room -= weight
    return float(ordered[-1]) if ordered else 0.0


def _weigh(database: sqlite3.Connection) -> dict[object, int]:
    """The bytes that each server holds. A damaged row may name a server that is not a number, and pays like others."""
    database.execute(_HELD)
    return dict(database.execute("SELECT server, sum(bytes) FROM held GROUP BY 1"))


def _find_passing(database: sqlite3.Connection) -> list[object]:
    newest = max((latest for (latest,) in database.execute(_NEWEST) if isinstance(latest, (int, float))), default=0)
    return [server for (server,) in database.execute(_PASSING, (_BRIEF, newest - _GONE))]


def _drop_passing(database: sqlite3.Connection, weights: Mapping[object, int], share: float) -> int:
    """Delete servers that were there briefly, with their names, until they hold `share` bytes together; how many."""
    over, dropped = sum(weights.values()) - share, 0
    for server, weight in weights.items():
        if over <= 0:
            break
        for delete in _DROP:
            database.execute(delete, (server,))
        over -= weight
        dropped += 1
    return dropped


def _shorten(database: sqlite3.Connection, server: object, share: int) -> int:
    """Delete of a server until it holds `share` bytes; the number of rows that were deleted."""
    deleted = 0
    for drop in (_DROP_EVENTS, _DROP_NAMES):
        deleted += database.execute(drop, (server, share // _PART)).rowcount
    ((held,),) = database.execute("SELECT coalesce(sum(bytes), 0) FROM held WHERE server = ?", (server,))
    over = held - share
    for tier, least in _SHORTENED:
        if over <= 0:
            break
        rows = database.execute(
            "SELECT slot, length(data) + 16 FROM records WHERE server = ? AND tier = ? ORDER BY slot",
            (server, tier.seconds),
        ).fetchall()
        last = None
        for slot, size in rows[: max(0, len(rows) - least // tier.seconds)]:
            last = slot
            deleted += 1
            over -= size
            if over <= 0:
                break
        if last is not None:
            query = "DELETE FROM records WHERE server = ? AND tier = ? AND slot <= ?"
            database.execute(query, (server, tier.seconds, last))
    if over > 0:
        for drop in (_DROP_EVENTS, _DROP_NAMES):
            deleted += database.execute(drop, (server, 0)).rowcount
    return deleted
