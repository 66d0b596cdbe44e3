"""Writes a report as one HTML document without scripts and external resources. All text is escaped: names are hostile
input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib import resources

from uwsgi_headroom.report.render.document import Block, Chart, Document, Heading, Items, Table, Text
from uwsgi_headroom.terminal_text import escape_text

_CODE = re.compile(r"`([^`]+)`")

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{css}
</style>
</head>
<body>
<main>
"""


def render_html(document: Document) -> str:
    css = resources.files("uwsgi_headroom.report.render").joinpath("report.css").read_text(encoding="utf-8")
    title = escape(document.title)
    lines = [_HEAD.format(title=title, css=css), f'<h1>{title}</h1>\n<p class="dim">{prose(document.subtitle)}</p>\n']
    for number, section in enumerate(document.sections, 1):
        lines.append(f'<section id="section-{number}">\n<h2>{number} {escape(section.title)}</h2>\n')
        lines.append(f'<p class="dim">{prose(section.introduction)}</p>\n')
        lines += [f"{_block(block)}\n" for block in section.blocks]
        lines.append("</section>\n")
    return "".join([*lines, "</main>\n</body>\n</html>\n"])


def prose(text: str) -> str:
    """Escaped text, in which no character is invisible or moves others, and `code` in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escape(escape_text(text)))


def _block(block: Block) -> str:
    match block:
        case Heading(text, chip, judgement):
            beside = f' <span class="chip">{escape(chip)}</span>' * bool(chip)
            return f'<h3 data-judgement="{judgement}">{prose(text)}{beside}</h3>'
        case Text(text, tone):
            return f'<p class="{tone}">{prose(text)}</p>'
        case Items(items):
            return f"<ul>{''.join(f'<li>{_item(item)}</li>' for item in items)}</ul>"
        case Chart(words, svg):
            return f'<figure role="img" aria-label="{escape(words)}">{svg}</figure>'
        case Table():
            return _table(block)


def _item(item: str | tuple[str, str]) -> str:
    return prose(item) if isinstance(item, str) else f"<b>{prose(item[0])}</b> {prose(item[1])}"


def _table(table: Table) -> str:
    heads = (_cell("th", head, table, place) for place, head in enumerate(table.heads))
    caption = f"<caption>{prose(table.caption)}</caption>" * bool(table.caption)
    return (
        f'<table class="{table.style}">{caption}<thead><tr>{"".join(heads)}</tr></thead>\n<tbody>\n'
        f"{''.join(_row(table, number, row) for number, row in enumerate(table.rows))}</tbody></table>"
    )


def _row(table: Table, number: int, row: Sequence[str]) -> str:
    styles = table.shades[number] if table.shades else [""] * len(row)
    cells = (_cell("td", text, table, place, styles[place]) for place, text in enumerate(row))
    return f"<tr{_attribute('class', 'strong' * (number in table.strong))}>{''.join(cells)}</tr>\n"


def _cell(tag: str, text: str, table: Table, place: int, style: str = "") -> str:
    attributes = _attribute("class", "number" * (place in table.numbers)) + _attribute("style", style)
    return f"<{tag}{attributes}>{prose(text)}</{tag}>"


def _attribute(name: str, value: str) -> str:
    return f' {name}="{value}"' * bool(value)
