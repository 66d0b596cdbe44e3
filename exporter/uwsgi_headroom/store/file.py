"""Opens history files: SQLite databases with records, events and texts. Raises HistoryFileError with a sentence.

Only one process writes to a file: it holds a lock on another file beside it, because SQLite's own locks are held only
during a transaction. Readers need no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from uwsgi_headroom.errors import HistoryFileError

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
