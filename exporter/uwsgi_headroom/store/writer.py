"""Writes records and events to a history file, from a thread of its own, so that sampling never waits for a disk.

Whatever fails, the exporter goes on: `problem` says what is wrong, the thread tries again every minute, and meanwhile
the latest records wait in memory. A file that is too large loses the oldest records of the server that holds most: each
pays for what it writes. All that were there briefly count as one, because a program may serve stats under new names.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from sqlite3 import Connection

import msgspec

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store.codec import decode_in_slot, encode_record
from uwsgi_headroom.store.file import Failure, explain, hold_lock, open_to_write, transaction
from uwsgi_headroom.store.record import HOURS, MINUTES, QUARTERS, TIERS, Minute, Record, Tier, merge_records, slot_at

RETRY_SECONDS = 60.0
"""Time between two attempts to write to a file that cannot be written."""

MOST_WAITING = 2000
"""Minutes that wait in memory while the file cannot be written: an hour of 33 servers, 20 MB with 8 workers each."""

_TOGETHER_SECONDS = 1.0
"""How long the thread waits for more records, to write them in one transaction."""

_TOGETHER = 32
"""Minutes in one transaction: what waited for a full disk must not make the file too large."""

_log = logging.getLogger(__name__)


class HistoryWriter:
    """Writes to one history file. Methods may be called from any thread, and return at once but for `close`.

    problem: why nothing is written, as a sentence; "" if all is well. written, dropped: numbers of minutes.
    """

    def __init__(self, path: Path, max_size: int, epoch: Callable[[], float] = time.time) -> None:
        self.path = path
        self.problem = ""
        self.written = self.dropped = self.size = 0
        self.since: dict[str, float] = {}
        self._max_size = max_size
        self._epoch = epoch
        self._waiting: list[Minute] = []
        self._changed = threading.Condition()
        self._closing = False
        self._lock: int | None = None
        self._database: Database | None = None
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def put(self, minute: Minute) -> None:
        """Write a minute soon. The oldest is dropped if too many wait."""
        with self._changed:
            self._waiting.append(minute)
            self._drop_oldest()
            self._changed.notify()

    def close(self, seconds: float) -> None:
        """Write what waits, and close the file; give up after these seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            succeeded = self._attempt()
            with self._changed:
                if self._closing and not (succeeded and self._waiting):
                    break
                if not succeeded:
                    self._changed.wait_for(lambda: self._closing, RETRY_SECONDS)
                else:
                    self._changed.wait_for(lambda: self._closing or bool(self._waiting))
                    self._changed.wait_for(lambda: self._closing, _TOGETHER_SECONDS)
        self._close()

    def _attempt(self) -> bool:
        """Open the file if it is not open, and write what waits; whether that succeeded."""
        with self._changed:
            minutes, self._waiting = self._waiting, []
        many, part = len(minutes), minutes[:0]
        try:
            database = self._open()
            for _ in range(0, many or 1, _TOGETHER):
                part, minutes = minutes[:_TOGETHER], minutes[_TOGETHER:]
                self.dropped += database.write(part, self._epoch())
            self.size, self.since = database.size, database.since
            self._report("")
        except (HistoryFileError, *Failure, OSError) as error:
            self._close()
            self._report(explain(self.path, error) if isinstance(error, Failure) else str(error))
            with self._changed:
                self._waiting[:0] = [*part, *minutes]
                self._drop_oldest()
            return False
        except Exception:  # noqa: BLE001 - an error in one record must not end the history
            self._close()
            self._report("internal error")
            _log.exception("the history failed")
            self.dropped += len(part) + len(minutes)
            return False
        finally:
            self.written += many - len(part) - len(minutes)  # last: who sees it sees all that this attempt changed
        return True

    def _drop_oldest(self) -> None:
        many = len(self._waiting) - MOST_WAITING
        if many > 0:
            del self._waiting[:many]
            self.dropped += many

    def _open(self) -> Database:
        if not self._has_file():
            self._close()  # it was moved away or replaced
        if self._database is None:
            self._lock = hold_lock(self.path)
            self._database = Database(open_to_write(self.path), self._max_size)
        return self._database

    def _has_file(self) -> bool:
        try:
            return self._lock is not None and os.path.samestat(os.stat(self.path), os.fstat(self._lock))
        except OSError:
            return False

    def _close(self) -> None:
        if self._database:
            self._database.close()
            self._database = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            message = "the history is not written" if problem else "the history is written again"
            _log.log(logging.WARNING if problem else logging.INFO, message, extra={"fields": {"reason": problem}})
        self.problem = problem


