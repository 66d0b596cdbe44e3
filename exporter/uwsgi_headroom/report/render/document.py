"""The parts of a written report: what HTML and Markdown have in common. Text is plain, with `code` in backticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph. tone: "note" for small print, "absent" for why something is missing."""

    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a chapter, such as the name of a service."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table. numbers: the columns that are aligned to the right. strong: the rows to emphasize.
    style: "advice" for a recommendation."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers: Sequence[int] = ()
    strong: Sequence[int] = ()
    style: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture; a table with the same figures follows, for forms without pictures. words: what it shows, for readers
    without it. draw: makes the SVG element. caption: how to read it."""

    words: str
    draw: Callable[[], str]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of a week by hours, for forms without pictures: rows of 24 texts, by weekday."""

    title: str
    rows: Sequence[Sequence[str]]


Block = Text | Heading | Items | Table | Chart | Grid


@dataclass(frozen=True, slots=True)
class Chapter:
    """A section of the report. introduction: a sentence that says what it answers."""

    number: int
    title: str
    introduction: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def absent(reason: str) -> Text:
    """Why something is missing."""
    return Text(reason, "absent")
