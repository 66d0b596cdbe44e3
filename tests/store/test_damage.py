"""A damaged record costs itself only, and a damaged file is a sentence."""

import json
import os
import random
import sqlite3
import zlib
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import force_setattr

from tests.store.test_database import NOON, minute, opened, requests
from tests.support import stored_days
from uwsgi_headroom.documents.history import build_stored_history
from uwsgi_headroom.errors import HeadroomError, HistoryFileError
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.report.sources.history_file import load_history_files
from uwsgi_headroom.report.sources.selection import TimeRange
from uwsgi_headroom.store import file as file_module
from uwsgi_headroom.store.file import Failure, HistoryFile, open_to_write
from uwsgi_headroom.store.record import DAY, TIERS, Minute

END = 1_760_000_000 // 3600 * 3600
DAYS = 4 / 24


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "history.sqlite"
    stored_days.write(path, "shop", END, DAYS)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    return path.read_bytes()


@pytest.fixture
def path(tmp_path, whole):
    path = tmp_path / "history.sqlite"
    path.write_bytes(whole)
    return path


def read_everything(path: Path) -> tuple[int, int]:
    """What every reader gets: the number of records, and of what is damaged. Raises HistoryFileError."""
    with HistoryFile(path, END) as file:
        for server in file.servers():
            file.reach(server.name)
            file.events(server.name, 0, 1e12)
        records = sum(len(list(file.records("shop", 0, 1e12, tier.seconds))) for tier in TIERS)
        return records, file.damaged


def read_as_users_do(path: Path) -> None:
    build_stored_history(path, "shop", 60.0, END - DAYS * DAY, END, END)
    load_history_files([path], lambda _end: TimeRange(END - 4 * 3600.0, END, "UTC"))


def flip(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for bit in dice.sample(range(8 * len(changed)), dice.randrange(1, 4)):  # different ones: none is flipped back
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def damage_cells(path: Path, dice: random.Random) -> int:
    """Flip bits in the blobs of ten records and events, and damage a name; how many records."""
    with closing(sqlite3.connect(path)) as database:
        for table, where, count in (("records", "(server, tier, slot)", 7), ("events", "(server, since, what)", 3)):
            rows = database.execute(f"SELECT {where[1:-1]}, data FROM {table} ORDER BY {where[1:-1]}").fetchall()
            for *key, data in dice.sample(rows, count):
                values = f"UPDATE {table} SET data = ? WHERE {where} = (?, ?, ?)"
                database.execute(values, (flip(data, dice), *key))
        database.execute("UPDATE servers SET name = CAST(x'ff73' AS TEXT) WHERE id = 2")
        database.commit()
    return 7


@pytest.mark.parametrize("seed", range(2))
def test_damaged_cells_cost_themselves_only(path, seed):
    records, damaged = read_everything(path)
    assert damaged == 0
    lost = damage_cells(path, random.Random(seed))
    left, damaged = read_everything(path)
    assert left == records - lost
    assert lost <= damaged <= lost + 3
    read_as_users_do(path)


ANY = (
    *(None, 0, -1, 7, 2**63 - 1, -(2**63), 1.5, 1e308, float("inf"), float("-inf")),
    *("", "12", "a\0b\n\x1b[31m", "x" * 1_000_000, b"", b"\xff\xfe\x80", b"\x01" * 3000),
    *(zlib.compress(bytes(10**8)), b"\x02" + b"\x80" * 3_000_000),
)
"""A value of each type, for any column. The last two are large ones for the codec."""

ABSURD = (-1, -(10**12), 10**6, 10**12, 2**64 - 1, 1.5, None, "x", [], {}, [1] * 1000)
"""For a place in a record."""

COLUMNS = {
    "servers": ("rowid", ("id", "name")),
    "records": ("server, tier, slot", ("server", "tier", "slot", "data")),
    "events": ("server, since, what", ("server", "since", "what", "time", "data")),
}
"""The key and the columns of each table."""


def list_values(column: str, old: object, dice: random.Random) -> list[object]:
    values = list(ANY)
    if not isinstance(old, bytes):
        return values
    values += [old[: dice.randrange(len(old))], flip(old, dice), old * 2, old.decode("latin-1")]
    if old.startswith(b"{"):
        deep = b"[" * 100_000 + b"]" * 100_000
        return [*values, old[:-1] + b',"more":' + deep + b"}", b"null", old.replace(b'"id":', b'"id":' + b"9" * 30)]
    for absurd in ABSURD * 8:
        parts = msgspec.msgpack.decode(zlib.decompress(old))
        part = dice.choice([parts, *(part for part in (*parts, *parts[8]) if isinstance(part, list) and part)])
        part[dice.randrange(len(part))] = absurd
        values.append(zlib.compress(msgspec.msgpack.encode(parts)))
    return values


def damage_column(path: Path, table: str, column: str, dice: random.Random) -> int:
    """Put each value into a row of its own, as far as there are rows that no value was put into; how many."""
    key = COLUMNS[table][0]
    done = 0
    with closing(sqlite3.connect(path)) as database:
        ((schema,),) = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchall()
        _set_schema(database, table, schema.replace("NOT NULL", ""))
    with closing(sqlite3.connect(path)) as database:
        where = "WHERE name <> 'shop'" if table == "servers" else ""
        rows = database.execute(f"SELECT {key}, {column} FROM {table} {where}").fetchall()
        dice.shuffle(rows)
        change = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE ({key}) = ({', '.join('?' * len(key.split(',')))})"
        for (*place, _), value in zip(rows, list_values(column, rows[0][-1], dice), strict=False):
            with suppress(sqlite3.Error):  # SQLite refuses some for a key
                done += database.execute(change, (value, *place)).rowcount
        database.commit()
        _set_schema(database, table, schema)
    return done


def _set_schema(database: sqlite3.Connection, table: str, sql: str) -> None:
    database.execute("PRAGMA writable_schema = ON")
    database.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, table))
    database.commit()


