"""Reads a uWSGI ini file for `tune`: what of it is measured, and which setting it has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from uwsgi_headroom.analysis.formatting import counted
from uwsgi_headroom.analysis.what_if import SettingError, parse_setting
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.tune.application.switched_off import find_group, rewrite_value
from uwsgi_headroom.tune.application.variant import DEFAULT_LISTEN, Variant

MOST_BYTES = 256 << 10
MOST_FILES = 20

LOADS = ("ini", "include", "inherit")
"""Options that load another ini file."""

TUNED = ("processes", "workers", "threads", "thunder-lock", "cheaper", "cheaper-initial", "listen")
"""Options that `tune` sets itself in each variant."""

_ASYNC = ("async", "gevent", "asyncio", "ugreen", "gevent-early-monkey-patch", "tornado", "greenlet", "coroae", "loop")
OTHER_FORMATS = ("xml", "xmlconfig", "yaml", "yml", "json", "js", "config", "ini-paste", "ini-paste-logged")
_CONDITIONS = re.compile(r"if-.+|for|for-.+|if(env|file|dir|exists|opt|plugin|reload|hostname)")
_ENDS = ("end", "endif", "end-if", "endfor", "end-for")
_MAGIC = re.compile(r"%([%oOpPsSdDeEnNcCxX0-9])")
_PLACEHOLDER = re.compile(r"%\(([^)]+)\)|\$\(([^)]+)\)|%k")
_OFF = ("false", "off", "no", "0")


@dataclass(frozen=True, slots=True)
class Line:
    """An option: where it stands, and whether that is within a condition or a loop."""

    file: Path
    number: int
    key: str
    value: str
    conditional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ini:
    """An ini file as `tune` uses it. kept: the lines that are measured; off: the options that are left out, in order;
    present: the variant that it describes; text: the file itself, without those that it includes."""

    path: Path
    text: str
    kept: tuple[Line, ...]
    off: tuple[str, ...]
    present: Variant

    def render(self) -> str:
        """The ini file that is measured, without what each variant sets."""
        return "".join(["[uwsgi]\n", *(f"{line.key} = {line.value}\n" for line in self.kept)])


def read_ini(path: Path, cpus: int, environment: Mapping[str, str] = os.environ, text: str | None = None) -> Ini:
    """Read an ini file and the ones that it includes. cpus: of the machine, for `%k`. text: to read instead of what is
    in the file. Raises ConfigError."""
    texts = [_read_text(path) if text is None else text]
    lines = tuple(_read_lines(path, "uwsgi", path, texts))
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
    return Ini(path=path, text=texts[0], kept=tuple(kept), off=tuple(off), present=present)


def is_on(value: str) -> bool:
    """Whether a flag with this value is on, by uWSGI's rule."""
    return value.strip().lower() not in _OFF


def _fill_in(value: str, dropped: Mapping[str, str]) -> str:
    """Replace `%(option)` by its value, if that option is not in the measured file."""
    for name in re.findall(r"%\(([^)]+)\)", value):
        if name in dropped:
            value = value.replace(f"%({name})", dropped[name])
    return value


def _read_lines(path: Path, section: str, first: Path, texts: list[str], included_if: bool = False) -> Iterator[Line]:
    """The options of a section in uWSGI's order, with those of included files in their place, and inherited ones last.
    texts: of the files so far, that of `path` last. included_if: whether `path` is included within a condition."""
    if len(texts) > MOST_FILES:
        raise ConfigError(f"{first} includes more than {counted(MOST_FILES, 'file')}")
    found, inherited, conditional = False, list[str](), included_if
    for line in _list_options(path, texts[-1], section):
        found = True
        if _CONDITIONS.fullmatch(line.key):
            conditional = True
        elif line.key in _ENDS:  # one ends all: conditions have no depth
            conditional = included_if
        if line.key == "inherit":
            inherited.append(line.value)
        elif line.key in ("ini", "include"):
            yield from _include(line.value, path, first, texts, conditional)
        elif line.key in OTHER_FORMATS:
            raise ConfigError(f"{path}, line {line.number}: tune reads ini files only, and {line.key} loads another")
        else:
            value = _replace_magic(line.value, path, section, first)
            yield Line(path, line.number, line.key, value, conditional)
    if not found:
        raise ConfigError(f"{path} has no options in a section [{section}]")
    for name in inherited:
        yield from _include(name, path, first, texts, included_if)


def _include(name: str, path: Path, first: Path, texts: list[str], conditional: bool) -> Iterator[Line]:
    file, _, section = name.rpartition(":") if ":" in name else (name, "", "")
    file = _replace_magic(file, path, "uwsgi", first)
    if "://" in name or _PLACEHOLDER.search(file):
        raise ConfigError(f"{path}: tune cannot follow {name}: give an ini file without it")
    # uWSGI resolves names against the directory in which it starts.
    included = Path(file) if file else path
    if conditional and not included.exists():
        return  # the condition is false, such as `if-exists`
    texts.append(_read_text(included))
    yield from _read_lines(included, section or "uwsgi", first, texts, conditional)


def _read_text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is not a file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MOST_BYTES or b"\0" in content:
        raise ConfigError(f"{path} is not an ini file: it is {'too large' if len(content) > MOST_BYTES else 'binary'}")
    return content.decode(errors="surrogateescape")


def _list_options(path: Path, text: str, wanted: str) -> Iterator[Line]:
    """The options in all parts of a section, as uWSGI reads them: comments are lines of their own, and a line without
    `=` is an option without a value."""
    section = None
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped[1:].rstrip("]")
        elif section == wanted and stripped and stripped[0] not in ";#":
            key, _, value = stripped.partition("=")
            yield _resolve_set(Line(path, number, key.strip(), value.strip()))


def _resolve_set(line: Line) -> Line:
    """`set = key=value` sets the option `key`."""
    while line.key == "set" and "=" in line.value:
        key, _, value = line.value.partition("=")
        line = Line(line.file, line.number, key.strip(), value.strip())
    return line


def _replace_magic(value: str, path: Path, section: str, first: Path) -> str:
    """Replace the variables that stand for the file: the measured file is another one. Capitals: the first file. `%%`
    stays, and so `%%d` too."""

    def substitute(match: re.Match[str]) -> str:
        file = Path(os.path.abspath(first if match[1].isupper() else path))
        if match[1] == "%":
            return match[0]
        if match[1].isdigit():
            return dict(enumerate(file.parts[1:-1])).get(int(match[1]), "")
        return {
            "o": str(file),
            "p": str(file),
            "s": file.name,
            "d": f"{file.parent}/",
            "e": file.suffix.removeprefix("."),
            "n": file.stem,
            "c": file.parent.name,
            "x": section,
        }[match[1].lower()]

    return _MAGIC.sub(substitute, value)


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

    return _PLACEHOLDER.sub(substitute, _PLACEHOLDER.sub(substitute, value)).strip()
