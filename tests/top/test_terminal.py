"""What is sent to the terminal, where names of others have no effect, and the keys that it sends."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from uwsgi_headroom.top.terminal import Painter, split_keys

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


def test_styles_and_escapes() -> None:
    """An escape sequence sets no title and moves no style. Without colour there is bold; each block has a stand-in of
    ASCII."""
    assert painter().paint(Text("shop\x1b]0;x\x07 \u202egnp"), 80) == "shop\\x1b]0;x \\u202egnp"
    line = Text("\x1b\x1bshop ", end="").append("down", "bold").append(" since")
    assert painter().paint(line, 80) == "\\x1b\\x1bshop \x1b[1mdown\x1b[0m since"
    line = Text("hot", "bold red")
    assert painter(colour=False).paint(line, 9) == "\x1b[1mhot\x1b[0m"
    assert painter().paint(line, 9) == "\x1b[1;31mhot\x1b[0m"
    assert Painter(colour=False, styles=False, unicode=True).paint(line, 9) == "hot"
    assert painter(unicode=False).paint(Text("██▎ ▁▄▇é…↓├└│─"), 20) == "##  _.=?~v|`|-"


@pytest.mark.parametrize(
    ("sent", "keys", "rest"),
    [
        ("q", ["q"], ""),
        ("\x1b[A\x1bOB", ["up", "down"], ""),
        ("\x1b[5~\x1b[6~\x1b[1~\x1b[F", ["pageup", "pagedown", "home", "end"], ""),
        ("\x1b", [], "\x1b"),
        ("j\x1b[", ["j"], "\x1b["),
        ("\x1b[1;5", [], "\x1b[1;5"),
        ("\x1bj", ["escape", "j"], ""),
        ("\x1b[1;5C", ["right"], ""),
        ("\x1b[17~x", ["x"], ""),
        ("\x1bOP\x1bOS\x1b[15~\x1b[21~", ["f1", "f4", "f5", "f10"], ""),
        ("\x1b[[A\x1b[[D\x1b[[E", ["f1", "f4", "f5"], ""),
        ("\x1b[[", [], "\x1b[["),
        ("\x1b[Z", ["backtab"], ""),
        ("\r\t\x7f", ["enter", "tab", "backspace"], ""),
        ("ä", ["ä"], ""),
    ],
)
def test_keys(sent: str, keys: list[str], rest: str) -> None:
    """A sequence is one key, even in two halves; unknown sequences are no key; a lone ESC waits for the rest."""
    assert split_keys(sent) == (keys, rest)
