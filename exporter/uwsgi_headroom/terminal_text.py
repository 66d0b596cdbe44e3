"""Text for terminals and logs: escapes hostile characters, wraps lines, draws bars and sparklines.

Monitored machines choose the names of versions, sockets, processes and users, and a terminal obeys control characters.
`escape_text` is the one place that makes such text harmless: everything that a command prints, draws or logs passes
through it.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from uwsgi_headroom.errors import OutputError

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"

# Printable to Python, but of zero width: Default_Ignorable_Code_Point of Unicode (DerivedCoreProperties.txt), without
# those that `str.isprintable` already rejects.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")
_NO_BREAK_SPACE = "\u00a0"
_FIGURE = re.compile(r"\d+ (?:d|h|min) \d+ (?:h|min|s)\b|\d (?:%|(?:ms|s|min|h|d|MB|kB)\b)")
_COMMAND = re.compile(r"`[^`]*`\S*")  # with the punctuation after it


def escape_text(text: str) -> str:
    """Replace every character that a terminal obeys or does not show with its escape, such as `\\x1b` or `\\u202e`.

    These are control characters, line breaks, characters that reverse the direction of text, characters of zero width,
    and lone surrogates.
    """
    if text.isprintable() and not _INVISIBLE.search(text):
        return text
    shown = (each.isprintable() and not _INVISIBLE.match(each) for each in text)
    return "".join(
        each if is_shown else each.encode("unicode_escape").decode() for each, is_shown in zip(text, shown, strict=True)
    )


def print_lines(lines: Iterable[str], file: TextIO | None = None) -> None:
    """Print lines, escaped, to standard output or to `file`. Characters outside its encoding are escaped too. Raises
    OutputError, or BrokenPipeError if the reader has left."""
    target = file or sys.stdout
    encoding = target.encoding or "ascii"
    text = "".join(f"{escape_text(line)}\n" for line in lines)
    try:
        target.write(text.encode(encoding, "backslashreplace").decode(encoding))
        target.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the output cannot be written: {error.strerror or error}") from None


def bar(value: float, of: float, cells: int) -> str:
    """Draw a bar of length `value / of * cells`, at most `cells` characters, precise to an eighth of a character."""
    eighths = round(min(1.0, value / of) * cells * 8) if of > 0 else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def sparkline(values: Sequence[float | None], of: float | None = None) -> str:
    """Draw one character per value, as high as its share of `of` (default: the largest value); None is a gap."""
    known = [value for value in values if value is not None]
    top = of or max(known, default=0.0)
    return "".join(" " if value is None else _LEVELS[_level(value, top)] for value in values)


def downsample(values: Sequence[float | None], most: int) -> list[float | None]:
    """Reduce values to at most `most` means of neighbours. Groups at the end are complete."""
    size = -(-len(values) // most)
    starts = range(len(values) % size - size if len(values) % size else 0, len(values), size) if values else ()
    groups = [[value for value in values[max(0, start) : start + size] if value is not None] for start in starts]
    return [sum(group) / len(group) if group else None for group in groups]


def _level(value: float, top: float) -> int:
    return min(len(_LEVELS) - 1, int(value / top * len(_LEVELS))) if top > 0 else 0


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Wrap a text to lines of at most `width` columns, escaped and indented. A figure stays with its unit. A command in
    backticks stays on one line if it fits, so that it can be copied."""
    escaped = _NO_BREAK_SPACE.join(map(escape_text, text.split(_NO_BREAK_SPACE)))
    room = max(width, 20) - len(rest)
    escaped = _COMMAND.sub(
        lambda found: found[0].replace(" ", _NO_BREAK_SPACE) if len(found[0]) <= room else found[0], escaped
    )
    kept = _FIGURE.sub(lambda found: found[0].replace(" ", _NO_BREAK_SPACE), escaped)
    lines = textwrap.wrap(kept, max(width, 20), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return [line.replace(_NO_BREAK_SPACE, " ") for line in lines]


def join_blocks(blocks: Iterable[list[str]]) -> list[str]:
    """The lines of all blocks, with an empty line between two."""
    return [line for block in blocks for line in ("", *block)][1:]


def cut_lines(lines: list[str], most: int) -> list[str]:
    """Cut to the first `most` lines; an ellipsis replaces the rest, from a whole word on: half a number is another."""
    if len(lines) <= most:
        return lines
    start, _, last = lines[most - 1].rpartition(" ")
    return [*lines[: most - 1], f"{start.rstrip(' ,.') if start.strip() else last[:-2]} …"]
