"""Reads a uWSGI ini file for `tune`: decides what of it is measured, and finds the variant that it describes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from uwsgi_headroom.analysis.what_if import SettingError, parse_setting
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.ini_syntax import DEFAULT_SECTION, is_on
from uwsgi_headroom.tune.application.ini_lines import PLACEHOLDER, Line, Reader, read_text
from uwsgi_headroom.tune.application.switched_off import find_group, rewrite_value
from uwsgi_headroom.tune.application.variant import DEFAULT_LISTEN, Variant

TUNED = ("processes", "workers", "threads", "thunder-lock", "cheaper", "cheaper-initial", "listen")
"""Options that `tune` sets itself in each variant."""

_ASYNC = ("async", "gevent", "asyncio", "ugreen", "gevent-early-monkey-patch", "tornado", "greenlet", "coroae", "loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ini:
    """An ini file as `tune` uses it. The first four are the arguments of `read_ini`."""

    path: Path
    section: str
    cpus: int
    directory: Path
    text: str
    """The file itself, without those that it includes."""

    kept: tuple[Line, ...]
    """The lines that are measured."""

    off: tuple[str, ...]
    """The options that are left out, in order."""

    present: Variant
    """The variant that the file describes."""

    def render(self) -> str:
        """The ini file that is measured, without what each variant sets."""
        # A condition without an end would swallow the options of uWSGI's command line, which follow.
        end = ["endif = \n"] if self.kept and self.kept[-1].conditional else []
        return "".join(["[uwsgi]\n", *(f"{line.key} = {line.value}\n" for line in self.kept), *end])


def read_ini(
    path: Path,
    cpus: int,
    environment: Mapping[str, str] = os.environ,
    text: str | None = None,
    directory: Path = Path(),
    section: str = DEFAULT_SECTION,
) -> Ini:
    """Read an ini file and the ones that it includes. cpus: of the machine, for `%k`. text: to read instead of what is
    in the file. directory: in which uWSGI starts. Raises ConfigError."""
    own = read_text(path) if text is None else text
    lines = tuple(Reader(path, directory).read(section, own))
    _refuse(path, lines)
    kept, off, dropped = [], list[str](), dict[str, str]()
    for line in lines:
        value = rewrite_value(line.key, line.value)
        if value != line.value or find_group(line.key):
            off.append(line.key)
        if line.key in TUNED or find_group(line.key):
            dropped[line.key] = line.value
        else:
            kept.append(replace(line, value=_fill_in(value, dropped)))
    present = _find_present(path, lines, cpus, environment)
    return Ini(
        path=path,
        section=section,
        cpus=cpus,
        directory=directory,
        text=own,
        kept=tuple(kept),
        off=tuple(off),
        present=present,
    )


def reread(ini: Ini, text: str) -> Ini:
    """The same file with another text. Raises ConfigError."""
    return read_ini(ini.path, ini.cpus, text=text, directory=ini.directory, section=ini.section)


def _fill_in(value: str, dropped: Mapping[str, str]) -> str:
    """Replace `%(option)` by its value, if that option is not in the measured file."""
    for name in re.findall(r"%\(([^)]+)\)", value):
        if name in dropped:
            value = value.replace(f"%({name})", dropped[name])
    return value


def _refuse(path: Path, lines: tuple[Line, ...]) -> None:
    """Raise ConfigError for servers of a kind that has no processes and threads to choose."""
    for line in lines:
        if line.key in _ASYNC and is_on(line.value):
            raise ConfigError(
                f"{path}: {line.key} serves many requests with one thread; tune is for processes and threads"
            )
        if line.key == "map-socket":
            raise ConfigError(f"{path}: map-socket gives processes sockets of their own; remove it, then run tune")
    named = any(line.key in ("emperor", "vassals-dir") for line in lines)
    if named and not any(line.key in ("module", "wsgi", "wsgi-file", "file", "mount", "paste") for line in lines):
        raise ConfigError(f"{path} is an emperor's, without an application: give the ini file of one vassal")


def _find_present(path: Path, lines: tuple[Line, ...], cpus: int, environment: Mapping[str, str]) -> Variant:
    values: dict[str, Line] = {}
    for line in lines:
        values["processes" if line.key == "workers" else line.key] = line

    def number(key: str, default: int) -> int:
        line = values.get(key)
        if line is None or not line.value:
            return default
        text = _resolve(line.value, values, cpus, environment)
        if line.conditional or not re.fullmatch(r"\d{1,6}", text):
            raise ConfigError(
                f"{line.file}, line {line.number}: tune needs the number of {key}, and this is "
                f"{'within a condition' if line.conditional else repr(line.value)}: write the number"
            )
        return int(text)

    try:
        setting = parse_setting(f"{number('processes', 1)}x{number('threads', 1)}")
    except SettingError as error:
        raise ConfigError(f"{path}: {error}") from None
    listen = number("listen", DEFAULT_LISTEN)
    thunder_lock = "thunder-lock" in values and is_on(values["thunder-lock"].value)
    variant = Variant(
        setting,
        thunder_lock=thunder_lock,
        cheaper=number("cheaper", 0) or None,
        listen=None if listen == DEFAULT_LISTEN else listen,
    )
    return variant.with_setting(setting)


def _resolve(value: str, values: Mapping[str, Line], cpus: int, environment: Mapping[str, str]) -> str:
    """Replace `%k`, `$(VARIABLE)` and `%(name)`, one level deep; what is not known stays."""

    def substitute(match: re.Match[str]) -> str:
        if match[0] == "%k":
            return str(cpus)
        if match[2]:
            return environment.get(match[2], match[0])
        return values[match[1]].value if match[1] in values else match[0]

    return PLACEHOLDER.sub(substitute, PLACEHOLDER.sub(substitute, value)).strip()
