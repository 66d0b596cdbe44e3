"""A damaged record costs itself only, and a damaged file is a sentence."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.store.test_database import NOON, minute, opened
from tools.support import stored_days
from uwsgi_headroom.documents.stored_history import build_stored_history
from uwsgi_headroom.errors import HeadroomError, HistoryFileError
from uwsgi_headroom.report.sources.history_file import load_history_files
from uwsgi_headroom.report.sources.time_range import TimeRange
from uwsgi_headroom.store.file import Failure, open_to_write
from uwsgi_headroom.store.layout import CHECKSUM_BYTES
from uwsgi_headroom.store.reader import HistoryFile
from uwsgi_headroom.store.tiers import DAY, TIERS

EARLIER_MINUTE = bytes.fromhex(
    "04809fa2bade9708000000000000809f49809f49809f49000000000000000000000000000000000000000000000000000202140000"
    "00809f49a29c01000000000000829f490202c0cf243f8a8b7b"
)
"""`minute(1, route="GET /")`, as a program of the layout before wrote it."""

END = 1_760_000_000 // 3600 * 3600
DAYS = 0.25


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of six hours."""
    path = tmp_path_factory.mktemp("whole") / "history.sqlite"
    stored_days.write(path, "shop", END, DAYS)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    return path.read_bytes()


def read_everything(path: Path) -> tuple[int, int]:
    """What every reader gets: the number of records, and of what is damaged. Raises HistoryFileError."""
    with HistoryFile(path, END) as file:
        for server in file.servers():
            file.reaches_back(server.name)
            file.events(server.name, 0, 1e12)
        records = sum(len(list(file.records("shop", 0, 1e12, tier.seconds))) for tier in TIERS)
        return records, file.damaged


def read_as_users_do(path: Path) -> None:
    """The page's chart and the report. Raises HeadroomError."""
    build_stored_history(path, "shop", 60.0, END - DAYS * DAY, END, END)
    load_history_files([path], lambda _end: TimeRange(END - 4 * 3600.0, END, "UTC"))


def flip(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randrange(1, 4)):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def damage_cells(path: Path, dice: random.Random) -> int:
    """Flip bits in the blobs of ten records and events, and in a name; how many records."""
    with closing(sqlite3.connect(path)) as database:
        for table, where, count in (("records", "(server, tier, slot)", 7), ("events", "(server, since, what)", 3)):
            query = f"SELECT {where[1:-1]}, data FROM {table} ORDER BY random() LIMIT {count}"
            for *key, data in database.execute(query).fetchall():
                values = f"UPDATE {table} SET data = ? WHERE {where} = (?, ?, ?)"
                database.execute(values, (flip(data, dice), *key))
        ((number, text),) = database.execute("SELECT id, CAST(text AS BLOB) FROM texts ORDER BY random() LIMIT 1")
        database.execute("UPDATE texts SET text = CAST(? AS TEXT) WHERE id = ?", (flip(text, dice), number))
        database.execute("UPDATE servers SET name = CAST(x'ff73' AS TEXT) WHERE id = 2")
        database.commit()
    return 7


@pytest.mark.parametrize("seed", range(4))
def test_damaged_cells_cost_themselves_only(tmp_path: Path, whole: bytes, seed: int) -> None:
    """All other records are read, and the page and the report are made."""
    path = tmp_path / "history.sqlite"
    path.write_bytes(whole)
    records, damaged = read_everything(path)
    assert damaged == 0
    lost = damage_cells(path, random.Random(seed))
    left, damaged = read_everything(path)
    assert left == records - lost
    assert lost <= damaged <= lost + 3
    read_as_users_do(path)


@pytest.mark.parametrize("read", [read_everything, read_as_users_do])
def test_damaged_pages_are_a_sentence(tmp_path: Path, whole: bytes, read: Callable[[Path], object]) -> None:
    """Whatever bytes of the file are wrong, reading it ends with figures or with HeadroomError; so does writing."""
    path = tmp_path / "history.sqlite"
    for seed in range(25):
        dice = random.Random(seed)
        path.write_bytes(whole)
        with path.open("r+b") as file:
            for _ in range(dice.choice((1, 20, 500))):
                file.seek(dice.randrange(len(whole)))
                file.write(dice.randbytes(dice.choice((1, 16))))
        with suppress(HeadroomError):
            read(path)
        with suppress(HistoryFileError, *Failure):
            opened(path).write([], END)
        for each in tmp_path.iterdir():
            each.unlink()


def test_a_record_in_another_place_is_damaged(tmp_path: Path) -> None:
    """Its key is not in the checksum."""
    path = tmp_path / "history.sqlite"
    database = opened(path)
    database.write([minute(1)], NOON + 60)
    database._connection.execute("UPDATE records SET slot = slot + 5000")
    with HistoryFile(path, NOON + DAY * 9) as file:
        assert list(file.records("shop", 0, 1e12, 60)) == []
        assert file.damaged == 1


def test_a_file_of_an_earlier_version(tmp_path: Path) -> None:
    """It is read as it is, and a writer converts it: names without a server, records without a checksum."""
    path = tmp_path / "history.sqlite"
    database = opened(path)
    database.write([minute(1, route="GET /")], NOON + 60)
    database.close()
    with closing(sqlite3.connect(path)) as earlier:
        without_checksum = b"\x02" + EARLIER_MINUTE[1:-CHECKSUM_BYTES]
        earlier.execute("UPDATE records SET data = ?", (without_checksum,))
        earlier.executescript(
            "ALTER TABLE texts RENAME TO later; "
            "CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, used INTEGER NOT NULL); "
            "INSERT INTO texts SELECT id, text, used FROM later; DROP TABLE later; PRAGMA user_version = 1"
        )

    def routes() -> list[list[str]]:
        with HistoryFile(path, NOON + DAY) as file:
            return [list(each.routes.seconds) for each in file.records("shop", 0, 1e12, 60) if each.routes]

    assert routes() == [["GET /"]]
    database = opened(path)
    database.write([minute(2, route="GET /"), minute(15)], NOON + 900)
    database.close()
    assert routes() == [["GET /"], ["GET /"]]
    with HistoryFile(path, NOON + DAY) as file:
        (quarter,) = file.records("shop", 0, 1e12, 900)
        assert quarter.routes is not None
        assert quarter.routes.seconds == {"GET /": 60.0}
    assert open_to_write(path).execute("PRAGMA user_version").fetchone() == (2,)


def test_an_index_that_returns_one_row_again(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a damaged index ends: a row that does not come after the one before is damage."""
    path = tmp_path / "history.sqlite"
    path.write_bytes(whole)
    with HistoryFile(path, NOON + DAY) as file:
        monkeypatch.setattr(file, "_rows", lambda *_: [(5, b"")])
        with pytest.raises(HistoryFileError, match="damaged"):
            list(file.records("s0", 0.0, NOON, 60))
