"""Opens and reads history files: SQLite databases with records and events.

One process writes to a file, and holds a lock on it (flock): SQLite holds its own for a transaction only.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby, islice
from pathlib import Path

import msgspec
from msgspec import Struct

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.store.codec import decode_in_slot
from uwsgi_headroom.store.record import AHEAD_SECONDS, LONGEST_SECONDS, QUARTERS, TIERS, Record

APPLICATION_ID = 0x75774852  # "uwHR", in SQLite's header
VERSION = 3
"""Of the tables. Version 1.0.0 of the exporter wrote 1."""

_MODE = 0o640  # routes come from the paths of users' requests

_BUSY_SECONDS = 5.0

Failure = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises, also where a message quotes damaged text."""

_TABLES = """
CREATE TABLE servers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE records (
    server INTEGER NOT NULL, tier INTEGER NOT NULL, slot INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (server, tier, slot)
) WITHOUT ROWID;
CREATE TABLE events (
    server INTEGER NOT NULL, since REAL NOT NULL, what TEXT NOT NULL, time REAL NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (server, since, what)
) WITHOUT ROWID;
"""

_KNOWN = {" ".join(table.split()) for table in _TABLES.split(";")}
"""What SQLite keeps of the tables. A view in place of one may have endless rows."""

_SETTINGS = """
PRAGMA journal_mode = WAL;
PRAGMA wal_autocheckpoint = 64;
PRAGMA synchronous = NORMAL;
PRAGMA journal_size_limit = 1000000;
"""
"""The write-ahead log is emptied when it has 64 pages: 1 MB."""

_NEW = f"""
PRAGMA page_size = 16384;
PRAGMA auto_vacuum = INCREMENTAL;
BEGIN;
{_TABLES}
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
COMMIT;
"""
"""A row of over a quarter of a page takes pages of its own; 64 workers take 2.4 kB."""


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open a history file, or create it. The caller holds `hold_lock`."""
    with _explained(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))
    with _opened(path, "mode=rw") as (database, version):
        database.executescript(_SETTINGS if version else _NEW + _SETTINGS)
        database.execute(f"PRAGMA user_version = {VERSION}")
        return database


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a history file that another process may be writing to."""
    # A reader that may not write there cannot make SQLite's own files.
    idle = not Path(f"{path}-wal").exists() and not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK)
    with _opened(path, "mode=ro&immutable=1" if idle else "mode=ro") as (database, version):
        if not version:
            raise HistoryFileError(f"{path} is empty: no exporter has written to it yet")
        return database


def refuse_foreign(path: Path) -> None:
    """Raise HistoryFileError if a file can be no history. SQLite makes no file of its own."""
    with _opened(path, "mode=ro&immutable=1") as (database, _):
        database.close()


