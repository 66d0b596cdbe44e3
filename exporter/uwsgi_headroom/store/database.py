"""The writing side of a history file: what a transaction contains, how tiers are merged, and what is forgotten."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store.decode import decode_record
from uwsgi_headroom.store.encode import encode_record
from uwsgi_headroom.store.file import transaction
from uwsgi_headroom.store.record import Minute, Record, merge_records
from uwsgi_headroom.store.tiers import DAY, HOURS, MINUTES, QUARTERS, TIERS, Tier, slot_at

_FORGET_SECONDS = 3600.0
"""Time between two deletions of what is too old, or too much."""

_SHORTENED = ((MINUTES, DAY), (QUARTERS, 14 * DAY), (HOURS, 60 * DAY), (MINUTES, 0), (QUARTERS, 0), (HOURS, 0))
"""In which order tiers become shorter where a history is too large, and how much of each is left before the next one
does, in seconds."""

_SHARE = 20
"""A tier becomes shorter by this part of the time that it covers, again until the history fits."""

_log = logging.getLogger(__name__)


class Database:
    """An open history file. Methods raise sqlite3.Error. size: bytes in use, of max_size; since: by server, how far
    back its records reach, in epoch seconds."""

    def __init__(self, connection: sqlite3.Connection, path: Path, max_size: int) -> None:
        self._connection = connection
        self._file = _identity(path)
        self._max_size = max_size
        self._servers: dict[str, int] = {}
        self._texts: dict[str, tuple[int, int]] = {}  # number, and the day on which it was last used
        self._unmerged: set[tuple[int, int]] = set()  # servers and quarters
        self._forget_at = 0.0
        self._before: float | None = None  # the time of the last write
        self.size = 0
        self.since: dict[str, float] = {}
        self._load()

    def is_at(self, path: Path) -> bool:
        """Whether the path is still that of the open file."""
        return _identity(path) == self._file

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def write(self, minutes: Sequence[Minute], now: float) -> int:
        """Write minutes in one transaction, merge them, and delete what is too old at `now` (epoch seconds) or too
        much. Returns how many could not be stored."""
        damaged = 0
        with transaction(self._connection):
            for minute in minutes:
                server = self._number_of_server(minute.server)
                if minute.record and self._add(server, minute.minute, minute.record, now):
                    self.since.setdefault(minute.server, minute.minute * 60.0)
                elif minute.record:
                    damaged += 1
                for event in minute.events:
                    self._execute(
                        "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)",
                        server,
                        event.since,
                        f"{event.kind} {','.join(map(str, event.workers))}",
                        event.time,
                        msgspec.json.encode(event),
                    )
            self._merge(now)
        is_first, is_time = self._before is None, self._is_time_to_forget(now)
        if is_first or is_time:
            with transaction(self._connection):
                if is_time:
                    self._forget_old(now)
                self._forget_too_much()
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()
            self._note_since()
        self.size = self._used_bytes()
        return damaged

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
        try:
            data = encode_record(merge_records([*known, record]), lambda text: self._number_of_text(text, day))
        except (ValueError, OverflowError):
            _log.exception("a minute of the history is lost")
            return False
        self._put(server, MINUTES, minute, data)
        self._unmerged.add((server, slot_at(QUARTERS, minute)))
        return True

    def _merge(self, now: float) -> None:
        """Merge the minutes of each quarter of an hour that has ended, and the quarters of its hour."""
        ended = {(server, slot) for server, slot in self._unmerged if slot * QUARTERS.seconds <= now + 1}
        hours = set()
        for server, slot in ended:
            self._merge_slot(server, QUARTERS, slot, MINUTES, now)
            hours.add((server, slot_at(HOURS, slot * QUARTERS.seconds // MINUTES.seconds)))
        for server, slot in hours:
            self._merge_slot(server, HOURS, slot, QUARTERS, now)
        self._unmerged -= ended

    def _merge_slot(self, server: int, tier: Tier, slot: int, of: Tier, now: float) -> None:
        parts = tier.seconds // of.seconds
        records = self._read(server, of, (slot - 1) * parts + 1, slot * parts)
        if records:
            day = int(now // DAY)
            merged = merge_records(records)
            self._put(server, tier, slot, encode_record(merged, lambda text: self._number_of_text(text, day)))

    def _read(self, server: int, tier: Tier, first: int, last: int) -> list[Record]:
        rows = self._execute(
            "SELECT data FROM records WHERE server = ? AND tier = ? AND slot BETWEEN ? AND ? ORDER BY slot",
            server,
            tier.seconds,
            first,
            last,
        )
        texts = {number: text for text, (number, _) in self._texts.items()}
        records = []
        for (data,) in rows:
            try:
                records.append(decode_record(data, texts))
            except HistoryFileError as error:  # a damaged record must not stop all later ones
                _log.warning("a record of the history is lost", extra={"fields": {"reason": str(error)}})
        return records

    def _put(self, server: int, tier: Tier, slot: int, data: bytes) -> None:
        self._execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", server, tier.seconds, slot, data)

    def _forget_old(self, now: float) -> None:
        for tier in TIERS:
            oldest = int((now - tier.kept) // tier.seconds)
            self._execute("DELETE FROM records WHERE tier = ? AND slot < ?", tier.seconds, oldest)
        self._execute("DELETE FROM events WHERE time < ?", now - HOURS.kept)
        self._execute("DELETE FROM texts WHERE used < ?", int((now - HOURS.kept) // DAY))
        self._texts = {text: (number, used) for number, text, used in self._execute("SELECT id, text, used FROM texts")}

    def _forget_too_much(self) -> None:
        while self._used_bytes() > self._max_size and self._shorten():
            pass

    def _shorten(self) -> bool:
        """Delete the oldest records of the first tier that may become shorter; whether there was one."""
        for tier, least in _SHORTENED:
            query = "SELECT min(slot), max(slot) FROM records WHERE tier = ?"
            ((first, last),) = self._execute(query, tier.seconds)
            spare = 0 if first is None else last - first + 1 - least // tier.seconds
            if spare > 0:
                keep_from = first + min(spare, max(1, (last - first) // _SHARE))
                self._execute("DELETE FROM records WHERE tier = ? AND slot < ?", tier.seconds, keep_from)
                return True
        return False

    def _used_bytes(self) -> int:
        (pages,), (free,), (size,) = (
            self._connection.execute(f"PRAGMA {name}").fetchone()
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _number_of_server(self, name: str) -> int:
        if name not in self._servers:
            self._execute("INSERT INTO servers (name) VALUES (?)", name)
            self._servers[name] = self._last_id()
        return self._servers[name]

    def _number_of_text(self, text: str, day: int) -> int:
        number, used = self._texts.get(text, (None, None))
        if number is None:
            self._execute("INSERT INTO texts (text, used) VALUES (?, ?)", text, day)
            number = self._last_id()
        elif used != day:
            self._execute("UPDATE texts SET used = ? WHERE id = ?", day, number)
        self._texts[text] = (number, day)
        return number

    def _last_id(self) -> int:
        ((number,),) = self._execute("SELECT last_insert_rowid()")
        return int(number)

    def _load(self) -> None:
        """Read what an earlier writer has left, also minutes that it has not merged."""
        self._servers = {str(name): int(number) for number, name in self._execute("SELECT id, name FROM servers")}
        self._texts = {text: (number, used) for number, text, used in self._execute("SELECT id, text, used FROM texts")}
        for server in self._servers.values():
            last = "SELECT coalesce(max(slot), 0) FROM records WHERE server = ? AND tier = ?"
            ((quarter,),) = self._execute(last, server, QUARTERS.seconds)
            first_minute = (max(quarter, 1) - 1) * QUARTERS.seconds // MINUTES.seconds + 1
            slots = "SELECT slot FROM records WHERE server = ? AND tier = ? AND slot >= ?"
            minutes = self._execute(slots, server, MINUTES.seconds, first_minute)
            self._unmerged |= {(server, slot_at(QUARTERS, minute)) for (minute,) in minutes}
        self._note_since()

    def _note_since(self) -> None:
        query = "SELECT name, min(slot * tier) FROM servers JOIN records ON server = id GROUP BY name"
        self.since = {str(name): float(since) for name, since in self._execute(query)}

    def _execute(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        return self._connection.execute(query, values).fetchall()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
