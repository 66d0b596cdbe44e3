"""Replaces the generated section of a file that is otherwise written by hand."""

from __future__ import annotations


def replace_section(text: str, name: str, section: str, comment: tuple[str, str] = ("<!--", "-->")) -> str:
    """Returns the text with a new section between the marks `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError if
    the text has no such marks. comment: how a comment begins and ends in this language."""
    opening, closing = comment
    before, begin, rest = text.partition(f"{opening} {name} {closing}\n")
    _, end, after = rest.partition(f"{opening} /{name} {closing}")
    if not end:
        raise ValueError(f"there are no marks named {name!r}")
    return f"{before}{begin}{section}{end}{after}"
