"""Writes a report without pictures: as Markdown, complete in words and tables and with all text escaped, and for
programs (docs/report.md): the sections as JSON, and what they are computed from as CSV.

The CSV has a line for each quarter hour and server, with units in the head.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from msgspec import Struct
from msgspec.structs import fields

from uwsgi_headroom.report.columns import PERCENTILES, STEP, Column, ReviewData, ServerData
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


_COLUMNS: tuple[tuple[str, str], ...] = (
    ("requests_per_second", "requests"),
    ("static_per_second", "static"),
    ("lost_per_second", "lost"),
    ("threads_in_service", "busy"),
    ("running_seconds_per_second", "running"),
    ("all_threads_busy_share", "full"),
    ("threads_configured", "configured"),
    ("threads_available", "available"),
    ("workers_accepting", "workers_accepting"),
    ("queue_connections", "queue"),
    ("queue_full_share", "queue_full"),
    ("cpus_usable", "cpus"),
    ("cpus_own", "cpu_own"),
    ("cpus_idle", "cpu_idle"),
    ("cpus_others", "cpu_others"),
    ("memory_per_worker_bytes", "memory_per_worker"),
    ("memory_available_bytes", "memory_available"),
    ("slow_per_second", "slow"),
    ("judged_per_second", "judged"),
    ("reloads", "reloads"),
    ("respawns", "respawns"),
    ("harakiris", "harakiris"),
    ("exceptions", "exceptions"),
    ("tcp_overflows", "overflows"),
)
"""Names in the head, with their units, and the columns of `ServerData`."""

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of a cell that a spreadsheet takes for a formula."""


def render_csv(data: ReviewData) -> str:
    """The table. An unknown figure is an empty cell; quarter hours without any are left out."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    percentiles = [f"p{100 * share:g}_seconds" for share in PERCENTILES]
    writer.writerow(
        ["start", "until_epoch_seconds", "server", "service", "host", "sampled_share", *dict(_COLUMNS), *percentiles]
    )
    zone = ZoneInfo(data.time_zone)
    for server in data.servers:
        names = [safe_cell(name) for name in (server.server, server.service, server.host)]
        columns = [getattr(server, name) for _, name in _COLUMNS]
        columns += _padded(server)
        for place, end in enumerate(server.time):
            values = [_number(column[place]) for column in columns]
            if any(values):
                start = datetime.fromtimestamp(float(end) - STEP, zone).isoformat()
                writer.writerow([start, f"{end:.0f}", *names, _number(server.covered[place]), *values])
    return output.getvalue()


def safe_cell(text: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _padded(server: ServerData) -> list[Column]:
    """The columns of the percentiles; unknown ones as unknown."""
    missing = len(PERCENTILES) - len(server.percentiles)
    return [*server.percentiles, *[server.time * math.nan] * missing]


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""


FORMAT = 2
"""Rises when a name changes its meaning or goes away. Names may be added."""


def render_json(review: Review) -> str:
    """The document. What is unknown is null; a section without data is an object with `reason` alone."""
    document = {"format": FORMAT, **_plain(review), "queries": _plain(review.data.queries)}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """The value in JSON's types."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Struct):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value) if each.name != "data"}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
