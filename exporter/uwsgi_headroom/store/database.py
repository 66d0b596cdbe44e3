"""Writes a history file: what a transaction contains, how tiers are merged, and what is forgotten.

A file that is too large loses the oldest records of the server that holds most: each pays for what it writes. All that
were there briefly count as one, because a program may serve stats under new names.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from sqlite3 import Connection

import msgspec

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store.codec import decode_in_slot, encode_record
from uwsgi_headroom.store.earlier import is_earlier
from uwsgi_headroom.store.file import read_texts, transaction
from uwsgi_headroom.store.record import HOURS, MINUTES, QUARTERS, TIERS, Minute, Record, Tier, merge_records, slot_at

_FORGET_SECONDS = 3600.0
"""Time between two deletions of what is too old."""

_TOGETHER = 32
"""Slots that are merged before the size is checked: hostile records have 50 kB."""

_CONVERTED = 500
"""Records of version 1.0.0 that are encoded anew with each write, in 0.25 s."""

_VACUUMED_PAGES = 64
"""Given back in one transaction."""

_log = logging.getLogger(__name__)


class Database:
    """An open history file. size: bytes in use; since: by server, where its records begin, in epoch seconds."""

    def __init__(self, connection: Connection, max_size: int) -> None:
        self._connection = connection
        self._max_size = max_size
        self._unmerged: set[tuple[int, int]] = set()  # servers and quarters
        self._forget_at = 0.0
        self._before: float | None = None  # the time of the last write
        self._texts = read_texts(connection)
        self._converted: tuple[object, ...] = (-1, 0, 0)  # the key of the last row
        self.size = 0
        self._load_names()

    def close(self) -> None:
        self._connection.close()

    def write(self, minutes: Sequence[Minute], now: float) -> int:
        """Write minutes, merge what has ended at `now` (epoch seconds), and forget; how many were not stored."""
        if self._before is None:
            self._find_unmerged(now)
        with transaction(self._connection):
            damaged = sum(not self._write_minute(minute) for minute in minutes)
        self._fit()
        ended = [(server, slot) for server, slot in self._unmerged if slot * QUARTERS.seconds <= now + 1]
        for first in range(0, len(ended), _TOGETHER):
            with transaction(self._connection):
                self._merge(ended[first : first + _TOGETHER])
            self._fit()
        if self._texts is not None:
            with transaction(self._connection):
                self._convert()
        if self._is_time_to_forget(now):
            with transaction(self._connection):
                self._forget(now)
            self._load_names()
        self.size = used_bytes(self._connection)
        return damaged

    def _write_minute(self, minute: Minute) -> bool:
        """Write one minute; whether its record could be stored."""
        server = self._number_of(minute.server)
        for event in minute.events:
            self._execute(
                "REPLACE INTO events VALUES (?, ?, ?, ?, ?)",
                server,
                event.since,
                f"{event.kind} {','.join(map(str, event.workers))}",
                event.time,
                msgspec.json.encode(event),
            )
        if not minute.record:
            return True
        self.since.setdefault(minute.server, minute.minute * 60.0)
        known = self._read(server, MINUTES, minute.minute, minute.minute)
        if not self._put(server, MINUTES, minute.minute, [*known, minute.record]):
            return False
        self._unmerged.add((server, slot_at(QUARTERS, minute.minute)))
        return True

    def _merge(self, ended: Sequence[tuple[int, int]]) -> None:
        """Merge the minutes of these quarters, and the quarters of their hours."""
        for server, slot in ended:
            self._merge_slot(server, QUARTERS, slot, MINUTES)
        for server, slot in {(server, slot_at(HOURS, slot * 15)) for server, slot in ended}:
            self._merge_slot(server, HOURS, slot, QUARTERS)
        self._unmerged -= set(ended)

    def _merge_slot(self, server: int, tier: Tier, slot: int, of: Tier) -> None:
        parts = tier.seconds // of.seconds
        records = self._read(server, of, (slot - 1) * parts + 1, slot * parts)
        # A clock that was set back adds to a slot whose other parts are forgotten.
        seconds = sum(record.window.seconds for record in records)
        if records and all(before.window.seconds <= seconds for before in self._read(server, tier, slot, slot)):
            self._put(server, tier, slot, records)

    def _read(self, server: int, tier: Tier, first: int, last: int) -> list[Record]:
        query = "SELECT slot, data FROM records WHERE server = ? AND tier = ? AND slot BETWEEN ? AND ? ORDER BY slot"
        records = []
        for slot, data in self._execute(query, server, tier.seconds, first, last):
            try:
                records.append(decode_in_slot(data, self._texts or {}, tier.seconds, slot))
            except HistoryFileError as error:
                _log.warning("a record of the history is lost", extra={"fields": {"reason": str(error)}})
        return records

    def _put(self, server: int, tier: Tier, slot: int, records: Sequence[Record]) -> bool:
        """Write one record of several; whether it could be stored."""
        try:
            data = encode_record(merge_records(records))
        except (ValueError, OverflowError):
            _log.exception("a record of the history is lost")
            return False
        self._execute("REPLACE INTO records VALUES (?, ?, ?, ?)", server, tier.seconds, slot, data)
        return True

    def _convert(self) -> None:
        """Encode the next records of version 1.0.0 anew; in the end, delete its texts."""
        rows = self._execute(
            "SELECT server, tier, slot, data FROM records WHERE (server, tier, slot) > (?, ?, ?) "
            "ORDER BY server, tier, slot LIMIT ?",
            *self._converted,
            _CONVERTED,
        )
        for server, tier, slot, data in rows:
            self._converted = server, tier, slot
            if isinstance(data, bytes) and is_earlier(data):
                with suppress(HistoryFileError, OverflowError):
                    anew = encode_record(decode_in_slot(data, self._texts or {}, tier, slot))
                    self._execute("REPLACE INTO records VALUES (?, ?, ?, ?)", server, tier, slot, anew)
        if not rows:
            self._execute("DROP TABLE texts")
            self._texts = None

    def _is_time_to_forget(self, now: float) -> bool:
        """Whether an hour has passed without a jump of the clock, which may start years ahead."""
        steady = self._before is not None and 0 <= now - self._before <= _FORGET_SECONDS
        self._before = now
        if steady and now < self._forget_at:
            return False
        self._forget_at = now + _FORGET_SECONDS
        return steady

    def _forget(self, now: float) -> None:
        """Delete what is too old, and servers of which nothing is left."""
        for tier in TIERS:
            oldest = int((now - tier.kept) // tier.seconds)
            self._execute("DELETE FROM records WHERE tier = ? AND slot < ?", tier.seconds, oldest)
        self._execute("DELETE FROM events WHERE time < ?", now - HOURS.kept)
        self._execute(
            "DELETE FROM servers WHERE NOT EXISTS (SELECT 1 FROM records WHERE server = id) "
            "AND NOT EXISTS (SELECT 1 FROM events WHERE server = id)"
        )

    def _number_of(self, name: str) -> int:
        if name not in self._servers:
            inserted = self._connection.execute("INSERT INTO servers (name) VALUES (?)", (name,))
            self._servers[name] = inserted.lastrowid or 0
        return self._servers[name]

    def _load_names(self) -> None:
        """Read which servers the file has, and how far back their records reach."""
        self._servers = {str(name): int(number) for number, name in self._execute("SELECT id, name FROM servers")}
        self.since: dict[str, float] = {}
        first = "SELECT min(slot) * tier FROM records WHERE server = ? AND tier = ?"
        for name, server in self._servers.items():
            ends = [end for tier in TIERS if (end := self._execute(first, server, tier.seconds)[0][0]) is not None]
            if ends:
                self.since[name] = float(min(ends))

    def _find_unmerged(self, now: float) -> None:
        """Find minutes that an earlier writer has not merged."""
        last = "SELECT max(coalesce(max(slot), 1), 1) FROM records WHERE server = ? AND tier = 900 AND slot <= ?"
        later = "SELECT slot FROM records WHERE server = ? AND tier = 60 AND slot > ? AND typeof(slot) = 'integer'"
        for server in self._servers.values():
            ((quarter,),) = self._execute(last, server, now // QUARTERS.seconds + 1)
            minutes = self._execute(later, server, (quarter - 1) * 15)
            self._unmerged |= {(server, slot_at(QUARTERS, minute)) for (minute,) in minutes}

    def _fit(self) -> None:
        """Delete until the file fits into its size, and shrink it."""
        if used_bytes(self._connection) <= self._max_size:
            return
        fit(self._connection, int(_LEFT * self._max_size))
        while used_bytes(self._connection) < file_bytes(self._connection) > self._max_size:
            # `execute` would take one step: one page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({_VACUUMED_PAGES})")
        self._load_names()

    def _execute(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        return self._connection.execute(query, values).fetchall()


_LEFT = 0.9
"""What is left of a file that is too large, so that the next write need not weigh it."""

_HELD = """
CREATE TEMP VIEW IF NOT EXISTS held AS
SELECT server, coalesce(length(data), 0) + 16 AS bytes, slot * tier AS time FROM records
UNION ALL SELECT server, coalesce(length(data) + length(what), 0) + 32, time + 0 FROM events
UNION ALL SELECT id, 2 * coalesce(length(CAST(name AS BLOB)), 0) + 32, NULL FROM servers
"""
"""What each row takes; a damaged value may be NULL."""

_WEIGHTS = """
SELECT server, sum(bytes), coalesce(max(time) - min(time), 0), coalesce(max(time), 0) AS latest
FROM held GROUP BY server ORDER BY latest DESC
"""

_BRIEF_SECONDS, _GONE_SECONDS = 3600, 600
"""A server was there briefly if it has less, and is gone if it has none since."""

_DROP_EVENTS = """
DELETE FROM events WHERE server IS ?1 AND (since, what) IN (SELECT since, what FROM (
    SELECT since, what, sum(length(data) + length(what) + 32) OVER (ORDER BY time DESC) AS bytes
    FROM events WHERE server IS ?1
) WHERE bytes > ?2 / 4)
"""
"""The oldest events of a server, beyond a quarter of what it holds."""

_DROP_RECORDS = """
DELETE FROM records WHERE server IS ?1 AND (tier, slot) IN (SELECT tier, slot FROM (
    SELECT tier, slot, bytes, sum(bytes) OVER (ORDER BY age DESC) AS dropped FROM (
        SELECT tier, slot, coalesce(length(data), 0) + 16 AS bytes,
            1.0 * tier / CASE tier WHEN 60 THEN ?3 WHEN 900 THEN ?4 ELSE ?5 END
            * row_number() OVER (PARTITION BY tier ORDER BY slot DESC) AS age
        FROM records WHERE server IS ?1
    )
) WHERE dropped - bytes < min(?2 / 10, 2000000))
"""
"""The oldest records: a tenth of what a server holds, or 2 MB. A tier may be as old as it is kept."""


def fit(database: Connection, size: int) -> None:
    """Delete until a file uses `size` bytes, in transactions as small as the write-ahead log."""
    database.execute(_HELD)
    rows = database.execute(_WEIGHTS).fetchall()
    gone = max([latest for *_, latest in rows], default=0) - _GONE_SECONDS
    passing = {server: held for server, held, seconds, latest in rows if seconds < _BRIEF_SECONDS and latest < gone}
    weights = {server: held for server, held, *_ in rows if server not in passing}
    together = sum(passing.values())
    while used_bytes(database) > size and (weights or passing):
        heaviest = max(weights, key=weights.__getitem__, default=None)
        with transaction(database):
            if passing and together >= weights.get(heaviest, 0):
                server, held = passing.popitem()  # gone for longest
                together -= held
                _drop(database, server)
            elif (left := _shorten(database, heaviest, weights[heaviest])) < weights[heaviest]:
                weights[heaviest] = left
            else:
                del weights[heaviest]


def _drop(database: Connection, server: object) -> None:
    database.execute("DELETE FROM records WHERE server IS ?", (server,))
    database.execute("DELETE FROM events WHERE server IS ?", (server,))
    database.execute("DELETE FROM servers WHERE id IS ?", (server,))


def _shorten(database: Connection, server: object, held: int) -> int:
    """Delete the oldest that a server has; the bytes that it holds then."""
    database.execute(_DROP_EVENTS, (server, held))
    database.execute(_DROP_RECORDS, (server, held, *(tier.kept for tier in TIERS)))
    rows = database.execute("SELECT bytes FROM held WHERE server IS ?", (server,))
    return sum(size for (size,) in rows)


def used_bytes(database: Connection) -> int:
    """The bytes of a file without the pages that the next writes will use."""
    return file_bytes(database) - _ask(database, "freelist_count") * _ask(database, "page_size")


def file_bytes(database: Connection) -> int:
    return _ask(database, "page_count") * _ask(database, "page_size")


def _ask(database: Connection, pragma: str) -> int:
    (value,) = database.execute(f"PRAGMA {pragma}").fetchone()
    return int(value)
