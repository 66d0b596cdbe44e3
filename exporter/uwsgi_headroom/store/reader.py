"""Reads a history file, while an exporter writes to it or without one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import msgspec

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.store.decode import decode_record
from uwsgi_headroom.store.file import explain, open_to_read
from uwsgi_headroom.store.record import Record
from uwsgi_headroom.store.tiers import TIERS

_ROWS = 200  # at a time


@dataclass(frozen=True, slots=True)
class StoredServer:
    """A server of a history file. first, last: the ends of its first and last records, in epoch seconds."""

    name: str
    first: float
    last: float


class HistoryFile:
    """A history file for reading; a context manager. Every method raises HistoryFileError with a sentence."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = open_to_read(path)

    def __enter__(self) -> HistoryFile:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def servers(self) -> list[StoredServer]:
        """Every server with records, by name."""
        # The last hour may not have ended, so the end of the shortest records counts.
        query = (
            "SELECT name, min(slot * tier), max(CASE tier WHEN ? THEN slot * tier END), "
            "max(CASE tier WHEN ? THEN slot * tier END), max(CASE tier WHEN ? THEN slot * tier END) "
            "FROM servers JOIN records ON server = id GROUP BY name ORDER BY name"
        )
        return [
            StoredServer(str(name), float(first), float(next(end for end in ends if end is not None)))
            for name, first, *ends in self._rows(query, *(tier.seconds for tier in TIERS))
        ]

    def records(self, server: str, since: float, until: float, tier: int) -> Iterator[Record]:
        """The records of a server that end after `since` and by `until` (epoch seconds), in the order of time. tier:
        their length in seconds: 60, 900 or 3600. A damaged record raises HistoryFileError."""
        query = (
            "SELECT slot, data FROM records WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND tier = ? AND slot > ? AND slot <= ? ORDER BY slot LIMIT ?"
        )
        after, end = int(since // tier), int(until // tier)
        while rows := self._rows(query, server, tier, after, end, _ROWS):
            # After the rows: a text is written no later than the first record that needs it.
            texts = {int(number): str(text) for number, text in self._rows("SELECT id, text FROM texts")}
            for slot, data in rows:
                yield decode_record(data, texts)
                after = int(slot)

    def events(self, server: str, since: float, until: float) -> list[Event]:
        """The events of a server in a time (epoch seconds), oldest first."""
        query = (
            "SELECT data FROM events WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND time >= ? AND time <= ? ORDER BY time"
        )
        try:
            return [msgspec.json.decode(data, type=Event) for (data,) in self._rows(query, server, since, until)]
        except msgspec.MsgspecError:
            raise HistoryFileError(f"{self._path} is damaged: an event cannot be read") from None

    def reaches_back(self, server: str) -> dict[int, float]:
        """For each tier with records of a server, the end of the first one in epoch seconds."""
        query = "SELECT min(slot) FROM records WHERE server = (SELECT id FROM servers WHERE name = ?) AND tier = ?"
        found = {tier.seconds: self._rows(query, server, tier.seconds)[0][0] for tier in TIERS}
        return {seconds: float(slot) * seconds for seconds, slot in found.items() if slot is not None}

    def _rows(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        try:
            return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise HistoryFileError(explain(self._path, error)) from None
