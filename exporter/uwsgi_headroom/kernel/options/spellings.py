"""Spells the options in `Options`: their names in uWSGI, and the values that uWSGI makes of texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields

from uwsgi_headroom.ini_syntax import is_on
from uwsgi_headroom.record import Options, spell_option

APPLICATIONS = frozenset(("module", "wsgi", "wsgi-file", "file", "mount", "paste", "pecan", "psgi", "rack"))
"""Options that name an application. uWSGI loads it and then lists it in its stats."""

LOGS = frozenset(("logto", "logto2", "daemonize", "daemonize2", "logger", "req-logger", "logger-req"))
"""Options that name the file of a log. `logger` and `req-logger` name a kind before it, such as `file:`."""

PLAIN_NAME = re.compile(r"[\w./:@+=-]{1,200}", re.ASCII)
"""The names of modules, files and mount points that are safe to show."""

Value = int | bool | str | tuple[str, ...]

KINDS: Mapping[str, str] = {
    option.name: str(option.type).removesuffix(" | None") for option in fields(Options) if option.default is None
}
"""The type of a field's values, by field."""

NAMES: Mapping[str, str] = {field_name: spell_option(field_name) for field_name in KINDS}
"""uWSGI's name of the option, by field."""

FIELDS: Mapping[str, str] = {
    **{option: field_name for field_name, option in NAMES.items()},
    "workers": "processes",
    "stats-server": "stats",
}
"""The field of an option's value, by the option's name in all its spellings."""

_SHOWN: Mapping[str, re.Pattern[str]] = {
    "chmod_socket": re.compile(r"[0-7]{0,4}", re.ASCII),
    "http": re.compile(r"[\w.:*\[\]-]{0,100}:[0-9]{1,5}", re.ASCII),
    "http_socket": re.compile(r"[\w.:*\[\]-]{0,100}:[0-9]{1,5}", re.ASCII),
}
"""What a text has to look like to be kept, by field: another one counts, but is kept as `?`."""

_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,9}|)(?![0-9])", re.ASCII)
_LONGEST_TEXT = 200
_MOST_TEXTS = 64


def parse_value(name: str, text: str, before: object = None) -> Value | None:
    """The value of a field as uWSGI parses it; None if that is not certain.

    For a number, uWSGI takes the digits at the beginning of the text, or 0 (atoi(3)). A flag is off for `false`, `off`,
    `no` and `0`, in upper or lower case, and on for anything else. `before`: the earlier values, for an option that
    may be given several times.
    """
    kind = KINDS[name]
    if kind == "bool":
        return is_on(text)
    if kind == "int":
        if name == "asyncio" and not text:  # uWSGI then uses a default of its own
            return None
        number = _NUMBER.match(text)
        return int(number[1] or 0) if number else None
    if len(text) > _LONGEST_TEXT:
        return None
    if kind == "str":
        return text
    so_far = before if isinstance(before, tuple) else ()
    if name in _SHOWN and not _SHOWN[name].fullmatch(text):
        text = "?"
    return (*so_far, text) if len(so_far) < _MOST_TEXTS else None
