"""Decoding of the keys that a terminal sends."""

from __future__ import annotations

import pytest

from uwsgi_headroom.top.terminal import split_keys


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
