"""From lines to what a terminal is sent."""

from __future__ import annotations

import io
from itertools import accumulate

from rich.console import Console
from rich.text import Span, Text

from uwsgi_headroom.terminal_text import escape_text

_ASCII = str.maketrans("▏▎▍▌▋▊▉█▁▂▃▄▅▆▇…≤─│├└↑↓←→", "   #####__..--=~<-||`^v<>")
"""For a terminal that knows ASCII alone, a character for a character."""


class Painter:
    """colour: whether there is any; styles: whether bold and reverse; unicode: whether the terminal is UTF-8."""

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
        """The line with its styles, at most so wide, and not a control character in it but theirs."""
        harmless = _escape(line) if self._unicode else _to_ascii(_escape(line))
        harmless.truncate(width)
        with self._console.capture() as captured:
            self._console.print(harmless, soft_wrap=True, end="")
        return captured.get()


def _escape(line: Text) -> Text:
    """A copy of a line with the names of others escaped, its styles on the same words."""
    if escape_text(line.plain) == line.plain:
        return line.copy()
    ends = [0, *accumulate(len(escape_text(character)) for character in line.plain)]
    spans = [Span(ends[span.start], ends[min(span.end, len(line.plain))], span.style) for span in line.spans]
    return Text(escape_text(line.plain), spans=spans, style=line.style, end="")


def _to_ascii(line: Text) -> Text:
    plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode("ascii")
    return Text(plain, spans=line.spans, style=line.style, end="")
