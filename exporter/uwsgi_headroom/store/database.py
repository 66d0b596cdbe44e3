"""Writes a history file: what a transaction contains, how tiers are merged, and what is forgotten.

`fit` keeps the file within its size: servers that hold more than their share pay, with their own records. Shares are
max-min fair: what a small server leaves is divided among the larger ones. A server that holds no more than its share
keeps everything, whatever the others write.

A program that serves stats under a new name every few minutes is many servers. So all servers that were there for less
than an hour and are gone have one share together. Of the others there are not many more than `max_servers`: one that
was up for an hour keeps its place (`watch.globbed`).
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store.codec import decode_in_slot, encode_record
from uwsgi_headroom.store.file import transaction
from uwsgi_headroom.store.record import (
    AHEAD_SECONDS,
    DAY,
    HOURS,
    MINUTES,
    QUARTERS,
    TIERS,
    Minute,
    Record,
    Tier,
    merge_records,
    slot_at,
)

_FORGET_SECONDS = 3600.0
"""Time between two deletions of what is too old, or too much."""

_TOGETHER = 32
"""Slots that are merged in one transaction. The size is checked after each: a hostile
server's largest record has some 50 kB."""

MOST_TEXTS = 1000
"""Names of sockets, backends and routes that are kept for one server; the one used longest ago is forgotten first. 50
routes that change each quarter are 400 in two years."""

_VACUUMED_PAGES = 64
"""Given back to the file system in one transaction, so that the write-ahead log stays small."""

_log = logging.getLogger(__name__)


