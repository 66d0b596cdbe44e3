"""Which quarters of an hour a review covers."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path

import pytest

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.report.request import parse_range
from uwsgi_headroom.report.sources.selection import find_range, find_zone

NOW = datetime(2026, 11, 22, 22, 10, 33, tzinfo=timezone.utc).timestamp()
DAY = 86400.0


def epoch(text: str) -> float:
    """A time in UTC as epoch seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


def test_a_range_ends_with_the_last_complete_quarter_of_an_hour() -> None:
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
def test_an_end_as_people_write_it(text: str, zone: str, end: str) -> None:
    """In the time zone of the review, unless it has one of its own."""
    assert find_range(DAY, text, zone, NOW).until == epoch(end)


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01", "2027-01-01", "0001-01-01", "9999-12-31", "1e9", ""])
def test_a_wrong_end_is_an_error(text: str) -> None:
    """Also one in the future, which has no data."""
    with pytest.raises(ConfigError, match="--until"):
        find_range(DAY, text, "UTC", NOW)


def test_a_wrong_time_zone_is_an_error() -> None:
    """With an example."""
    for name in ("Mars/Base", "", "../etc/passwd", "/etc/localtime"):
        with pytest.raises(ConfigError, match="Europe/Berlin"):
            find_zone(name)
    assert find_zone("Asia/Kathmandu") == "Asia/Kathmandu"


def test_without_a_time_zone_that_of_the_machine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or of the shell; what is no name counts as UTC."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    assert find_zone(None) == "Asia/Kathmandu"
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    monkeypatch.setattr("pathlib.Path.resolve", lambda _path: Path("/etc/localtime"))
    assert find_zone(None) == "UTC"


def test_lengths_of_ranges() -> None:
    """With a unit, since 30 may be days or hours."""
    assert [parse_range(text) for text in ("36h", "30d", "12w")] == [36 * 3600, 30 * DAY, 84 * DAY]
    for text in ("30", "5m", "3y", "-1d", "1.5d", "d", "", "9999999d"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_range(text)