_FORGET_SECONDS = 3600.0
"""Time between two deletions of what is too old."""

_MERGED = 32
"""Slots that are merged before the size is checked: hostile records have 50 kB."""

_VACUUMED_PAGES = 64
"""Given back in one transaction."""


class Database:
    """An open history file. size: bytes in use; since: by server, where its records begin, in epoch seconds."""

    def __init__(self, connection: Connection, max_size: int) -> None:
        self._connection = connection
        self._max_size = max_size
        self._unmerged: set[tuple[int, int]] = set()  # servers and quarters
        self._forget_at = 0.0
        self._before: float | None = None  # the time of the last write
        self.size = 0
        self._load_names()

    def close(self) -> None:
        self._connection.close()

    def write(self, minutes: list[Minute], now: float) -> int:
        """Move minutes to the file, merge what has ended at `now` (epoch seconds), forget; how many were not stored."""
        if self._before is None:
            self._find_unmerged(now)
        with transaction(self._connection):
            damaged = sum(not self._write_minute(minute) for minute in minutes)
        minutes.clear()  # who tries again after an error must not write them twice
        self._fit()
        ended = [(server, slot) for server, slot in self._unmerged if slot * QUARTERS.seconds <= now + 1]
        for first in range(0, len(ended), _MERGED):
            with transaction(self._connection):
                self._merge(ended[first : first + _MERGED])
            self._fit()
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
            what = f"{event.kind} {','.join(map(str, event.workers))}{event.title * (event.kind == 'log_message')}"
            values = server, event.since, what, event.time, msgspec.json.encode(event)
            self._execute("REPLACE INTO events VALUES (?, ?, ?, ?, ?)", *values)
        if not minute.record:
            return True
        self.since.setdefault(minute.server, minute.minute * 60.0)
        known = self._read(server, MINUTES, minute.minute, minute.minute)
        if not self._put(server, MINUTES, minute.minute, [*known, minute.record]):
            return False
        self._unmerged.add((server, slot_at(QUARTERS, minute.minute)))
        return True

    def _merge(self, ended: Sequence[tuple[int, int]]) -> None:
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
                records.append(decode_in_slot(data, tier.seconds, slot))
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
        self._servers = {str(name): int(number) for number, name in self._execute("SELECT id, name FROM servers")}
        self.since: dict[str, float] = {}
        first = "SELECT min(slot) * tier FROM records WHERE server = ? AND tier = ?"
        for name, server in self._servers.items():
            ends = [end for tier in TIERS if (end := self._execute(first, server, tier.seconds)[0][0]) is not None]
            if ends:
                self.since[name] = float(min(ends))

    def _find_unmerged(self, now: float) -> None:
        last = "SELECT max(coalesce(max(slot), 1), 1) FROM records WHERE server = ? AND tier = 900 AND slot <= ?"
        later = "SELECT slot FROM records WHERE server = ? AND tier = 60 AND slot > ? AND typeof(slot) = 'integer'"
        for server in self._servers.values():
            ((quarter,),) = self._execute(last, server, now // QUARTERS.seconds + 1)
            minutes = self._execute(later, server, (quarter - 1) * 15)
            self._unmerged |= {(server, slot_at(QUARTERS, minute)) for (minute,) in minutes}

    def _fit(self) -> None:
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
