"""Which servers and quarters of an hour a review covers, and sentences about what is doubtful in them."""

import argparse
from datetime import datetime, timezone
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.report.changes import change_server, scaled_busy
from tests.support.synthetic import stories
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.report.quarters import ServerHistory
from uwsgi_headroom.report.request import parse_range
from uwsgi_headroom.report.sources.selection import (
    TimeRange,
    describe_clock,
    find_range,
    find_zone,
    list_problems,
    select_servers,
)


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
SPAN = TimeRange(DATA.since, DATA.until, "UTC")


def only(server: ServerHistory, first: int, last: int) -> ServerHistory:
    """A server that has data for some quarters only."""
    return replace(server, quarters=dict(list(server.quarters.items())[first:last]))


def test_complete_data_has_no_problems():
    """Nothing is said about equal servers of different hosts either."""
    assert list_problems(DATA.servers, SPAN) == []


def test_missing_data():
    """How much, and where the rest is, in local time."""
    one, two, *_ = DATA.servers
    problems = list_problems([only(one, 96, 288), only(two, 0, 0)], replace(SPAN, zone="Europe/Berlin"))
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
    problems = list_problems([one, other], SPAN)
    assert list_problems([one, change_server(other, scaled_busy(2.0))], SPAN) == []
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
