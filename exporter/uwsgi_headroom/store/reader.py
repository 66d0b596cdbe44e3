"""Reads a history file, while an exporter writes to it or without one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType

import msgspec

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.store.codec import decode_in_slot
from uwsgi_headroom.store.file import Failure, explain, open_to_read
from uwsgi_headroom.store.record import AHEAD_SECONDS, QUARTERS, TIERS, Record

_ROWS = 200  # at a time


@dataclass(frozen=True, slots=True)
class StoredServer:
    """A server of a history file. first, last: the ends of its first and last records, in epoch seconds."""

    name: str
    first: float
    last: float


class HistoryFile:
    """A history file for reading at the time `now` (epoch seconds); a context manager. Every method raises
    HistoryFileError with a sentence.

    What a clock that was ahead has left is ignored. So is what is damaged: `damaged` counts it.
    """

    def __init__(self, path: Path, now: float) -> None:
        self.damaged = 0
        self._path = path
        self._latest = now + AHEAD_SECONDS
        self._database = open_to_read(path)

    def __enter__(self) -> HistoryFile:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def servers(self) -> list[StoredServer]:
        found = []
        for (name,) in self._rows("SELECT name FROM servers ORDER BY name"):
            reach = self._reach(str(name))
            if reach:
                # The last hour may not have ended, so the end of the shortest records counts.
                last = next(reach[tier.seconds][1] for tier in TIERS if tier.seconds in reach)
                found.append(StoredServer(str(name), min(first for first, _ in reach.values()), last))
        return found

    def has_later(self) -> bool:
        """Whether there are records that are later than now."""
        return bool(self._rows("SELECT 1 FROM records WHERE slot * tier > ? LIMIT 1", self._latest))

    def up_seconds(self, since: Callable[[str], float], enough: float) -> dict[str, float]:
        """For each server, how long it was sampled after `since` (epoch seconds, by name): up to `enough` seconds, to
        the precision of a quarter of an hour. Emperors and routers have no records."""
        known: dict[str, float] = {}
        for (name,) in self._rows("SELECT name FROM servers"):
            begin = -(-since(str(name)) // QUARTERS.seconds) * QUARTERS.seconds
            try:
                for record in self.records(str(name), begin, self._latest, QUARTERS.seconds):
                    known[str(name)] = known.get(str(name), 0.0) + record.window.observed_seconds
                    if known[str(name)] >= enough:
                        break
            except HistoryFileError:  # a damaged page of one server, whose others can be read
                self.damaged += 1
        return known

    def records(self, server: str, since: float, until: float, tier: int) -> Iterator[Record]:
        """The records of a server that end after `since` and by `until` (epoch seconds), in the order of time. tier:
        their length in seconds: 60, 900 or 3600."""
        # A slot may be damaged too, so that it is out of order: `+slot` keeps SQLite from ending at it.
        query = (
            "SELECT slot, data FROM records WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND tier = ? AND slot > ? AND +slot <= ? ORDER BY slot LIMIT ?"
        )
        after, end = int(since // tier), int(min(until, self._latest) // tier)
        counted: set[object] = set()  # slots of damaged records: those behind the last whole one are read twice
        while rows := self._rows(query, server, tier, after, end, _ROWS):
            # After the rows: a text is written no later than the first record that needs it.
            texts = {number: str(text) for number, text in self._rows("SELECT id, text FROM texts")}
            before, last = after, rows[-1][0]
            for slot, data in rows:
                try:
                    record = decode_in_slot(data, texts, tier, slot)
                except HistoryFileError:
                    self.damaged += slot not in counted
                    counted.add(slot)
                    continue
                if slot > after:
                    after = slot
                    yield record
            if len(rows) < _ROWS:
                return
            if after == before:  # all of them are damaged
                after = max(after, last)
            if after == before:  # a damaged index may return a row again and again
                raise HistoryFileError(explain(self._path, sqlite3.DatabaseError("database disk image is malformed")))

    def events(self, server: str, since: float, until: float, kind: str = "*", most: int = -1) -> list[Event]:
        """The events of a server in a time (epoch seconds), oldest first; all of them, or of one kind. most: so many of
        the latest; all if negative."""
        query = (
            "SELECT time, data FROM events WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND time >= ? AND time <= ? AND what GLOB ? ORDER BY time DESC LIMIT ?"
        )
        rows = self._rows(query, server, since, min(until, self._latest), f"{kind} *", most)
        return list(self._decode_events(reversed(rows)))

    def latest_events(self, server: str, since: float, before: tuple[float, int], count: int) -> list[Event]:
        """The latest events of a server since a time (epoch seconds) and before the time and id of another event, at
        most `count`, newest first. A damaged event is left out."""
        query = (
            "SELECT time, data FROM events WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND time >= ? AND time <= ? ORDER BY time DESC"
        )
        found: list[Event] = []
        try:
            rows = self._database.execute(query, (server, since, min(before[0], self._latest)))
            for _, together in groupby(rows, key=itemgetter(0)):
                events = sorted(self._decode_events(together), key=lambda event: event.id, reverse=True)
                found += [event for event in events if (event.time, event.id) < before]
                if len(found) >= count:
                    break
        except Failure as error:
            raise HistoryFileError(explain(self._path, error)) from None
        return found[:count]

    def _decode_events(self, rows: Iterable[tuple[float, bytes]]) -> Iterator[Event]:
        """The events of these rows. One whose time is not that of its row is damaged: a page of the journal begins
        where the one before ended, and would leave out all in between."""
        for time, data in rows:
            try:
                event = msgspec.json.decode(data, type=Event)
            except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError):
                self.damaged += 1
                continue
            if event.time == time:
                yield event
            else:
                self.damaged += 1

    def reaches_back(self, server: str) -> dict[int, float]:
        """For each tier with records of a server, the end of the first one in epoch seconds."""
        return {tier: first for tier, (first, _) in self._reach(server).items()}

    def _reach(self, server: str) -> dict[int, tuple[float, float]]:
        """For each tier with records of a server, the ends of the first and the last one in epoch seconds."""
        reach = {}
        for seconds, _ in TIERS:
            first, last = (self._find_end(server, seconds, order) for order in ("ASC", "DESC"))
            if first is not None and last is not None:
                reach[seconds] = float(first) * seconds, float(last) * seconds
        return reach

    def _find_end(self, server: str, tier: int, order: str) -> int | None:
        """The first slot, or the last with "DESC", whose record is not damaged."""
        query = (
            "SELECT slot, data FROM records WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND tier = ? AND slot <= ? ORDER BY slot "
        )
        try:
            for slot, data in self._database.execute(query + order, (server, tier, int(self._latest // tier))):
                with suppress(HistoryFileError):
                    decode_in_slot(data, {}, tier, slot)
                    return int(slot)
        except Failure as error:
            raise HistoryFileError(explain(self._path, error)) from None
        return None

    def _rows(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        try:
            return self._database.execute(query, values).fetchall()
        except Failure as error:
            raise HistoryFileError(explain(self._path, error)) from None
