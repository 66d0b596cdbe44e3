"""Writes a report without pictures: as Markdown, complete in words and tables, and as JSON (docs/report.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import msgspec

from uwsgi_headroom.report.render.document import Block, Chart, Document, Heading, Items, Table, Text
from uwsgi_headroom.terminal_text import escape_text

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_PARTS = re.compile(r"(`[^`]+`)")

FORMAT = 3
"""Rises when a name changes its meaning or goes away. Names may be added."""


def render_json(review: object) -> bytes:
    """The figures of a review. What is unknown is null; a section without data is an object with `reason` alone."""
    names = {"format": FORMAT, **msgspec.to_builtins(review, str_keys=True)}
    return (json.dumps(names, indent=1, allow_nan=False) + "\n").encode()


def render_markdown(document: Document) -> str:
    return "\n".join(_lines(document)).rstrip() + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line, except that `code` in backticks stays code, and a character that
    is invisible or moves others is replaced by its escape."""
    flat = escape_text(" ".join(text.split()))
    parts = _PARTS.split(flat)
    return "".join(
        part.replace("|", "\\|") if place % 2 else _SPECIAL.sub(r"\\\1", part.replace("&", "&amp;"))
        for place, part in enumerate(parts)
    )


def _lines(document: Document) -> Iterator[str]:
    yield from (f"# {escape(document.title)}", "", escape(document.subtitle), "")
    for number, section in enumerate(document.sections, 1):
        yield from (f"## {number} {section.title}", "")
        if section.introduction:
            yield from (escape(section.introduction), "")
        for block in section.blocks:
            yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading(text, chip):
            yield f"### {escape(text)}{': ' * bool(chip)}{chip}"
        case Text(text, tone):
            yield {"absent": f"> {escape(text)}", "answer": f"**{escape(text)}**"}.get(tone, escape(text))
        case Items(items):
            yield from (f"* {_item(item)}" for item in items)
        case Table():
            yield from _table(block)
        case Chart():
            return
    yield ""


def _item(item: str | tuple[str, str]) -> str:
    return escape(item) if isinstance(item, str) else f"**{escape(item[0])}** {escape(item[1])}"


def _table(table: Table) -> Iterator[str]:
    yield _row(table.heads)
    yield "|" + "|".join("---:" if place in table.numbers else "---" for place in range(len(table.heads))) + "|"
    yield from (_row(row) for row in table.rows)
    if table.caption:
        yield from ("", escape(table.caption))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"
