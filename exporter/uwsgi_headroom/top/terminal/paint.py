"""From lines to what a terminal is sent. Here, and nowhere else, text of others is made harmless."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

_BLOCKS = str.maketrans("▏▎▍▌▋▊▉█▁▂▃▄▅▆▇", "   #####__..--=")
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
        harmless = Text(self._harmless(line.plain), spans=line.spans, style=line.style, end="")
        harmless.truncate(width)
        with self._console.capture() as captured:
            self._console.print(harmless, soft_wrap=True, end="")
        return captured.get()

    def _harmless(self, text: str) -> str:
        """A name may hold anything: escape sequences, characters that turn the line around, halves of surrogates."""
        if not text.isprintable():
            text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
        if self._unicode:
            return text
        return text.translate(_BLOCKS).encode("ascii", "replace").decode("ascii")
