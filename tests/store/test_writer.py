"""The writer goes on whatever happens to its file, and says what is wrong."""

import json
import logging
import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from tests.documents.test_history import minute_at, opened
from tests.documents.test_openapi import validate
from tests.store.test_database import NOON, minute, requests
from tests.support.exporter import exporter
from tests.support.real_uwsgi import uwsgi, wait_until
from tests.test_end_to_end import ask
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store import writer as writer_module
from uwsgi_headroom.store.file import VERSION, HistoryFile, open_to_write
from uwsgi_headroom.store.writer import Database, HistoryWriter


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Attempts follow each other at once."""
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(writer_module, "_TOGETHER_SECONDS", 0.0)


@pytest.fixture
def begin():
    writers: list[HistoryWriter] = []

    def start(path: Path) -> HistoryWriter:
        writers.append(HistoryWriter(path, 10**9))
        return writers[-1]

    yield start
    for writer in writers:
        writer.close(10)
        assert not writer._thread.is_alive()


def put(writer: HistoryWriter, number: int) -> None:
    before = writer.written
    writer.put(minute(number))
    wait_until(lambda: writer.written > before, what=f"minute {number}")


def test_everything_that_was_put_is_written_at_the_end(path, begin):
    writer = begin(path)
    for number in range(1, 31):
        writer.put(minute(number))
    writer.close(10)
    assert len(requests(path, 60)) == 30
    assert (writer.problem, writer.dropped, writer.written) == ("", 0, 30)
    assert writer.since == {"shop": NOON + 60}
    assert writer.size > 0


def test_two_exporters_on_one_file(path, begin):
    first = begin(path)
    put(first, 1)
    second = begin(path)
    second.put(minute(2))
    wait_until(lambda: "another exporter writes" in second.problem, what="a problem")
    assert [end for end, _ in requests(path, 60)] == [1]
    first.close(10)
    wait_until(lambda: second.written == 1, what="the second minute")
    assert second.problem == ""
    assert [end for end, _ in requests(path, 60)] == [1, 2]


def test_a_history_that_was_deleted(path, begin):
    first = begin(path)
    put(first, 1)
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    second = begin(path)
    put(second, 2)
    first.put(minute(3))
    wait_until(lambda: "another exporter writes" in first.problem, what="a problem")
    assert [end for end, _ in requests(path, 60)] == [2]
    second.close(10)
    wait_until(lambda: first.written == 2, what="the third minute")
    assert [end for end, _ in requests(path, 60)] == [2, 3]


def write_garbage(path: Path) -> None:
    path.write_bytes(b"a text, and no database\n" * 200)


def write_foreign(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (id INTEGER)")


def write_newer(path: Path) -> None:
    with closing(open_to_write(path)) as database:  # else SQLite moves its journal into the file later
        database.execute(f"PRAGMA user_version = {VERSION + 1}")


def write_damaged(path: Path) -> None:
    database = Database(open_to_write(path), 10**9)
    database.write([minute(number) for number in range(1, 500)], NOON + 500 * 60)
    database.close()
    with path.open("r+b") as file:
        for page in range(1, os.path.getsize(path) // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 2048)


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (write_garbage, "is not a history file"),
        (write_foreign, "is a database of another program"),
        (write_newer, "was written by a newer version"),
        (write_damaged, "is damaged"),
        (lambda path: path.mkdir(), "Is a directory"),
    ],
)
def test_a_file_that_cannot_be_used(path, begin, prepare, says, caplog, monkeypatch):
    """It stays as it is, the log says why once, and once it is moved away, writing begins."""
    attempts, attempt = threading.Lock(), HistoryWriter._attempt

    def attempt_alone(writer: HistoryWriter) -> bool:
        with attempts:
            return attempt(writer)

    monkeypatch.setattr(HistoryWriter, "_attempt", attempt_alone)
    prepare(path)
    before = path.read_bytes() if path.is_file() else b""
    with caplog.at_level(logging.INFO):
        writer = begin(path)
        writer.put(minute(1))
        wait_until(lambda: says in writer.problem, what=f"{says!r}, not {writer.problem!r}")
        threading.Event().wait(0.1)  # several attempts
        with pytest.raises(HistoryFileError):
            requests(path, 60)
        assert (path.read_bytes() if path.is_file() else b"") == before
        with attempts:  # an attempt that loses its file midway has another reason
            path.rename(path.with_name("old"))
        wait_until(lambda: writer.written == 1, what="a new file")
    assert requests(path, 60) == [(1, 10)]
    assert caplog.messages == ["the history is not written", "the history is written again"]


def test_a_missing_directory(path, begin):
    """It is not created, because a mount may be missing; when it is there, writing begins."""
    writer = begin(path.parent / "missing" / "history")
    writer.put(minute(1))
    wait_until(lambda: "No such file or directory" in writer.problem, what="a problem")
    (path.parent / "missing").mkdir()
    wait_until(lambda: writer.written == 1, what="a file")


def test_a_full_disk(path, begin, monkeypatch):
    """Minutes wait in memory until there is room, the latest ones if they are too many."""

    def open_full(path: Path) -> sqlite3.Connection:
        connection = open_to_write(path)
        connection.execute("PRAGMA max_page_count = 8")
        return connection

    monkeypatch.setattr(writer_module, "open_to_write", open_full)
    writer = begin(path)
    for number in range(1, 2001):
        writer.put(minute(number))
    wait_until(lambda: "no space is left" in writer.problem, what="a full disk")
    for number in range(2001, 3000):
        writer.put(minute(number))
    monkeypatch.setattr(writer_module, "open_to_write", open_to_write)
    wait_until(lambda: not writer.problem, what="room")
    writer.close(10)
    ends = [end for end, _ in requests(path, 60)]
    assert ends[-1] == 2999
    assert writer.written == len(ends)
    assert writer.dropped == 2999 - len(ends) > 0


def test_a_disk_that_is_full_once_the_minutes_are_written(path, begin, monkeypatch):
    """A later attempt does not add them to themselves."""
    failures, fit = iter(range(5)), Database._fit

    def fit_full(database: Database) -> None:
        if next(failures, None) is not None:
            raise sqlite3.OperationalError("database or disk is full")
        fit(database)

    monkeypatch.setattr(Database, "_fit", fit_full)
    writer = begin(path)
    for number in (1, 2):
        put(writer, number)
    assert requests(path, 60) == [(1, 10), (2, 10)]
    assert (writer.written, writer.dropped) == (2, 0)


def test_a_file_that_is_moved_away(path, begin):
    writer = begin(path)
    put(writer, 1)
    path.rename(path.with_name("old"))
    put(writer, 2)
    writer.close(10)
    assert requests(path, 60) == [(2, 10)]
    assert writer.since == {"shop": NOON + 120}


def test_a_record_that_cannot_be_stored_is_dropped_and_counted(path, begin):
    bad = minute(1)
    force_setattr(bad.record.window, "seconds", float("nan"))
    writer = begin(path)
    writer.put(bad)
    writer.put(minute(2))
    writer.close(10)
    assert [end for end, _ in requests(path, 60)] == [2]
    assert writer.dropped == 1


def test_a_reader_beside_a_writer(path, begin):
    writer = begin(path)
    for number in range(1, 301):
        writer.put(minute(number))
    wait_until(lambda: writer.written == 300, what="300 minutes")
    with HistoryFile(path, NOON * 2.0) as file:
        records = file.records("shop", 0, NOON * 2, 60)
        next(records)
        for number in range(301, 311):
            writer.put(minute(number, route=f"GET /{number}"))
        wait_until(lambda: writer.written == 310, what="more minutes")
        assert len(list(records)) == 299


def test_only_its_user_and_group_can_open_it(path, begin):
    """Routes come from the paths of users' requests, and the lock needs no more than the right to read."""
    put(begin(path), 1)
    assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o640}


