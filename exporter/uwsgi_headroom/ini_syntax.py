"""The syntax of uWSGI's ini files, for all who read or change one: what stands where, not what it does.

Each rule is uWSGI's own, as tried with uWSGI 2.0.31 (`--show-config`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

DEFAULT_SECTION = "uwsgi"

LOADS = ("ini", "include", "inherit")
"""Options that load another ini file: at their own place, but `inherit` after all other options."""

OTHER_FORMATS = (
    *("xml", "xmlconfig", "yaml", "yml", "json", "js", "config", "ini-paste", "ini-paste-logged", "config-py"),
)
"""Options that load a file in another format."""

_BLANK = " \t\r"
_CONDITIONS = re.compile(r"if-.+|for|for-.+|if(env|exists|plugin|dir)")
_ENDS = ("end", "endif", "end-if", "endfor", "end-for")
_OFF = ("false", "off", "no", "0")


class Option(NamedTuple):
    """An option as it is written, and the number of its line, from 1."""

    number: int
    key: str
    value: str


def list_options(text: str, section: str) -> Iterator[Option]:
    """The options in all parts of a section. Comments are lines of their own, no line continues another, and a line
    without `=` is an option without a value."""
    present = None
    for number, line in enumerate((line.strip(_BLANK) for line in text.split("\n")), 1):
        if line.startswith("["):
            present = line[1:-1]
        elif present == section and line and line[0] not in ";#":
            key, _, value = line.partition("=")
            yield Option(number, key.rstrip(_BLANK), value.lstrip(_BLANK))


def resolve_set(key: str, value: str) -> tuple[str, str]:
    """`set = key=value` sets the option `key`."""
    while key == "set" and "=" in value:
        key, _, value = value.partition("=")
    return key, value


def begins_block(key: str) -> bool:
    """Whether an option begins a condition or a loop."""
    return _CONDITIONS.fullmatch(key) is not None


def ends_block(key: str) -> bool:
    """Whether an option ends all conditions and loops: they have no depth."""
    return key in _ENDS


def split_name(name: str) -> tuple[str, str]:
    """The file and the section of a name such as `file:section`. `:section` has no file: it is the one read last."""
    file, colon, section = name.rpartition(":")
    return (file, section or DEFAULT_SECTION) if colon else (name, DEFAULT_SECTION)


def is_on(value: str) -> bool:
    return value.lower() not in _OFF
