"""Reads and replaces the generated section of a file that is otherwise written by hand: it stands between marks."""

from __future__ import annotations

COMMENT = ("<!--", "-->")
"""How a comment begins and ends in Markdown."""


def replace_section(text: str, name: str, section: str, comment: tuple[str, str] = COMMENT) -> str:
    """Returns the text with a new section between the marks `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError if
    the text has no such marks."""
    before, _, after = _split(text, name, comment)
    return f"{before}{section}{after}"


def read_section(text: str, name: str) -> str:
    return _split(text, name, COMMENT)[1]


def _split(text: str, name: str, comment: tuple[str, str]) -> tuple[str, str, str]:
    """The text up to the end of the first mark, between the marks, and from the second one on."""
    opening, closing = comment
    first, last = f"{opening} {name} {closing}\n", f"{opening} /{name} {closing}"
    before, begin, rest = text.partition(first)
    section, end, after = rest.partition(last)
    if not end:
        raise ValueError(f"there are no marks named {name!r}")
    return before + begin, section, end + after
