"""Text for terminals: lines of a width, bars and sparks of block characters."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"


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
    """Lines of at most `width` columns, indented so; a figure stays with its unit."""
    kept = re.sub(r"(\d) (%|(?:ms|s|min|MB|kB)\b)", "\\1\u00a0\\2", text)
    lines = textwrap.wrap(kept, max(width, 20), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]
