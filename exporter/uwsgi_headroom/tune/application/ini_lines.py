"""Reads the lines of a uWSGI ini file and of the ones that it includes, in uWSGI's order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.words.formats import counted

MOST_BYTES = 256 << 10
MOST_FILES = 20

DEFAULT_SECTION = "uwsgi"

LOADS = ("ini", "include", "inherit")
"""Options that load another ini file."""

OTHER_FORMATS = ("xml", "xmlconfig", "yaml", "yml", "json", "js", "config", "ini-paste", "ini-paste-logged")

PLACEHOLDER = re.compile(r"%\(([^)]+)\)|\$\(([^)]+)\)|%k")

_CONDITIONS = re.compile(r"if-.+|for|for-.+|if(env|file|dir|exists|opt|plugin|reload|hostname)")
_ENDS = ("end", "endif", "end-if", "endfor", "end-for")
_MAGIC = re.compile(r"%([%oOpPsSdDeEnNcCxX0-9])")


@dataclass(frozen=True, slots=True)
class Line:
    """An option: where it stands, and whether that is within a condition or a loop."""

    file: Path
    number: int
    key: str
    value: str
    conditional: bool = False


class Reader:
    """Reads a file and what it includes. first: the file that was given. directory: in which uWSGI starts, against
    which it resolves names."""

    def __init__(self, first: Path, directory: Path) -> None:
        self._first, self._directory, self._count = first, directory, 0

    def read(self, path: Path, section: str, text: str, included_if: bool = False) -> Iterator[Line]:
        """The options of a section, with those of included files in their place, and inherited ones last. included_if:
        whether `path` is included within a condition. Raises ConfigError."""
        self._count += 1
        if self._count > MOST_FILES:
            raise ConfigError(f"{self._first} includes more than {counted(MOST_FILES, 'file')}")
        found, inherited, conditional = False, list[str](), included_if
        for line in _list_options(path, text, section):
            found = True
            if _CONDITIONS.fullmatch(line.key):
                conditional = True
            elif line.key in _ENDS:  # one ends all: conditions have no depth
                conditional = included_if
            if line.key == "inherit":
                inherited.append(line.value)
            elif line.key in LOADS:
                yield from self._include(line.value, path, conditional)
            elif line.key in OTHER_FORMATS:
                raise ConfigError(
                    f"{path}, line {line.number}: tune reads ini files only, and {line.key} loads another"
                )
            else:
                value = _replace_magic(line.value, path, section, self._first)
                yield Line(path, line.number, line.key, value, conditional)
        if not found:
            raise ConfigError(f"{path} has no options in a section [{section}]: tune reads ini files only")
        for name in inherited:
            yield from self._include(name, path, included_if)

    def _include(self, name: str, path: Path, conditional: bool) -> Iterator[Line]:
        file, _, section = name.rpartition(":") if ":" in name else (name, "", "")
        file = _replace_magic(file, path, DEFAULT_SECTION, self._first).replace("%%", "%")
        if "://" in name or PLACEHOLDER.search(file):
            raise ConfigError(f"{path}: tune cannot follow {name}: give an ini file without it")
        included = self._directory / file if file else path
        if conditional and not included.exists():
            return  # the condition is false, such as `if-exists`
        yield from self.read(included, section or DEFAULT_SECTION, read_text(included), conditional)


def read_text(path: Path) -> str:
    """The text of an ini file; bytes that are no UTF-8 are kept. Raises ConfigError."""
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
            return dict(enumerate(file.parts[1:-1])).get(int(match[1]), "").replace("%", "%%")
        found = {
            "o": str(file),
            "p": str(file),
            "s": file.name,
            "d": f"{file.parent}/",
            "e": file.suffix.removeprefix("."),
            "n": file.stem,
            "c": file.parent.name,
            "x": "" if section == DEFAULT_SECTION else section,
        }
        return found[match[1].lower()].replace("%", "%%")  # uWSGI reads the measured file, and takes them back

    return _MAGIC.sub(substitute, value)
