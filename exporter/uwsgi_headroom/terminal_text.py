"""Text for terminals and logs: escapes for what names of others may hold, lines of a width, bars and sparks.

Versions, sockets, processes and users are named by others, and a terminal obeys what it is sent. `escape_text` is the
one place where such text becomes harmless: everything that a command prints, draws or logs passes it.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"

# Printable to Python, and yet without a width: Default_Ignorable_Code_Point of Unicode (DerivedCoreProperties.txt),
# beside those of it that `str.isprintable` refuses.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")
_NO_BREAK_SPACE = "\u00a0"


def escape_text(text: str) -> str:
    """Replace every character that a terminal obeys or does not show by its escape, such as `\\x1b` or `\\u202e`.

    These are control characters and line breaks, characters that turn the direction of text around, those without a
    width, and halves of surrogates.
    """
    if text.isprintable() and not _INVISIBLE.search(text):
        return text
    return "".join(
        character if _is_visible(character) else character.encode("unicode_escape").decode() for character in text
    )


def _is_visible(character: str) -> bool:
    return character.isprintable() and not _INVISIBLE.match(character)


def print_lines(lines: Iterable[str], file: TextIO | None = None) -> None:
    """Print lines, escaped, on standard output or on `file`. What its encoding does not know is escaped too."""
    target = file or sys.stdout
    encoding = target.encoding or "ascii"
    for line in lines:
        print(escape_text(line).encode(encoding, "backslashreplace").decode(encoding), file=target)


def bar(value: float, of: float, cells: int) -> str:
    """A bar as long as `value` is of `of`, `cells` characters at most, to an eighth of one."""
    eighths = round(min(1.0, value / of) * cells * 8) if of > 0 else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def sparkline(values: Sequence[float | None], of: float | None = None) -> str:
    """A character a value, its height the part of `of` (the largest value); a gap where there is none."""
    known = [value for value in values if value is not None]
    top = of or max(known, default=0.0)
    return "".join(" " if value is None else _LEVELS[_level(value, top)] for value in values)


def downsample(values: Sequence[float | None], most: int) -> list[float | None]:
    """The same in at most so many values: means of as many neighbours as it takes, those at the end complete."""
    size = -(-len(values) // most)
    starts = range(len(values) % size - size if len(values) % size else 0, len(values), size) if values else ()
    groups = [[value for value in values[max(0, start) : start + size] if value is not None] for start in starts]
    return [sum(group) / len(group) if group else None for group in groups]


def _level(value: float, top: float) -> int:
    return min(len(_LEVELS) - 1, int(value / top * len(_LEVELS))) if top > 0 else 0


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width` columns, escaped and indented so; a figure stays with its unit."""
    escaped = _NO_BREAK_SPACE.join(map(escape_text, text.split(_NO_BREAK_SPACE)))
    kept = re.sub(r"(\d) (%|(?:ms|s|min|MB|kB)\b)", f"\\1{_NO_BREAK_SPACE}\\2", escaped)
    lines = textwrap.wrap(kept, max(width, 20), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return [line.replace(_NO_BREAK_SPACE, " ") for line in lines]