class Database:
    """An open history file. Methods raise sqlite3.Error. size: bytes in use, of max_size; since: by server, how far
    back its records reach, in epoch seconds."""

    def __init__(self, connection: sqlite3.Connection, path: Path, max_size: int) -> None:
        self._connection = connection
        self._file = _identity(path)
        self._max_size = max_size
        self._servers: dict[str, int] = {}
        self._texts: dict[int, dict[str, tuple[int, int]]] = {}  # by server: number, and the day of the last use
        self._unmerged: set[tuple[int, int]] = set()  # servers and quarters
        self._forget_at = 0.0
        self._before: float | None = None  # the time of the last write
        self.size = 0
        self.since: dict[str, float] = {}
        self._load_names()

    def is_at(self, path: Path) -> bool:
        """Whether the path is still that of the open file."""
        return _identity(path) == self._file

    def close(self) -> None:
        self._connection.close()

    def write(self, minutes: Sequence[Minute], now: float) -> int:
        """Write minutes in one transaction. Then merge what has ended at `now` (epoch seconds), and delete what is too
        old, or too much. Returns how many could not be stored."""
        if self._before is None:
            self._find_unmerged(now)
        with transaction(self._connection):
            damaged = sum(not self._write_minute(minute, now) for minute in minutes)
        self._fit()
        ended = [(server, slot) for server, slot in self._unmerged if slot * QUARTERS.seconds <= now + 1]
        for first in range(0, len(ended), _TOGETHER):
            with transaction(self._connection):
                self._merge(ended[first : first + _TOGETHER], now)
            self._fit()
        if self._is_time_to_forget(now):
            with transaction(self._connection):
                self._forget_old(now)
                self._forget_later(now)
                self._forget_empty()
            self._load_names()
        self.size = used_bytes(self._connection)
        return damaged

    def _write_minute(self, minute: Minute, now: float) -> bool:
        """Write one minute; whether its record could be stored."""
        server = self._number_of_server(minute.server)
        for event in minute.events:
            self._execute(
                "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)",
                server,
                event.since,
                f"{event.kind} {','.join(map(str, event.workers))}",
                event.time,
                msgspec.json.encode(event),
            )
        if not minute.record:
            return True
        self.since.setdefault(minute.server, minute.minute * 60.0)
        return self._add(server, minute.minute, minute.record, now)

    def _fit(self) -> None:
        """Delete until the file fits into its size."""
        if used_bytes(self._connection) > self._max_size:
            with transaction(self._connection):
                fit(self._connection, self._max_size)
            self._give_back()
            self._load_names()

    def _give_back(self) -> None:
        """Shrink a file that is larger than it may be by its free pages. Otherwise SQLite uses them again."""
        while free_bytes(self._connection) and file_bytes(self._connection) > self._max_size:
            self._connection.execute(f"PRAGMA incremental_vacuum({_VACUUMED_PAGES})").fetchall()

    def _is_time_to_forget(self, now: float) -> bool:
        """Whether an hour has passed without a jump of the clock: a machine may start with a clock that is years ahead,
        and what it deletes then does not come back."""
        steady = self._before is not None and 0 <= now - self._before <= _FORGET_SECONDS
        self._before = now
        if steady and now < self._forget_at:
            return False
        self._forget_at = now + _FORGET_SECONDS
        return steady

    def _add(self, server: int, minute: int, record: Record, now: float) -> bool:
        day = int(now // DAY)
        known = self._read(server, MINUTES, minute, minute)
        if not self._put(server, MINUTES, minute, [*known, record], day):
            return False
        self._unmerged.add((server, slot_at(QUARTERS, minute)))
        return True

    def _merge(self, ended: Sequence[tuple[int, int]], now: float) -> None:
        """Merge the minutes of these quarters of an hour, and the quarters of their hours."""
        hours = set()
        for server, slot in ended:
            self._merge_slot(server, QUARTERS, slot, MINUTES, now)
            hours.add((server, slot_at(HOURS, slot * QUARTERS.seconds // MINUTES.seconds)))
        for server, slot in hours:
            self._merge_slot(server, HOURS, slot, QUARTERS, now)
        self._unmerged -= set(ended)

    def _merge_slot(self, server: int, tier: Tier, slot: int, of: Tier, now: float) -> None:
        parts = tier.seconds // of.seconds
        records = self._read(server, of, (slot - 1) * parts + 1, slot * parts)
        if not records:
            return
        # A clock that was set back adds parts to a slot whose other parts are forgotten.
        seconds = sum(record.window.seconds for record in records)
        if all(before.window.seconds <= seconds for before in self._read(server, tier, slot, slot)):
            self._put(server, tier, slot, records, int(now // DAY))

    def _read(self, server: int, tier: Tier, first: int, last: int) -> list[Record]:
        rows = self._execute(
            "SELECT slot, data FROM records WHERE server = ? AND tier = ? AND slot BETWEEN ? AND ? ORDER BY slot",
            server,
            tier.seconds,
            first,
            last,
        )
        texts = {number: text for owner in (0, server) for text, (number, _) in self._texts.get(owner, {}).items()}
        records = []
        for at, data in rows:
            try:
                records.append(decode_in_slot(data, texts, tier.seconds, at))
            except HistoryFileError as error:  # a damaged record must not stop all later ones
                _log.warning("a record of the history is lost", extra={"fields": {"reason": str(error)}})
        return records

    def _put(self, server: int, tier: Tier, slot: int, records: Sequence[Record], day: int) -> bool:
        """Write one record of several; whether it could be stored."""
        try:
            data = encode_record(merge_records(records), lambda text: self._number_of_text(server, text, day))
        except (ValueError, OverflowError):
            _log.exception("a record of the history is lost")
            return False
        self._execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", server, tier.seconds, slot, data)
        return True

    def _forget_old(self, now: float) -> None:
        for tier in TIERS:
            oldest = int((now - tier.kept) // tier.seconds)
            self._execute("DELETE FROM records WHERE tier = ? AND slot < ?", tier.seconds, oldest)
        self._execute("DELETE FROM events WHERE time < ?", now - HOURS.kept)
        self._execute("DELETE FROM texts WHERE used < ?", int((now - HOURS.kept) // DAY))

    def _forget_later(self, now: float) -> None:
        """Delete what a clock that was ahead has left, unless that is most of a server's records: then it is the
        present clock that is wrong."""
        latest = now + AHEAD_SECONDS
        for server in self._servers.values():
            ends = "SELECT max(slot) * tier FROM records WHERE server = ? AND tier = ?"
            if max(self._execute(ends, server, tier.seconds)[0][0] or 0 for tier in TIERS) <= latest:
                continue
            count = "SELECT count(*), sum(slot * tier > ?) FROM records WHERE server = ?"
            ((all_records, later),) = self._execute(count, latest, server)
            if later * 2 < all_records:
                self._execute("DELETE FROM records WHERE server = ? AND slot * tier > ?", server, latest)
                self._execute("DELETE FROM events WHERE server = ? AND time > ?", server, latest)

    def _forget_empty(self) -> None:
        """Delete servers of which nothing is left but names."""
        self._execute(
            "DELETE FROM servers WHERE NOT EXISTS (SELECT 1 FROM records WHERE server = id) "
            "AND NOT EXISTS (SELECT 1 FROM events WHERE server = id)"
        )
        self._execute("DELETE FROM texts WHERE server <> 0 AND server NOT IN (SELECT id FROM servers)")

    def _number_of_server(self, name: str) -> int:
        if name not in self._servers:
            self._execute("INSERT INTO servers (name) VALUES (?)", name)
            self._servers[name] = self._last_id()
        return self._servers[name]

    def _number_of_text(self, server: int, text: str, day: int) -> int:
        texts = self._texts.setdefault(server, {})  # the one used longest ago first
        number, used = texts.pop(text, (None, None))
        if number is None:
            self._execute("INSERT INTO texts (server, text, used) VALUES (?, ?, ?)", server, text, day)
            number = self._last_id()
        elif used != day:
            self._execute("UPDATE texts SET used = ? WHERE id = ?", day, number)
        texts[text] = (number, day)
        while len(texts) > MOST_TEXTS:
            forgotten, _ = texts.pop(next(iter(texts)))
            self._execute("DELETE FROM texts WHERE id = ?", forgotten)
        return number

    def _last_id(self) -> int:
        ((number,),) = self._execute("SELECT last_insert_rowid()")
        return int(number)

    def _load_names(self) -> None:
        """Read the names that the file has, and how far back its records reach."""
        self._servers = {str(name): int(number) for number, name in self._execute("SELECT id, name FROM servers")}
        self._texts = {}
        for number, server, text, used in self._execute("SELECT id, server, text, used FROM texts ORDER BY used, id"):
            self._texts.setdefault(server, {})[str(text)] = (number, used)
        first = "SELECT min(slot) * tier FROM records WHERE server = ? AND tier = ?"
        self.since = {}
        for name, server in self._servers.items():
            ends = [end for tier in TIERS if (end := self._execute(first, server, tier.seconds)[0][0]) is not None]
            if ends:
                self.since[name] = float(min(ends))

    def _find_unmerged(self, now: float) -> None:
        """Find minutes that an earlier writer has not merged."""
        for server in self._servers.values():
            last = "SELECT coalesce(max(slot), 0) FROM records WHERE server = ? AND tier = ? AND slot <= ?"
            ((quarter,),) = self._execute(last, server, QUARTERS.seconds, int(now // QUARTERS.seconds) + 1)
            first_minute = (max(quarter, 1) - 1) * QUARTERS.seconds // MINUTES.seconds + 1
            slots = "SELECT slot FROM records WHERE server = ? AND tier = ? AND slot >= ? AND typeof(slot) = 'integer'"
            minutes = self._execute(slots, server, MINUTES.seconds, first_minute)
            self._unmerged |= {(server, slot_at(QUARTERS, minute)) for (minute,) in minutes}

    def _execute(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        return self._connection.execute(query, values).fetchall()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_LEFT = 0.9
"""What is left of a file that has grown too large, so that it is not weighed again at the next write: weighing
reads all of it."""

_SHORTENED = ((MINUTES, DAY), (QUARTERS, 14 * DAY), (HOURS, 60 * DAY), (MINUTES, 0), (QUARTERS, 0), (HOURS, 0))
"""In which order the tiers of a server become shorter, and how much of each is left before the next one does, in
seconds."""

_HELD = """
CREATE TEMP VIEW IF NOT EXISTS held AS
SELECT server, coalesce(length(data), 0) + 16 AS bytes FROM records
UNION ALL SELECT server, coalesce(length(data), 0) + length(what) + 32 FROM events
UNION ALL SELECT server, 2 * coalesce(length(CAST(text AS BLOB)), 0) + 32 FROM texts
UNION ALL SELECT id, 2 * coalesce(length(CAST(name AS BLOB)), 0) + 32 FROM servers
"""
"""What each row takes; a name is in an index too. SQLite does not check when it reads that a value is not NULL."""

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
    return file_bytes(database) - free_bytes(database)


def file_bytes(database: sqlite3.Connection) -> int:
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
            "SELECT slot, coalesce(length(data), 0) + 16 FROM records WHERE server = ? AND tier = ? ORDER BY slot",
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