def hold_lock(path: Path) -> int:
    """Create a file if there is none, and lock it until the returned descriptor is closed."""
    with _explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, _MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise HistoryFileError(f"another exporter writes to {path}; give each exporter a file of its own") from None
        return descriptor


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    with database:
        database.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def _opened(path: Path, query: str) -> Iterator[tuple[sqlite3.Connection, int]]:
    """A connection, which an error closes, and the version of its file; 0 if empty."""
    with _explained(path):
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
            raise HistoryFileError(f"{path} is not an ordinary file; choose another file")
        address = f"{Path(os.path.realpath(path)).as_uri()}?{query}"
        database = sqlite3.connect(
            address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # A damaged text need not be UTF-8.
            database.text_factory = lambda data: data.decode("utf-8", "replace")
            yield database, _find_version(path, database)
        except BaseException:
            database.close()
            raise


def _find_version(path: Path, database: sqlite3.Connection) -> int:
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    tables = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view')"))
    if not tables and not application:
        return 0
    if application != APPLICATION_ID:
        raise HistoryFileError(f"{path} is a database of another program; choose another file")
    if version > VERSION:
        raise HistoryFileError(f"{path} was written by a newer version; use that version, or choose another file")
    if version == 1:
        raise HistoryFileError(f"{path} was written by version 1.0.0; move it away, and the exporter begins a new one")
    made_by = {" ".join(str(tables.get(name, "")).split()) for name in ("servers", "records", "events")}
    if version != VERSION or not made_by <= _KNOWN:
        raise sqlite3.DatabaseError("malformed schema")
    return int(version)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except Failure as error:
        raise HistoryFileError(explain(path, error)) from None
    except OSError as error:
        raise HistoryFileError(f"{path}: {error.strerror or error}") from None


def explain(path: Path, error: Exception) -> str:
    text = "malformed" if isinstance(error, UnicodeDecodeError) else str(error)
    if "not a database" in text:
        return f"{path} is not a history file; choose another file, or move this one away"
    if "malformed" in text:
        return f"{path} is damaged ({text}); move it away, and the exporter begins a new one"
    if "full" in text:
        return f"{path}: no space is left on the disk"
    if "readonly" in text:
        return f"{path}: the file or its directory is read-only"
    return f"{path}: {text}"


_MOST_ROWS = 100_000
"""More than a tier has: a damaged index may return endless rows."""


class StoredServer(Struct, frozen=True):
    """A server of a file. first, last: the ends of its first and last records, in epoch seconds."""

    name: str
    first: float
    last: float


class HistoryFile:
    """A history file for reading at `now` (epoch seconds). Every method raises HistoryFileError.

    What a clock that was ahead has left is ignored. So is what is damaged: `damaged` counts it.
    """

    def __init__(self, path: Path, now: float) -> None:
        self.damaged = 0
        self._path = path
        self._latest = now + AHEAD_SECONDS
        self._database = open_to_read(path)

    def __enter__(self) -> HistoryFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def servers(self) -> list[StoredServer]:
        found = []
        for name in self._names():
            if ends := list(self.reach(name).values()):
                # The last hour may not have ended: the shortest records count.
                (_, last), first = ends[0], min(first for first, _ in ends)
                found.append(StoredServer(name, first, last))
        return found

    def up_seconds(self, since: Callable[[str], float], enough: float) -> dict[str, float]:
        """How long each server was sampled after `since` (epoch seconds), by quarters, at most `enough` seconds."""
        known: dict[str, float] = {}
        for name in self._names():
            begin = -(-since(name) // QUARTERS.seconds) * QUARTERS.seconds
            try:
                for record in self.records(name, begin, self._latest, QUARTERS.seconds):
                    known[name] = known.get(name, 0.0) + record.window.observed_seconds
                    if known[name] >= enough:
                        break
            except HistoryFileError:  # a damaged page of one server
                self.damaged += 1
        return known

    def records(self, server: str, since: float, until: float, tier: int) -> Iterator[Record]:
        """A server's records that end after `since` and by `until` (epoch seconds). tier: 60, 900 or 3600."""
        # A damaged slot may be out of order: `+slot` keeps SQLite from ending at it.
        query = (
            "SELECT slot, data FROM records WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND tier = ? AND slot > ? AND +slot <= ? ORDER BY slot LIMIT ?"
        )
        values = server, tier, int(since // tier), int(min(until, self._latest) // tier), _MOST_ROWS
        with _explained(self._path):
            for slot, data in self._database.execute(query, values):
                try:
                    yield decode_in_slot(data, tier, slot)
                except HistoryFileError:
                    self.damaged += 1

    def events(self, server: str, since: float, until: float, kind: str = "*", most: int | None = None) -> list[Event]:
        """A server's events in a time (epoch seconds), oldest first. most: only so many of the latest."""
        return list(islice(self._find_events(server, since, until, kind), most))[::-1]

    def latest_events(self, server: str, since: float, before: tuple[float, int], count: int) -> list[Event]:
        """At most `count` events since a time and before the time and id of another event, newest first."""
        found: list[Event] = []
        for _, together in groupby(self._find_events(server, since, before[0], "*"), key=lambda event: event.time):
            newest_first = sorted(together, key=lambda event: event.id, reverse=True)
            found += [event for event in newest_first if (event.time, event.id) < before]
            if len(found) >= count:
                break
        return found[:count]

    def reach(self, server: str) -> dict[int, tuple[float, float]]:
        """For each tier with records of a server, the ends of the first and the last one in epoch seconds. A slot of
        long before records are kept is damaged."""
        query = (
            "SELECT slot FROM records WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND tier = ? AND slot BETWEEN ? AND ? ORDER BY slot "
        )
        reach = {}
        for tier, _ in TIERS:
            slots = int((self._latest - 2 * LONGEST_SECONDS) // tier), int(self._latest // tier)
            ends = [self._rows(f"{query} {order} LIMIT 1", server, tier, *slots) for order in ("ASC", "DESC")]
            if all(ends):
                (((first,),), ((last,),)) = ends
                reach[tier] = first * float(tier), last * float(tier)
        return reach

    def _find_events(self, server: str, since: float, until: float, kind: str) -> Iterator[Event]:
        """Newest first. An event of another time than its row is damaged: the next page would begin there."""
        query = (
            "SELECT time, data FROM events WHERE server = (SELECT id FROM servers WHERE name = ?) "
            "AND time BETWEEN ? AND ? AND what GLOB ? ORDER BY time DESC"
        )
        values = server, since, min(until, self._latest), f"{kind} *"
        with _explained(self._path):
            for time, data in self._database.execute(query, values):
                event = _decode_event(data)
                if event and event.time == time:
                    yield event
                else:
                    self.damaged += 1

    def _names(self) -> list[str]:
        return [str(name) for (name,) in self._rows("SELECT name FROM servers ORDER BY name")]

    def _rows(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        with _explained(self._path):
            return self._database.execute(query, values).fetchall()


def _decode_event(data: bytes) -> Event | None:
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError):
        return msgspec.json.decode(data, type=Event)
    return None
