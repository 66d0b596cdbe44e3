"""The parts of a written report: what HTML and Markdown have in common. Text is plain, with `code` in backticks; single
figures are words, and an unknown one is a dash."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.words import formats
from uwsgi_headroom.words.states import LIMITS


class Text(Struct, frozen=True):
    """A paragraph. tone: "note" for small print, "absent" for why something is missing."""

    text: str
    tone: str = ""


class Heading(Struct, frozen=True):
    """A heading within a chapter, such as the name of a service."""

    text: str


class Items(Struct, frozen=True):
    items: Sequence[str]


class Table(Struct, frozen=True):
    """A table. numbers: the columns that are aligned to the right. strong: the rows to emphasize.
    style: "advice" for a recommendation."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers: Sequence[int] = ()
    strong: Sequence[int] = ()
    style: str = ""


class Chart(Struct, frozen=True):
    """A picture; a table with the same figures follows, for forms without pictures. words: what it shows, for readers
    without it. draw: makes the SVG element. caption: how to read it."""

    words: str
    draw: Callable[[], str]
    caption: str = ""


class Grid(Struct, frozen=True):
    """A table of a week by hours, for forms without pictures: rows of 24 texts, by weekday."""

    title: str
    rows: Sequence[Sequence[str]]


Block = Text | Heading | Items | Table | Chart | Grid


class Chapter(Struct, frozen=True):
    """A section of the report. introduction: a sentence that says what it answers."""

    number: int
    title: str
    introduction: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def absent(reason: str) -> Text:
    """Why something is missing."""
    return Text(reason, "absent")


UNKNOWN = "-"

LIMIT_MEANINGS: dict[Limit, str] = {
    "threads": "each serves one request at a time",
    "interpreters": "each worker process computes Python on one CPU at a time",
    "hottest_interpreter": "of the busiest worker process, at today's shares",
    "cpu": "in use by the workers; other programs leave the rest",
    "lock": "one request at a time holds it",
}


def limit_name(limit: str) -> str:
    return LIMITS[limit].name


def amount(value: float | None) -> str:
    """A number with three digits, or all of its whole part: 62.4, 8.30, 12,345; without decimals if it is whole."""
    if value is None:
        return UNKNOWN
    return whole(value) if value == round(value) else formats.amount(value)


def whole(value: float | None) -> str:
    """A number of things: 1,234."""
    return UNKNOWN if value is None else formats.fixed(value, grouped=True)


def share(value: float | None) -> str:
    return UNKNOWN if value is None else formats.percent(value)


def fine_share(value: float | None) -> str:
    """A fraction as a percentage with two digits."""
    if value is None:
        return UNKNOWN
    return "under 0.01 %" if 0 < value < 0.0001 else formats.fine_percent(value)


def seconds(value: float | None) -> str:
    """A duration in a suitable unit."""
    return UNKNOWN if value is None else formats.duration(value)


def times(value: float | None) -> str:
    return UNKNOWN if value is None else formats.factor(value)


def size(value: float | None) -> str:
    """Bytes in a suitable unit."""
    return UNKNOWN if value is None else formats.byte_size(value)


def signed(value: float | None) -> str:
    """A relative difference with its sign: 0.034 is `+3.4 %`."""
    return UNKNOWN if value is None else formats.signed_percent(value)