@pytest.mark.parametrize(("table", "column"), [(table, each) for table, (_, some) in COLUMNS.items() for each in some])
def test_any_value_in_any_column(path, table, column):
    """All other rows are read, page, journal and report are made or refused with a sentence, and a writer goes on."""
    with closing(sqlite3.connect(path)) as database:
        other = [(number, f"other {number}") for number in range(2, 2 + len(ANY))]
        database.executemany("INSERT INTO servers VALUES (?, ?)", other)
        database.execute("INSERT INTO records SELECT 2, tier, slot, data FROM records WHERE tier > 60")
        database.commit()
    records, _ = read_everything(path)
    lost = damage_column(path, table, column, random.Random(f"{table} {column}"))
    assert lost
    with HistoryFile(path, END) as file:
        for server in file.servers():
            page = file.latest_events(server.name, 0, (float("inf"), 0), 100)
            msgspec.json.encode([page, file.events(server.name, 0, 1e12)])
    left, _ = read_everything(path)
    assert left >= records - (lost if table == "records" else 0)
    with suppress(HeadroomError):
        read_as_users_do(path)
    for size in (10**9, 100_000):
        database = opened(path, size)
        with suppress(*Failure):
            for time in (0, 60, 3700, 7400):
                database.write([], END + time)
        database.close()


def test_no_more_rows_are_read_than_a_tier_has(path, monkeypatch):
    monkeypatch.setattr(file_module, "_MOST_ROWS", 50)
    with HistoryFile(path, END) as file:
        assert len(list(file.records("shop", 0, 1e12, 60))) == 50


IMPOSSIBLE = ("abc", b"\xff", 1.5, -1, 0, 10**12, 2**63 - 1, float("inf"), float("-inf"))


@pytest.mark.parametrize("tier", [tier.seconds for tier in TIERS])
@pytest.mark.parametrize("value", IMPOSSIBLE)
def test_an_impossible_slot_costs_one_record(path, value, tier):
    """The rest is read, the server reaches as far as before, and a writer goes on, also in a full file."""
    with HistoryFile(path, END) as file:
        before, (server,) = len(list(file.records("shop", 0, 1e12, tier))), file.servers()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(
            "UPDATE records SET slot = ?1 WHERE tier = ?2 AND slot = "
            "(SELECT slot FROM records WHERE tier = ?2 ORDER BY slot LIMIT 1 OFFSET 3)",
            (value, tier),
        )
        raw.commit()
    with HistoryFile(path, END) as file:
        assert len(list(file.records("shop", 0, 1e12, tier))) == before - 1
        assert file.servers() == [server]
    database = opened(path, 300_000)
    database.write([minute(number) for number in range(1, 31)], NOON + 1800.0)
    database.close()
    with HistoryFile(path, NOON + DAY) as file:
        assert len(list(file.records("shop", NOON, 1e12, 900))) == 2


