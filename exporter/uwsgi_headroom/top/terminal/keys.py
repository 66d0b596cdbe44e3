"""Decodes the keys that a terminal sends."""

from __future__ import annotations

import re

_SEQUENCES = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "7~": "home",
    "4~": "end",
    "8~": "end",
    "5~": "pageup",
    "6~": "pagedown",
    "Z": "backtab",
    "P": "f1",
    "S": "f4",
    "11~": "f1",
    "14~": "f4",
    "15~": "f5",
    "21~": "f10",
    "[A": "f1",
    "[D": "f4",
    "[E": "f5",
}
"""Keys by the text after ESC [ or ESC O, with the function keys of xterm, rxvt and the Linux console."""

_CONTROLS = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\b": "backspace"}
_PART = re.compile(r"\x1b[\[O]([0-9;]*)(\[?[A-Za-z~])|(\x1b(?:[\[O][0-9;]*\[?)?)$|(.)", re.DOTALL)


def split_keys(text: str) -> tuple[list[str], str]:
    """Split input into keys, and the beginning of a sequence whose end has not arrived, such as a lone ESC."""
    pressed: list[str] = []
    for numbers, letter, unfinished, character in _PART.findall(text):
        if unfinished:
            return pressed, unfinished
        if letter:
            known = _SEQUENCES.get(numbers + letter if letter == "~" else letter)
            pressed += [known] if known else []
        elif character == "\x1b":
            pressed.append("escape")
        else:
            pressed.append(_CONTROLS.get(character, character))
    return pressed, ""
