"""Opens and reads history files: SQLite databases with records, events and texts. Raises HistoryFileError with a
sentence.

Only one process writes to a file: it holds a lock on another file beside it, because SQLite's own locks are held only
during a transaction. Readers need no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType

import msgspec
from msgspec import Struct

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.store.codec import decode_in_slot
from uwsgi_headroom.store.record import AHEAD_SECONDS, QUARTERS, TIERS, Record

APPLICATION_ID = 0x75774852  # "uwHR", in SQLite's header
VERSION = 2
"""The version of the tables. A program reads files of its own version and of earlier ones; a writer converts them.
Since 2, a text belongs to a server, or, if an earlier version wrote it, to none (0)."""

_MODE = 0o640  # routes come from the paths of users' requests
_LOCK_MODE = 0o600  # everyone who can open the lock file can hold the lock

_PAGE_BYTES = 16_384
"""A row of over a quarter of a page would take pages of its own; a minute of 64 workers is 2 kB."""

_BUSY_SECONDS = 5.0

Failure = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; the second if its message quotes a damaged schema that is not UTF-8."""

_CHECKPOINT_PAGES = 64
"""The write-ahead log is emptied into the file when it has so many pages: 1 MB. SQLite's default of 1,000 would be 16
MB."""

_TEXTS = """
CREATE TABLE texts (
    id INTEGER PRIMARY KEY, server INTEGER NOT NULL, text TEXT NOT NULL, used INTEGER NOT NULL, UNIQUE (server, text)
);
"""

_TABLES = f"""
CREATE TABLE servers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
{_TEXTS}
CREATE TABLE records (
    server INTEGER NOT NULL, tier INTEGER NOT NULL, slot INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (server, tier, slot)
) WITHOUT ROWID;
CREATE TABLE events (
    server INTEGER NOT NULL, since REAL NOT NULL, what TEXT NOT NULL, time REAL NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (server, since, what)
) WITHOUT ROWID;
"""

_EARLIER_TEXTS = "CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, used INTEGER NOT NULL);"

_KNOWN = frozenset(" ".join(table.split()) for table in f"{_TABLES}{_EARLIER_TEXTS}".split(";") if table.strip())
"""What SQLite keeps of the tables: the statements that made them. A file may come from another machine, and a view in
the place of a table may have rows without end."""

_SET_ASIDE = "ALTER TABLE texts RENAME TO earlier_texts;"
_TAKE_OVER = "INSERT INTO texts SELECT id, 0, text, used FROM earlier_texts; DROP TABLE earlier_texts;"

_HEADER = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open a history file, and create it if there is none. The caller holds `hold_lock`."""
    with _explained(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))
        database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            database.text_factory = _decode_text
            version = _version(path, database)
            if not version:
                database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
                database.execute("PRAGMA auto_vacuum = INCREMENTAL")
                database.executescript(f"BEGIN; {_TABLES} {_HEADER} COMMIT;")
            elif version < VERSION:
                database.executescript(f"BEGIN; {_SET_ASIDE} {_TEXTS} {_TAKE_OVER} {_HEADER} COMMIT;")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA journal_size_limit = 1000000")
        except BaseException:
            database.close()
            raise
        return database


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a history file that another process may be writing to."""
    with _explained(path):
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
            raise HistoryFileError(f"{path} is not an ordinary file; choose another file")
        address = path.resolve().as_uri()
        # Beside a file that nobody writes to, a reader without the right to write there cannot make SQLite's own files.
        idle = not Path(f"{path}-wal").exists() and not os.access(path.resolve().parent, os.W_OK)
        query = "mode=ro&immutable=1" if idle else "mode=ro"
        database = sqlite3.connect(f"{address}?{query}", uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
        database.text_factory = _decode_text
        try:
            if not _version(path, database):
                raise HistoryFileError(f"{path} is empty: no exporter has written to it yet")
        except BaseException:
            database.close()
            raise
        return database


def refuse_foreign(path: Path) -> None:
    """Raise HistoryFileError if a file is not empty and no history file of this version or an earlier one. Reads its
    header (https://www.sqlite.org/fileformat.html): opened as a database, it would get SQLite's own files beside it."""
    with _explained(path):
        if not stat.S_ISREG(path.stat().st_mode):
            raise HistoryFileError(f"{path} is not an ordinary file; choose another file")
        with path.open("rb") as file:
            header = file.read(100)
        if not header:
            return
        if header[:16] != b"SQLite format 3\0":
            raise sqlite3.DatabaseError("not a database")
        version, application = (int.from_bytes(header[place : place + 4], "big") for place in (60, 68))
        _refuse_version(path, application, version)


def hold_lock(path: Path) -> int:
    """Lock the file for writing by this process; returns a descriptor, which holds the lock until it is closed.

    Only this user may open the lock file: a lock needs no more than the right to read it.
    """
    lock = _lock_path(path)
    with _explained(lock):
        if lock.is_symlink():
            raise HistoryFileError(f"{lock} is a symbolic link; remove it")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(lock, flags, _LOCK_MODE)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                raise HistoryFileError(
                    f"{lock} is not a file of the exporter's user; remove it, or run the exporter as its owner"
                )
            os.fchmod(descriptor, _LOCK_MODE)  # an earlier version let its group read it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise HistoryFileError(f"another exporter writes to {path}; give each exporter a file of its own") from None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def is_lock(path: Path, descriptor: int) -> bool:
    """Whether a descriptor of `hold_lock` still holds the lock of the file: not if the lock file was deleted, as by
    who deletes a history and all that is beside it."""
    try:
        return os.path.samestat(os.stat(_lock_path(path)), os.fstat(descriptor))
    except OSError:
        return False


def _lock_path(path: Path) -> Path:
    return Path(f"{path}-lock")


def _decode_text(data: bytes) -> str:
    """A text of the file, also if it is damaged: SQLite does not check that it is UTF-8."""
    return data.decode("utf-8", "replace")


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """A transaction for writing, which an error rolls back."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _version(path: Path, database: sqlite3.Connection) -> int:
    """The version of a file, 0 if it is empty."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    tables = dict(database.execute("SELECT name, sql FROM sqlite_master"))
    if not tables and not application:
        return 0
    _refuse_version(path, application, version)
    for name in ("servers", "texts", "records", "events"):
        if " ".join(str(tables.get(name)).split()) not in _KNOWN:
            raise HistoryFileError(explain(path, sqlite3.DatabaseError("malformed schema")))
    return int(version)


def _refuse_version(path: Path, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise HistoryFileError(f"{path} is a database of another program; choose another file")
    if version < 1:
        raise HistoryFileError(explain(path, sqlite3.DatabaseError("malformed version")))
    if version > VERSION:
        raise HistoryFileError(
            f"{path} was written by a newer version of uwsgi-headroom; use that version, or choose another file"
        )


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except Failure as error:
        raise HistoryFileError(explain(path, error)) from None
    except OSError as error:
        raise HistoryFileError(f"{path}: {error.strerror or error}") from None


def explain(path: Path, error: Exception) -> str:
    """A failure of SQLite as a sentence with what to do."""
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


_ROWS = 200  # at a time


class StoredServer(Struct, frozen=True):
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
