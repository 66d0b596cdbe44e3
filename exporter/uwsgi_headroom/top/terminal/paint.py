"""Turns lines of styled text into the characters for a terminal."""

from __future__ import annotations

import io
from itertools import accumulate

from rich.console import Console
from rich.text import Span, Text

from uwsgi_headroom.terminal_text import escape_text

_ASCII = str.maketrans("▏▎▍▌▋▊▉█▁▂▃▄▅▆▇…≤─│├└↑↓←→", "   #####__..--=~<-||`^v<>")
"""ASCII replacements, one for each character, for terminals without Unicode."""


class Painter:
    """Paints lines. colour: use colours; styles: use bold and reverse; unicode: the terminal takes UTF-8."""

    def __init__(self, *, colour: bool, styles: bool, unicode: bool) -> None:
        self._unicode = unicode
        self._console = Console(
            file=io.StringIO(),
            force_terminal=styles,
            color_system="standard" if styles else None,
            no_color=not colour,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            width=10_000,
        )

    def paint(self, line: Text, width: int) -> str:
        """Write a line, at most `width` columns, with no control characters except those of its styles."""
        harmless = _escape(line) if self._unicode else _to_ascii(_escape(line))
        harmless.truncate(width)
        with self._console.capture() as captured:
            self._console.print(harmless, soft_wrap=True, end="")
        return captured.get()


def _escape(line: Text) -> Text:
    """Return a copy of a line with its text escaped and its styles on the same words."""
    if escape_text(line.plain) == line.plain:
        return line.copy()
    ends = [0, *accumulate(len(escape_text(character)) for character in line.plain)]
    spans = [Span(ends[span.start], ends[min(span.end, len(line.plain))], span.style) for span in line.spans]
    return Text(escape_text(line.plain), spans=spans, style=line.style, end="")


def _to_ascii(line: Text) -> Text:
    plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode("ascii")
    return Text(plain, spans=line.spans, style=line.style, end="")
