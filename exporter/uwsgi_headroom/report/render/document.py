"""The parts of a written report, of which HTML and Markdown are made. Text is plain, with `code` in backticks; single
figures are words, and an unknown one is a dash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.report.quarters import STEP, Absent
from uwsgi_headroom.words import formats

T = TypeVar("T")


class Text(Struct, frozen=True):
    """A paragraph. tone: "answer" for the result, "absent" for why something is missing."""

    text: str
    tone: str = ""


class Heading(Struct, frozen=True):
    """A heading within a section, such as the name of a service. chip: a word beside it; judgement: its colour."""

    text: str
    chip: str = ""
    judgement: str = ""


class Items(Struct, frozen=True):
    """A list. Each item is a text, or a word and what it means."""

    items: Sequence[str | tuple[str, str]]


class Table(Struct, frozen=True):
    """A table. numbers: the columns that are aligned to the right. strong: the rows to emphasize. style: "advice" for a
    recommendation. shades: for each cell, its colour; empty for none."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers: Sequence[int] = ()
    strong: Sequence[int] = ()
    style: str = ""
    shades: Sequence[Sequence[str]] = ()


class Chart(Struct, frozen=True):
    """A picture; a table with the same figures follows, for forms without pictures. words: what it shows, for readers
    without it; svg: the element."""

    words: str
    svg: str


Block = Text | Heading | Items | Table | Chart


class Section(Struct, frozen=True):
    """A section of the report. introduction: a sentence that says what it answers."""

    title: str
    introduction: str
    blocks: Sequence[Block]


class Document(Struct, frozen=True):
    """A report. The first section is page one."""

    title: str
    subtitle: str
    sections: Sequence[Section]


def absent(missing: Absent) -> Text:
    return Text(missing.reason, "absent")


UNKNOWN = "-"


def amount(value: float | None) -> str:
    """A number with three digits, or all of its whole part: 62.4, 8.30, 12,345; without decimals if it is whole."""
    if value is None:
        return UNKNOWN
    return formats.fixed(value, grouped=True) if value == round(value) else formats.amount(value)


def show(form: Callable[[T], str], value: T | None) -> str:
    return UNKNOWN if value is None else form(value)


def day(at: date) -> str:
    """A day: `3 Mar 2027`."""
    return f"{at.day} {at:%b %Y}"


def quarter(until: float, zone: ZoneInfo) -> str:
    """The quarter hour that ends at a time: `Friday, 25 September 2026, 14:00 to 14:15`."""
    start, end = (datetime.fromtimestamp(time, zone) for time in (until - STEP, until))
    return f"{start:%A}, {start.day} {start:%B %Y}, {start:%H:%M} to {end:%H:%M}"


def moment(time: float, zone: ZoneInfo) -> str:
    """A time: `25 Sep 2026 14:15`."""
    local = datetime.fromtimestamp(time, zone)
    return f"{local.day} {local:%b %Y %H:%M}"
