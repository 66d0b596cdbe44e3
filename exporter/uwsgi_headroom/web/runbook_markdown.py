"""Renders the Markdown of the runbooks: only the few constructs that they use.

Headings, paragraphs, bulleted and numbered lists, tables, fenced code (`sh` or `promql`), inline code, and links to
other runbooks. Everything else raises UnknownMarkdownError, so that a test finds it before a reader does. Text is
always escaped: Markdown's own HTML is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import escape

from msgspec import Struct

_FENCE = re.compile(r"```(sh|promql)")
_ITEM = {"ul": re.compile(r"\* +"), "ol": re.compile(r"[1-9][0-9]?\. +")}
_INLINE = re.compile(r"`([^`]+)`|\[([^]\[`]+)\]\((Uwsgi\w+)\.md\)")
_NOT_TEXT = re.compile(r"[*`\[\]<>\\]|__|\b_|_\b|https?://")
"""Markup of other Markdown dialects, which is refused."""


class UnknownMarkdownError(ValueError):
    """A runbook contains Markdown that this renderer does not know."""


class Runbook(Struct, frozen=True):
    """The parts of a runbook. summary: what is wrong, and the effect on users."""

    title: str
    summary: str
    body: str


class Style(Struct, frozen=True):
    """Functions that write code and links. code: turns a snippet and its language ("" for inline code) into safe HTML;
    address: turns the name of a runbook into its URL, unescaped."""

    code: Callable[[str, str], str]
    address: Callable[[str], str]


def split_runbook(text: str) -> Runbook:
    """Split a runbook into its title, its opening paragraph, and the rest. Raises UnknownMarkdownError."""
    title, summary, body = text.split("\n\n", 2)
    if not title.startswith("# ") or not body.startswith("## "):
        raise UnknownMarkdownError(f"not a runbook: {title!r}")
    return Runbook(title.removeprefix("# "), summary, body)


def render_blocks(text: str, style: Style) -> str:
    """Render a part of a runbook to HTML. Raises UnknownMarkdownError."""
    lines = text.splitlines()
    html = []
    while lines:
        html.append(_take_block(lines, style))
    return "".join(html)


def render_inline(text: str, style: Style) -> str:
    """Render text without blocks to HTML. Raises UnknownMarkdownError."""
    html, end = [], 0
    for match in _INLINE.finditer(text):
        html.append(_plain(text[end : match.start()]))
        code, label, name = match.groups()
        link = f'<a href="{escape(style.address(name))}">{_plain(label)}</a>' if name else ""
        html.append(link or f"<code>{style.code(code, '')}</code>")
        end = match.end()
    return "".join([*html, _plain(text[end:])])


def _plain(text: str) -> str:
    if found := _NOT_TEXT.search(text):
        raise UnknownMarkdownError(f"{found[0]!r} in {text!r}")
    return escape(text)


def _take_block(lines: list[str], style: Style) -> str:
    """Remove the first block from the lines, and render it."""
    first = lines[0]
    if not first.strip():
        del lines[0]
        return ""
    if fence := _FENCE.fullmatch(first):
        return _take_code(lines, fence[1], style)
    if first.startswith("## "):
        return f"<h2>{render_inline(lines.pop(0)[3:], style)}</h2>"
    if first.startswith("| "):
        return _take_table(lines, style)
    for tag, mark in _ITEM.items():
        if mark.match(first):
            return _take_list(lines, tag, mark, style)
    if not first[0].isalnum() and first[0] not in "`[":
        raise UnknownMarkdownError(f"a line that begins with {first[0]!r}: {first!r}")
    return f"<p>{render_inline(' '.join(_take_while(lines, lambda line: bool(line.strip()))), style)}</p>"


def _take_while(lines: list[str], wanted: Callable[[str], bool]) -> list[str]:
    count = next((place for place, line in enumerate(lines) if not wanted(line)), len(lines))
    taken = lines[:count]
    del lines[:count]
    return taken


def _take_code(lines: list[str], language: str, style: Style) -> str:
    del lines[0]
    code = _take_while(lines, lambda line: line != "```")
    if not lines:
        raise UnknownMarkdownError("code that does not end")
    del lines[0]
    rows = "\n".join(f"<code>{style.code(row, language)}</code>" for row in code)
    return f'<pre class="{language}">{rows}</pre>'


def _take_table(lines: list[str], style: Style) -> str:
    taken = _take_while(lines, lambda line: line.startswith("|"))
    head, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (taken[0], *taken[2:])]
    if not taken[1:] or set(taken[1]) != set("|-") or any(len(row) != len(head) for row in rows):
        raise UnknownMarkdownError(f"a table that is not regular: {head}")
    cells = ["".join(f"<td>{render_inline(cell, style)}" for cell in row) for row in rows]
    heads = "".join(f"<th>{render_inline(cell, style)}" for cell in head)
    return f"<table><thead><tr>{heads}<tbody>{''.join(f'<tr>{row}' for row in cells)}</table>"


def _is_indented(width: int, line: str) -> bool:
    return not line.strip() or line.startswith(" " * width)


def _take_list(lines: list[str], tag: str, mark: re.Pattern[str], style: Style) -> str:
    """Take a list: items with the blocks indented below them. An item's text is one paragraph."""
    items = []
    while lines and (found := mark.match(lines[0])):
        width = found.end()
        first = lines.pop(0)[width:]
        below = _take_while(lines, partial(_is_indented, width))
        items.append(f"<li>{render_blocks(chr(10).join([first, *(line[width:] for line in below)]), style)}")
    return f"<{tag}>{''.join(items)}</{tag}>"
