"""What a clock that was years ahead has left in a history file costs nothing but itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.test_database import NOON, minute, opened, pass_hour, requests
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.store.database import Database
from uwsgi_headroom.store.file import HistoryFile
from uwsgi_headroom.store.record import DAY, HOURS, Minute

AHEAD = 4 * 365 * DAY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def write_ahead(path: Path, ahead: int = AHEAD) -> None:
    """Five minutes at the start of a machine whose clock is not set yet."""
    database = opened(path)
    numbers = range(ahead // 60, ahead // 60 + 5)
    event = Event(id=1, time=NOON + ahead, since=NOON + ahead, kind="exporter_started", title="Started.")
    database.write([minute(number) for number in numbers], NOON + ahead + 300.0)
    database.write([Minute("shop", NOON // 60 + ahead // 60, None, [event])], NOON + ahead + 300.0)
    database.close()


def write_hours(database: Database, first: int, last: int) -> None:
    for hour in range(first, last):
        database.write([minute(hour * 60 + number) for number in range(1, 61)], NOON + (hour + 1) * 3600.0)


def test_later_records_are_not_read(path: Path) -> None:
    """The server reaches until now, and has no events of another time."""
    write_ahead(path)
    write_hours(opened(path), 0, 2)
    with HistoryFile(path, NOON + 7200.0) as file:
        (server,) = file.servers()
        assert (server.first, server.last) == (NOON + 60, NOON + 7200)
        assert len(list(file.records("shop", 0, 1e11, 60))) == 120
        assert file.events("shop", 0, 1e11) == []


def test_only_later_records(path: Path) -> None:
    """Then there is no server yet, and a reader can say why."""
    write_ahead(path)
    with HistoryFile(path, NOON + 7200.0) as file:
        assert file.servers() == []
        assert file.has_later()


def test_minutes_of_an_earlier_writer_are_merged(path: Path) -> None:
    """A later quarter does not hide them."""
    write_ahead(path)
    first = opened(path)
    first.write([minute(number) for number in (1, 2, 3)], NOON + 180)
    first.close()
    opened(path).write([minute(16)], NOON + 960)
    with HistoryFile(path, NOON + 960.0) as file:
        assert [record.until for record in file.records("shop", 0, 1e11, 900)] == [NOON + 180]


def test_later_records_are_deleted(path: Path) -> None:
    """Once the clock has been steady for an hour, and most records are earlier."""
    write_ahead(path)
    database = opened(path)
    write_hours(database, 0, 1)
    pass_hour(database, NOON + 3600)
    assert [end for end, _ in requests(path, 60)] == list(range(1, 61))
    with HistoryFile(path, 1e11) as file:
        assert not file.has_later()
        assert file.events("shop", 0, 1e11) == []


def test_a_clock_that_is_behind_deletes_nothing(path: Path) -> None:
    """Most records are later then: it is the clock that is wrong."""
    database = opened(path)
    write_hours(database, 0, 3)
    write_hours(database, -24000, -23999)
    pass_hour(database, NOON - 23999 * 3600.0)
    with HistoryFile(path, NOON + 3 * 3600.0) as file:
        assert len(list(file.records("shop", NOON, 1e11, HOURS.seconds))) == 3


def test_a_limit_beside_later_records(path: Path) -> None:
    """It shortens by records, not by the time that they seem to span."""
    write_ahead(path)
    database = opened(path, 500_000)
    write_hours(database, 0, 40)
    assert [end for end, _ in requests(path, 60)][-1440:] == list(range(961, 2401))


def test_a_clock_that_is_set_back_replaces_no_quarter(path: Path) -> None:
    """A slot whose minutes are forgotten is not made anew of the one that the clock adds to it."""
    database = opened(path)
    write_hours(database, 0, 1)
    database._connection.execute("DELETE FROM records WHERE tier = 60")
    database.write([minute(20)], NOON + 20 * 60.0)
    database.write([minute(61)], NOON + 7200.0)
    assert requests(path, 900)[:4] == [(15, 150), (30, 150), (45, 150), (60, 150)]
    assert requests(path, 3600)[0] == (60, 600)
