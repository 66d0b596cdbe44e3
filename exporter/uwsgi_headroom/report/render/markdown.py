"""Writes a report as Markdown: complete in words and tables, without pictures. All text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo

from uwsgi_headroom.report.render.chapters import chapters_of
from uwsgi_headroom.report.render.document import Block, Chart, Grid, Heading, Items, Table, Text
from uwsgi_headroom.report.render.verdict_page import MOST_PROBLEMS, WORDS, answers_of, more_of, subtitle_of, title_of
from uwsgi_headroom.report.review import Review

_SPECIAL = re.compile(r"([\\*_\[\]<>#|~])")
_PARTS = re.compile(r"(`[^`]+`)")


def render_markdown(review: Review) -> str:
    return "\n".join(_lines(review)).rstrip() + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, except that `code` in backticks stays code; on one line, also in a table."""
    flat = " ".join(text.split())
    parts = _PARTS.split(flat)
    return "".join(
        part.replace("|", "\\|") if place % 2 else _SPECIAL.sub(r"\\\1", part.replace("&", "&amp;"))
        for place, part in enumerate(parts)
    )


def _lines(review: Review) -> Iterator[str]:
    zone = ZoneInfo(review.time_zone)
    yield f"# {escape(title_of(review, zone))}"
    yield ""
    yield escape(subtitle_of(review))
    yield ""
    for problem in review.problems[:MOST_PROBLEMS]:
        yield f"> {escape(problem)}"
        yield ""
    yield "## 1 Verdict"
    yield ""
    yield f"**{escape(review.answer)}**"
    yield ""
    for each in answers_of(review):
        yield f"### {escape(each.service)}: {each.status}"
        yield ""
        yield escape(each.sentence)
        yield ""
        if each.certainty:
            yield f"How sure? {escape(each.certainty)}"
            yield ""
        for question, text in each.answers:
            yield f"* **{question}** {escape(text)}"
        if each.answers:
            yield ""
    if more := more_of(review):
        yield escape(more)
        yield ""
    yield from (f"* {word}: {meaning}" for word, meaning in WORDS)
    yield ""
    for chapter in chapters_of(review):
        yield f"## {chapter.number} {chapter.title}"
        yield ""
        yield escape(chapter.introduction)
        yield ""
        for block in chapter.blocks:
            yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"### {escape(text)}"
        case Text(text, tone):
            yield f"{'> ' if tone == 'absent' else ''}{escape(text)}"
        case Items(items):
            yield from (f"* {escape(item)}" for item in items)
        case Table():
            yield from _table(block)
        case Grid(title, rows):
            yield from _table(Table(["", *map(str, range(24))], rows, title, range(1, 25)))
        case Chart():
            return
    yield ""


def _table(table: Table) -> Iterator[str]:
    yield _row(table.heads)
    yield "|" + "|".join("---:" if place in table.numbers else "---" for place in range(len(table.heads))) + "|"
    yield from (_row(row) for row in table.rows)
    if table.caption:
        yield ""
        yield escape(table.caption)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"
