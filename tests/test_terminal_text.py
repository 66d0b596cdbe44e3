"""Bars, sparks and wrapping."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.terminal_text import bar, downsample, escape_text, print_lines, sparkline, wrap

ANY_TEXT = st.text(st.characters(exclude_categories=[]))
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
WITHOUT_WIDTH = "\u00ad\u034f\u115f\u180e\u200b\u200c\u200d\u2060\u3164\ufe0f\ufeff\uffa0\U000e0041\U000e0100"
CONTROLS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)])) + "\u2028\u2029\udc9b"


def harmless(text):
    """Whether a terminal shows each character of a text where it is written."""
    return not set(text) & set(DIRECTIONS + WITHOUT_WIDTH + CONTROLS) and not any(
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text
    )


@given(ANY_TEXT)
def test_whatever_a_name_holds_its_text_is_harmless(text):
    """No character that moves the cursor, breaks the line, changes its direction or is hidden gets through, even in a
    paragraph."""
    assert harmless(escape_text(text))
    assert all(map(harmless, wrap(f"Worker {text} is busy.", 60, "   ")))


@pytest.mark.parametrize("character", sorted(DIRECTIONS + WITHOUT_WIDTH + CONTROLS))
def test_each_dangerous_character_is_escaped(character):
    """The escape is a backslash and the character's number or letter; the surrounding text stays."""
    escaped = escape_text(f"a{character}b")
    assert harmless(escaped)
    assert escaped.startswith("a\\")
    assert escaped.endswith("b")
    assert escaped.encode().decode("unicode_escape") == f"a{character}b"


def test_where_a_line_breaks():
    """Between words, but a command and a figure with its unit stay together. Escapes are those that people know."""
    assert escape_text("\x1b]0;x\x07\n\u202e") == "\\x1b]0;x\\x07\\n\\u202e"
    text = "First see what they wait for: run `sudo program check /run/uwsgi/shop.stats`, then decide."
    assert any("`sudo program check /run/uwsgi/shop.stats`," in line for line in wrap(text, 50, "-> ", "   "))
    assert all(len(line) <= 30 for line in wrap(text, 30, "-> ", "   "))
    assert wrap("a" * 16 + " 43 % of it", 20) == ["a" * 16, "43 % of it"]


@given(st.text(st.characters(categories=["Lu", "Ll", "Nd", "Po", "Sm"])))
def test_text_that_can_be_read_stays(text):
    assert escape_text(text) == text


@given(st.lists(ANY_TEXT, max_size=4), st.sampled_from(["utf-8", "ascii", "latin-1"]))
def test_a_line_is_printed_as_one_line(lines, encoding):
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    print_lines(lines, output)
    output.seek(0)
    printed = output.read().split("\n")
    assert printed.pop() == ""
    assert len(printed) == len(lines)
    assert all(map(harmless, printed))


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 40))
def test_a_bar_is_as_long_as_its_part(value, of, cells):
    """A bar is never longer than its cells, and full if the value is the whole or more."""
    drawn = bar(value, of, cells)
    assert len(drawn) <= cells
    if 0 < of <= value:
        assert drawn == "█" * cells


def test_a_spark_has_gaps_where_nothing_is_known():
    """The largest value is the highest bar, unless a maximum is given."""
    assert sparkline([0.0, None, 4.0, 8.0]) == "▁ ▅█"
    assert sparkline([1.0, 20.0], 10.0) == "▁█"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([]) == ""
    assert downsample([1.0, 3.0, None, 5.0], 2) == [2.0, 5.0]
    assert downsample([9.0, 1.0, 3.0, None, None], 3) == [9.0, 2.0, None]
    assert downsample([1.0, 2.0], 5) == [1.0, 2.0]
    assert downsample([], 5) == []
