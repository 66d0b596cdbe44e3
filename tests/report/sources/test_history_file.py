"""Loading from history files: what is in them, and what may be wrong with them."""

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.report.sources.records import make_minutes, write_history_file
from tests.support.synthetic import stories
from tests.support.synthetic.plan import History
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.errors import HeadroomError, HistoryFileError
from uwsgi_headroom.report.quarters import ReviewData, ServerHistory, count_requests, mean_busy
from uwsgi_headroom.report.sources.history_file import load_history_files
from uwsgi_headroom.report.sources.selection import TimeRange, find_range
from uwsgi_headroom.store.file import open_to_write
from uwsgi_headroom.store.record import Minute
from uwsgi_headroom.store.writer import Database

HISTORY = History(services=(replace(stories.STORY, servers=1, peak=83 / 6),), days=3 / 24)
SPAN = TimeRange(HISTORY.since, HISTORY.until, "UTC")
NAME = "shop-1"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A file with three hours of a server."""
    path = tmp_path_factory.mktemp("history") / "history.db"
    write_history_file(HISTORY, path)
    return path


@pytest.fixture
def path(written, tmp_path):
    """A copy of it."""
    copy = tmp_path / "history.db"
    shutil.copy(written, copy)
    return copy


def load(*paths: Path, span: TimeRange = SPAN, **options: object) -> ReviewData:
    """The data of files."""
    return load_history_files(paths, lambda _end: span, **options)


def requests_of(server: ServerHistory) -> list[int]:
    """By quarter."""
    return [count_requests(record.window) for record in server.quarters.values()]


def data_quarters(data: ReviewData) -> int:
    """How many the range has."""
    return round((data.until - data.since) / 900)


def execute(path: Path, *statements: str) -> None:
    """Change a file."""
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def test_quarters_are_what_happened(path):
    """And the server of a single file is a service of its own."""
    (server,) = load(path).servers
    (truth,) = make_review_data(HISTORY).servers
    assert list(server.quarters) == list(truth.quarters)
    for end, record in server.quarters.items():
        assert mean_busy(record) == pytest.approx(mean_busy(truth.quarters[end]), rel=0.01)
    assert (server.server, server.service, server.host) == (NAME, "", "")


def test_minutes_fill_the_quarters_that_are_not_merged_yet(path):
    """The exporter merges a quarter of an hour when the next one begins."""
    (whole,) = load(path).servers
    execute(
        path, "DELETE FROM records WHERE tier = 900 AND slot > (SELECT max(slot) - 4 FROM records WHERE tier = 900)"
    )
    (server,) = load(path).servers
    assert requests_of(server) == requests_of(whole)
    counts = [[sum(record.response_times.counts) for record in each.records] for each in (server, whole)]
    assert counts[0] == pytest.approx(counts[1])


def test_hours_fill_what_is_kept_no_finer(path):
    """Their sums are right; the peaks within an hour are not known any more."""
    (whole,) = load(path).servers
    execute(path, f"DELETE FROM records WHERE tier < 3600 AND slot * tier <= {HISTORY.since + 3600}")
    data = load(path)
    (server,) = data.servers
    assert not data.partial
    assert data.problems[0].startswith("shop-1: of the first 60 min, the file keeps hours only")
    assert len(set(requests_of(server)[:4])) == 1
    assert requests_of(server)[0] == sum(requests_of(whole)[:4])
    assert requests_of(server)[4:] == requests_of(whole)[4:]
    assert len(server.records) == len(whole.records) - 3


def test_several_files_are_machines_of_one_service(path, tmp_path):
    """The same file twice is one machine."""
    other = tmp_path / "web2.db"
    shutil.copy(path, other)
    data = load(path, other, path)
    assert [(each.server, each.service, each.host) for each in data.servers] == [
        ("shop-1 history", NAME, "history"),
        ("shop-1 web2", NAME, "web2"),
    ]


def test_the_range_ends_with_the_records(path):
    """A file that was copied from another machine has no present."""
    data = load_history_files([path], lambda end: find_range(3600, None, "UTC", end))
    assert data.until == HISTORY.until


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "No such file"),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), "history.db"),
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "a text": (lambda path: path.write_text("no database at all\n" * 99), "is not a history file"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_file_is_an_error(path, kind):
    """That names the file and what is wrong with it."""
    spoil, reason = WRONG[kind]
    spoil(path)
    with pytest.raises(HistoryFileError, match=reason) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_file_without_servers(tmp_path):
    """An exporter has just made it."""
    path = tmp_path / "history.db"
    Database(open_to_write(path), 10**9).close()
    with pytest.raises(HeadroomError, match="no server has been recorded yet"):
        load(path)


def test_a_damaged_record_leaves_the_rest(path):
    """The data says so; what it was made of fills the gap, if the file still has it."""
    slot = "(SELECT max(slot) - 2 FROM records WHERE tier = 900)"
    execute(path, f"UPDATE records SET data = x'ff' WHERE tier = 900 AND slot = {slot}")
    data = load(path)
    assert data.partial
    assert data.problems[0] == f"{NAME}: 1 record is damaged and left out."
    assert len(data.servers[0].quarters) == data_quarters(data)


def test_a_damaged_minute_does_not_hide_the_quarters(path):
    """The last minute says where the records end."""
    slot = "(SELECT max(slot) FROM records WHERE tier = 60)"
    execute(path, f"UPDATE records SET data = x'ff' WHERE tier = 60 AND slot = {slot}")
    data = load_history_files([path], lambda end: find_range(3600, None, "UTC", end))
    assert (data.until, data.partial) == (HISTORY.until, False)


def test_a_range_without_records(path):
    """The message says which there are."""
    early = TimeRange(HISTORY.since - 7200, HISTORY.since - 3600, "UTC")
    with pytest.raises(HeadroomError, match="no quarter of an hour was sampled") as caught:
        load(path, span=early)
    assert caught.value.details[0].startswith("The records of these servers are from 2026-09-27 21:")


def test_an_unknown_server(path):
    """An error that lists the known ones."""
    with pytest.raises(HeadroomError, match="no server shop in this range; did you mean shop-1"):
        load(path, servers=["shop"])


def in_future(minutes: Iterator[Minute], shift: int) -> Iterator[Minute]:
    """The same minutes, so many minutes later."""
    for each in minutes:
        record = each.record and replace(each.record, until=each.record.until + 60 * shift)
        yield each._replace(minute=each.minute + shift, record=record)


def test_an_exporter_with_a_clock_ahead(tmp_path):
    """Its records are of a time that is still to come here; the data says so."""
    path, shift = tmp_path / "history.db", int((time.time() - HISTORY.until) // 900 * 15) + 60
    database = Database(open_to_write(path), 10**9)
    database.write(list(in_future(make_minutes(HISTORY, HISTORY.services[0], 0, NAME), shift)), time.time() + 7200)
    database.close()
    data = load_history_files([path], lambda end: find_range(7200, None, "UTC", end))
    assert any("ahead of this machine's" in problem for problem in data.problems)
    assert len(data.servers[0].quarters) == data_quarters(data)


def test_a_quarter_that_was_sampled_for_less_than_half_is_unknown(path):
    """Its figures would be those of a few minutes."""
    slot = "(SELECT max(slot) FROM records WHERE tier = 900)"
    execute(
        path,
        f"DELETE FROM records WHERE tier = 60 AND slot > {slot} * 15 - 8",
        f"DELETE FROM records WHERE tier = 900 AND slot = {slot}",
    )
    (server,) = load(path).servers
    assert list(server.quarters) == [HISTORY.since + 900 * place for place in range(1, 12)]
    assert server.sampled == pytest.approx(11 * 900 + 7 * 60)
