"""Painted lines: names of others have no effect on the terminal."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from uwsgi_headroom.top.terminal import Painter

OURS = re.compile(r"\x1b\[[0-9;]*m")


def painter(unicode: bool = True, colour: bool = True) -> Painter:
    return Painter(colour=colour, styles=True, unicode=unicode)


@given(st.text(st.characters(exclude_categories=[]), max_size=60), st.integers(1, 40))
def test_text_of_others_is_harmless(text: str, width: int) -> None:
    """For any name, only the control characters of styles are sent, and no more than fits."""
    for unicode in (True, False):
        sent = painter(unicode).paint(Text(f"ab{text}", "bold red"), width)
        bare = OURS.sub("", sent)
        assert bare.isprintable()
        assert cell_len(bare) <= width
        sent.encode("utf-8" if unicode else "ascii")


def test_an_escape_sequence_is_shown_for_what_it_is() -> None:
    """The terminal's title is not set. (Rich drops the bell by itself.)"""
    assert painter().paint(Text("shop\x1b]0;x\x07 \u202egnp"), 80) == "shop\\x1b]0;x \\u202egnp"


def test_styles_stay_on_their_words() -> None:
    """An escaped name is longer, and the bold words after it are still the only bold ones."""
    line = Text("\x1b\x1bshop ", end="").append("down", "bold").append(" since")
    assert painter().paint(line, 80) == "\\x1b\\x1bshop \x1b[1mdown\x1b[0m since"


def test_without_colour_there_is_bold() -> None:
    """Without colour there is bold, and no colour."""
    line = Text("hot", "bold red")
    assert painter(colour=False).paint(line, 9) == "\x1b[1mhot\x1b[0m"
    assert painter().paint(line, 9) == "\x1b[1;31mhot\x1b[0m"
    assert Painter(colour=False, styles=False, unicode=True).paint(line, 9) == "hot"


def test_blocks_have_a_stand_in_of_ascii() -> None:
    """Each block character has one ASCII character."""
    assert painter(unicode=False).paint(Text("██▎ ▁▄▇é…↓├└│─"), 20) == "##  _.=?~v|`|-"