@pytest.mark.integration
def test_charts_go_on_after_a_restart(tmp_path):
    path = tmp_path / "history.sqlite"
    now = time.time()
    database = opened(path)
    database.write([minute_at(int(now) // 60 - number, 600) for number in range(2 * 1440, 1, -1)], now)
    database.close()
    with uwsgi("--processes", "2") as server:
        with exporter("--stats", f"shop={server.stats}", "--history", str(path)) as running:

            def document(what: str) -> dict[str, object]:
                return dict(json.loads(running.get(f"/api/v2/servers/shop{what}")[1]))

            wait_until(lambda: document("")["kept_history"]["since"], what="the reach of the file")
            whole = document("")
            validate(whole, "ServerDocument")
            assert whole["kept_history"] == {"since": (int(now) // 60 - 2880) * 60, "problem": None}
            hour, day = document("/history?seconds=3600"), document("/history?seconds=86400&points=288")
            validate(day, "HistoryDocument")
            assert hour["step"] == 60
            assert 55 <= len(hour["time"]) <= 60
            assert day["step"] == 300
            assert 284 <= len(day["time"]) <= 288
            assert set(day["throughput"]) == {10.0}
            assert running.get("/api/v2/servers/shop/history?seconds=1e9")[0] == 400
            series = running.scrape()
            assert series["uwsgi_exporter_history_written"] == 1
            assert series["uwsgi_exporter_history_size_bytes"] > 100_000
            ask(server, "/", times=20)
            wait_until(lambda: document("")["flow"] is not None, what="figures")
            time.sleep(1.0)
            running.process.terminate()
            running.process.wait(60)
        with exporter("--stats", f"shop={server.stats}", "--history", str(path)) as running:
            wait_until(lambda: document("")["kept_history"]["since"], what="the reach of the file")
            events = document("/journal?seconds=90000")["events"]
            assert [event["kind"] for event in events].count("exporter_started") == 2
            running.kill()
        assert sum(count for _, count in requests(path, 60)[-2:]) >= 20


@pytest.mark.integration
def test_an_exporter_beside_a_file_that_cannot_be_used(tmp_path):
    """The exporter samples and serves; the log, the API and a metric say that nothing is kept."""
    path = tmp_path / "history.sqlite"
    path.write_text("not a database " * 1000)
    with uwsgi("--processes", "2") as server, exporter("--stats", str(server.stats), "--history", str(path)) as running:
        wait_until(lambda: running.value("uwsgi_exporter_history_written") == 0, what="the metric")
        assert "is not a history file" in running.log.read_text()
        (name,) = [each["name"] for each in json.loads(running.get("/api/v2/servers")[1])["servers"]]
        kept = json.loads(running.get(f"/api/v2/servers/{name}")[1])["kept_history"]
        assert kept["since"] is None
        assert "is not a history file" in kept["problem"]
        assert running.get(f"/api/v2/servers/{name}/history?seconds=3600&points=60")[0] == 200
        status, body = running.get(f"/api/v2/servers/{name}/history?seconds=86400")
        assert (status, "is not a history file" in body) == (503, True)
        assert running.value("uwsgi_up") == 1


@pytest.mark.integration
def test_without_a_file(tmp_path):
    with uwsgi("--processes", "2") as server, exporter("--stats", f"shop={server.stats}") as running:
        assert json.loads(running.get("/api/v2/servers/shop")[1])["kept_history"] is None
        status, body = running.get("/api/v2/servers/shop/history?seconds=7200")
        assert (status, "3600" in body) == (400, True)
        assert not [name for name in running.scrape() if "history" in name]
    assert list(tmp_path.iterdir()) == []
