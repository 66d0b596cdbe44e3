"""The columns of a server's history from its file: the same as from memory, over days, with gaps."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.documents.test_history import busy, columns
from tests.store.test_codec import full_record
from tests.store.test_database import minute
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.documents.history import build_stored_history, choose_tier
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store.database import Database
from uwsgi_headroom.store.file import open_to_write
from uwsgi_headroom.store.record import DAY, HOURS, MINUTES, QUARTERS, Minute
from uwsgi_headroom.store.writer import HistoryWriter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def opened(path: Path) -> Database:
    return Database(open_to_write(path), path, 10**9)


def test_it_is_the_history_in_memory(path: Path) -> None:
    """For a steady load, every column from the file has the value of the column from memory."""
    writer = HistoryWriter(path, 10**9, lambda: EPOCH + 600.0)
    watch, server = ScriptedWatch(writer=writer), Server(2, 4)
    watch.seconds(server, 600, lambda _: busy(server, 2, 1))
    writer.close(10)
    until = EPOCH + 600
    remembered = watch.history(300, 5)
    kept = build_stored_history(path, "shop", 60.0, until - 300, until, until)
    assert (kept.step, kept.since, kept.until) == (60, until - 300, until)
    assert len(kept.time) == 5
    assert {len(column) for column in columns(msgspec.to_builtins(kept))} == {5}
    middle = {
        name: value for name, value in msgspec.to_builtins(kept).items() if name not in ("time", "since", "until")
    }
    compared = 0
    for one, other in zip(
        columns(middle), columns({name: msgspec.to_builtins(remembered)[name] for name in middle}), strict=True
    ):
        if set(other) == {other[0]} and isinstance(other[0], float):
            assert one == pytest.approx(other, rel=0.001), (one, other)
            compared += 1
    assert compared > 20
    assert kept.response_times.requests == [180] * 5


def test_slices_are_sums_of_minutes(path: Path) -> None:
    """A slice of five minutes has the requests of five; one that has not ended is left out."""
    now = time.time() // 300 * 300
    database = opened(path)
    first = int(now) // 60 - 20
    database.write([minute_at(first + number, 60 * number) for number in range(1, 18)], now)
    kept = build_stored_history(path, "shop", 300.0, now - 1200, now, now)
    assert kept.time == [now - 900, now - 600, now - 300]
    assert kept.throughput == [3.0, 8.0, 13.0]


def minute_at(number: int, requests: int) -> Minute:
    """The minute that ends `number` minutes after the epoch."""
    made = minute(0, requests)
    assert made.record is not None
    window = replace(made.record.window, until=number * 60.0)
    return Minute("shop", number, replace(made.record, until=number * 60.0, window=window))


def test_a_gap_is_empty(path: Path) -> None:
    """Minutes that the exporter missed have no slices; a record over an outage has no figures."""
    now = time.time() // 60 * 60
    number = int(now) // 60
    outage = minute_at(number - 5, 600)
    assert outage.record is not None
    window = replace(outage.record.window, seconds=600.0, observed_seconds=60.0, gap_seconds=540.0, reloads=1)
    opened(path).write(
        [minute_at(number - 20, 60), Minute("shop", number - 5, replace(outage.record, window=window))], now
    )
    kept = build_stored_history(path, "shop", 60.0, now - 3600, now, now)
    assert kept.time == [now - 1200, now - 300]
    assert kept.throughput == [1.0, None]
    assert kept.events.reloads == [0, 1]


@pytest.mark.parametrize(
    ("step", "age", "tier"),
    [
        (60, DAY, MINUTES),
        (300, 13 * DAY, MINUTES),
        (60, 20 * DAY, QUARTERS),
        (900, DAY, QUARTERS),
        (1800, 7 * DAY, QUARTERS),
        (7200, 30 * DAY, HOURS),
        (60, 200 * DAY, HOURS),
        (60, 3000 * DAY, HOURS),
    ],
)
def test_the_tier(step: float, age: float, tier: object) -> None:
    """The longest records that are not longer than a slice, and none that have been forgotten."""
    now = 1_800_000_000.0
    assert choose_tier(step, now - age, now) == tier


def test_older_than_the_minutes(path: Path) -> None:
    """Where only quarters are kept, slices are quarters, and the document says so."""
    now = time.time() // 3600 * 3600
    first = int(now - 20 * DAY) // 60
    opened(path).write([minute_at(first + number, 60) for number in range(1, 61)], now - 20 * DAY + 3600)
    kept = build_stored_history(path, "shop", 60.0, first * 60, first * 60 + 3600, now)
    assert kept.step == 900
    assert len(kept.time) == 4


def test_names_of_all_parts(path: Path) -> None:
    """Workers, sockets, backends and routes of any part have a column; it is null where they were not."""
    now = time.time() // 60 * 60
    number = int(now) // 60
    full = replace(full_record(), until=now - 60)
    opened(path).write([minute_at(number - 2, 60), Minute("shop", number - 1, full)], now)
    kept = build_stored_history(path, "shop", 60.0, now - 600, now, now)
    assert [worker.worker_id for worker in kept.workers] == [1, 2]
    assert kept.workers[1].share[0] is None
    assert kept.workers[1].share[1] == pytest.approx(2 / 3, abs=1e-4)
    assert kept.waits.backend_names == ("db",)
    assert kept.waits.backends == [[None, 1.0]]
    assert kept.routes is not None
    assert kept.routes.routes == ("GET /", "other")
    assert kept.routes.threads[0] == [None, 0.2]
    assert [socket.name for socket in kept.sockets] == ["socket"]
    assert {len(column) for column in columns(msgspec.to_builtins(kept))} == {2}


def test_of_a_server_that_the_file_does_not_know(path: Path) -> None:
    """There are no slices; without a file there is an error with its path."""
    opened(path)
    assert build_stored_history(path, "nobody", 60.0, 0, time.time(), time.time()).time == []
    with pytest.raises(HistoryFileError, match=r"missing\.sqlite: No such file"):
        build_stored_history(path.with_name("missing.sqlite"), "shop", 60.0, 0, 1, 1)
