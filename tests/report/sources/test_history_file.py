"""Loading from history files: what is in them, and what may be wrong with them."""

import argparse
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.report.changes import change_server, scaled_busy
from tests.report.sources.records import make_minutes, write_history_file
from tests.support.synthetic import stories
from tests.support.synthetic.plan import History
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.errors import ConfigError, HeadroomError, HistoryFileError
from uwsgi_headroom.report.quarters import ReviewData, ServerHistory, count_requests, mean_busy
from uwsgi_headroom.report.request import parse_range
from uwsgi_headroom.report.sources.history_file import load_history_files
from uwsgi_headroom.report.sources.selection import (
    TimeRange,
    describe_clock,
    find_range,
    find_zone,
    list_problems,
    select_servers,
)
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
    return [count_requests(record) for record in server.quarters.values()]


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


class Known(Struct, frozen=True):
    """A server."""

    name: str
    service: str


FOUND = [Known("shop web1", "shop"), Known("shop web2", "shop"), Known("admin", "")]


def test_servers_and_services_add_up():
    """Without names, all are chosen."""
    assert select_servers(FOUND, [], [], 1) == FOUND
    assert select_servers(FOUND, ["admin"], ["shop"], 1) == FOUND
    assert select_servers(FOUND, [], ["shop"], 1) == FOUND[:2]


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    """A misspelt name must not give an empty report."""
    with pytest.raises(HeadroomError, match="no service shopp in this range; did you mean shop") as caught:
        select_servers(FOUND, [], ["shopp"], 1)
    assert caught.value.details == ["It has: shop"]


DATA = make_review_data(stories.story(days=4))
WHOLE = TimeRange(DATA.since, DATA.until, "UTC")


def only(server: ServerHistory, first: int, last: int) -> ServerHistory:
    """A server that has data for some quarters only."""
    return replace(server, quarters=dict(list(server.quarters.items())[first:last]))


def test_complete_data_has_no_problems():
    """Nothing is said about equal servers of different hosts either."""
    assert list_problems(DATA.servers, WHOLE) == []


def test_missing_data():
    """How much, and where the rest is, in local time."""
    one, two, *_ = DATA.servers
    problems = list_problems([only(one, 96, 288), only(two, 0, 0)], replace(WHOLE, zone="Europe/Berlin"))
    assert problems[0] == (
        "shop-1: no data for 2 d of 4 d; it has data from 2026-09-25 02:00 to 2026-09-27 02:00, 100 % of that time."
    )
    assert problems[1].startswith("shop-2: no quarter of an hour")


def test_too_many_servers_are_refused():
    """Before memory runs out."""
    assert select_servers(FOUND * 11, [], [], 90 * 96)
    with pytest.raises(HeadroomError, match="36 servers over 90 days are too much at once: choose up to 34"):
        select_servers(FOUND * 12, [], [], 90 * 96)


def test_a_server_that_is_recorded_twice():
    """Its load would count twice."""
    one, two, *_ = DATA.servers
    other = change_server(replace(two, host=one.host), scaled_busy(1.001))
    problems = list_problems([one, other], WHOLE)
    assert list_problems([one, change_server(other, scaled_busy(2.0))], WHOLE) == []
    assert len(problems) == 1
    assert "choose one of the two with --server" in problems[0]


def test_clocks_apart():
    """Less than a minute does not matter."""
    assert describe_clock(-59.0, "Prometheus") == ""
    assert describe_clock(-600.0, "Prometheus").startswith("The clock of Prometheus is 10 min behind this machine's.")


NOW = datetime(2026, 11, 22, 22, 10, 33, tzinfo=timezone.utc).timestamp()
DAY = 86400.0


def epoch(text: str) -> float:
    """A time in UTC as epoch seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


def test_a_range_ends_with_the_last_complete_quarter_of_an_hour():
    """Columns have values for whole quarters only."""
    span = find_range(30 * DAY, None, "UTC", NOW)
    assert (span.since, span.until) == (epoch("2026-10-23 22:00"), epoch("2026-11-22 22:00"))


@pytest.mark.parametrize(
    ("text", "zone", "end"),
    [
        ("2026-10-01", "UTC", "2026-10-01 00:00"),
        ("2026-10-01", "Europe/Berlin", "2026-09-30 22:00"),
        ("2026-10-01T12:34", "Asia/Kathmandu", "2026-10-01 06:45"),
        ("2026-10-01T12:00Z", "Europe/Berlin", "2026-10-01 12:00"),
        ("2026-10-01 12:00+02:00", "UTC", "2026-10-01 10:00"),
        ("1790000000", "UTC", "2026-09-21 14:00"),
        # The hour from 2:00 to 3:00 is missing on one night of a year, and comes twice on another.
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29 01:30"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25 00:30"),
    ],
)
def test_an_end_as_people_write_it(text, zone, end):
    """In the time zone of the review, unless it has one of its own."""
    assert find_range(DAY, text, zone, NOW).until == epoch(end)


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01", "2027-01-01", "0001-01-01", "9999-12-31", "1e9", ""])
def test_a_wrong_end_is_an_error(text):
    """Also one in the future, which has no data."""
    with pytest.raises(ConfigError, match="--until"):
        find_range(DAY, text, "UTC", NOW)


def test_a_wrong_time_zone_is_an_error():
    """With an example."""
    for name in ("Mars/Base", "", "../etc/passwd", "/etc/localtime"):
        with pytest.raises(ConfigError, match="Europe/Berlin"):
            find_zone(name)
    assert find_zone("Asia/Kathmandu") == "Asia/Kathmandu"


def test_without_a_time_zone_that_of_the_machine_is_used(monkeypatch):
    """Or of the shell; what is no name counts as UTC."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    assert find_zone(None) == "Asia/Kathmandu"
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    monkeypatch.setattr("pathlib.Path.resolve", lambda _path: Path("/etc/localtime"))
    assert find_zone(None) == "UTC"


def test_lengths_of_ranges():
    """With a unit, since 30 may be days or hours."""
    assert [parse_range(text) for text in ("36h", "1.5d", "12w")] == [36 * 3600, 36 * 3600, 84 * DAY]
    for text in ("30", "5m", "3y", "-1d", "d", "", "9999999d"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_range(text)