@pytest.mark.parametrize("value", IMPOSSIBLE)
def test_a_full_file_with_records_of_no_server(path, value):
    """A file that is full is shortened, whatever the server of a row is."""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE records SET server = ? WHERE tier = 3600 AND slot % 2", (value,))
        raw.commit()
    database = opened(path, 200_000)
    database.write([minute(1)], NOON + 60.0)
    assert database.size <= 200_000


def test_a_slot_out_of_order_costs_one_record(tmp_path):
    """As a bit that changes on the disk makes it: SQLite's order of the rows is then that of their places."""
    path = tmp_path / "history.sqlite"
    database = opened(path)
    database.write([minute(number) for number in range(1, 31)], NOON + 1800.0)
    database._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    content = path.read_bytes()
    for changed in (NOON // 60 + 10 ^ 1 << 20, NOON // 60 + 10 ^ 1 << 30):
        key = (NOON // 60 + 10).to_bytes(4, "big")
        assert content.count(key) == 1
        path.write_bytes(content.replace(key, changed.to_bytes(4, "big")))
        with HistoryFile(path, NOON + DAY) as file:
            assert len(list(file.records("shop", 0, 1e12, 60))) == 29
            assert file.damaged <= 1  # one that is later than now is ignored


def test_a_page_of_the_journal_after_a_damaged_event(tmp_path):
    """The next page begins where this one ends, so an event with another time would hide all in between."""
    path = tmp_path / "history.sqlite"
    database = opened(path)
    events = [Event(id=at, time=NOON + at, since=NOON + at, kind="reload", title="x") for at in range(1, 10)]
    database.write([Minute("shop", NOON // 60, None, events)], NOON + 60)
    damaged = msgspec.to_builtins(events[5]) | {"time": 1.0}
    database._connection.execute("UPDATE events SET data = ? WHERE time = ?", (json.dumps(damaged), events[5].time))
    found: list[int] = []
    with HistoryFile(path, NOON + DAY) as file:
        cursor = (float("inf"), 0)
        while page := file.latest_events("shop", 0, cursor, 2):
            found += [event.id for event in page]
            cursor = page[-1].time, page[-1].id
        assert [event.id for event in file.events("shop", 0, 1e12)] == [1, 2, 3, 4, 5, 7, 8, 9]
    assert found == [9, 8, 7, 5, 4, 3, 2, 1]


def test_a_sum_that_is_too_large_costs_one_record(tmp_path):
    """The minutes of a quarter are possible, and their sum is not: the writer goes on."""
    path = tmp_path / "history.sqlite"
    database = opened(path)
    parts = [minute(number) for number in (1, 2, 3, 16)]
    for each in parts[:3]:
        force_setattr(each.record.window, "gap_seconds", 9e14)
    database.write(parts, NOON + 1800.0)
    assert [end for end, _ in requests(path, 60)] == [1, 2, 3, 16]
    assert [end for end, _ in requests(path, 900)] == [16]


VIEW = "DROP TABLE servers; CREATE VIEW servers AS SELECT 1 AS id, 'shop' AS name"
"""A file of another machine may have one that has no end."""


@pytest.mark.parametrize("change", ["PRAGMA user_version = 0", "PRAGMA user_version = -1", VIEW])
def test_an_impossible_schema_is_damage(path, change):
    """It is neither an empty file nor one of an earlier version, and none of it is read."""
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(change)
    for use in (open_to_write, read_everything):
        with pytest.raises(HistoryFileError, match=r"is damaged \(malformed schema\); move it away"):
            use(path)


def test_a_pipe_in_the_place_of_a_file(tmp_path):
    os.mkfifo(tmp_path / "history.sqlite")
    with pytest.raises(HistoryFileError, match="not an ordinary file"):
        HistoryFile(tmp_path / "history.sqlite", END)


@pytest.mark.parametrize("read", [read_everything, read_as_users_do])
def test_damaged_pages_are_a_sentence(tmp_path, whole, read):
    path = tmp_path / "history.sqlite"
    for seed in range(5):
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
