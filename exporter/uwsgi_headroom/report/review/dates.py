"""Writes times for people, in the time zone of the review."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from uwsgi_headroom.report.model import STEP


def day_words(time: float, zone: ZoneInfo) -> str:
    """A day: `3 March 2027`."""
    local = datetime.fromtimestamp(time, zone)
    return f"{local.day} {local:%B %Y}"


def short_day(time: float, zone: ZoneInfo) -> str:
    """A day: `3 Mar 2027`."""
    local = datetime.fromtimestamp(time, zone)
    return f"{local.day} {local:%b %Y}"


def quarter_words(until: float, zone: ZoneInfo) -> str:
    """The quarter hour that ends at a time: `Friday, 25 September 2026, 14:00 to 14:15`."""
    start, end = (datetime.fromtimestamp(time, zone) for time in (until - STEP, until))
    return f"{start:%A}, {start.day} {start:%B %Y}, {start:%H:%M} to {end:%H:%M}"


def moment_words(time: float, zone: ZoneInfo) -> str:
    """A time: `25 Sep 2026 14:15`."""
    local = datetime.fromtimestamp(time, zone)
    return f"{local.day} {local:%b %Y %H:%M}"
