"""Reads the lines of a uWSGI ini file and of the ones that it includes, in uWSGI's order."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom import ini_syntax
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.words.formats import counted

MOST_BYTES = 256 << 10
MOST_FILES = 20

PLACEHOLDER = re.compile(r"%\(([^)]+)\)|\$\(([^)]+)\)|%k")

_MAGIC = re.compile(r"%([%oOpPsSdDeEnNcCxX0-9])")


@dataclass(frozen=True, slots=True)
class Line:
    """An option, and where it stands."""

    file: Path
    number: int
    key: str
    value: str
    conditional: bool = False
    """Whether it stands within a condition or a loop."""


class Reader:
    """Reads a file and what it includes. first: the file that was given. directory: in which uWSGI starts, against
    which it resolves names."""

    def __init__(self, first: Path, directory: Path) -> None:
        self._first = self._latest = first
        self._directory = directory
        self._inherited: deque[tuple[str, Path, bool]] = deque()
        self._count = 0

    def read(self, section: str, text: str) -> Iterator[Line]:
        """The options in a section of the given file, with those of included files in their place, and inherited ones
        last. Raises ConfigError."""
        yield from self._read(self._first, section, text, within=False)
        while self._inherited:
            yield from self._include(*self._inherited.popleft())

    def _read(self, path: Path, section: str, text: str, within: bool) -> Iterator[Line]:
        """within: whether the file is included within a condition."""
        self._count += 1
        if self._count > MOST_FILES:
            raise ConfigError(f"{self._first} includes more than {counted(MOST_FILES, 'file')}")
        self._latest = path
        found, conditional = False, within
        for number, *written in ini_syntax.list_options(text, section):
            found = True
            key, value = ini_syntax.resolve_set(*written)
            if ini_syntax.begins_block(key):
                conditional = True
            elif ini_syntax.ends_block(key):
                conditional = within
            if key == "inherit":
                self._inherited.append((value, path, conditional))
            elif key in ini_syntax.LOADS:
                yield from self._include(value, path, conditional)
            elif key in ini_syntax.OTHER_FORMATS:
                raise ConfigError(f"{path}, line {number}: tune reads ini files only, and {key} loads another")
            else:
                yield Line(path, number, key, _replace_magic(value, path, section, self._first), conditional)
        if not found:
            raise ConfigError(f"{path} has no options in a section [{section}]: tune reads ini files only")

    def _include(self, name: str, path: Path, conditional: bool) -> Iterator[Line]:
        """path: of the file that names it."""
        file, section = ini_syntax.split_name(name)
        file = _replace_magic(file, path, ini_syntax.DEFAULT_SECTION, self._first).replace("%%", "%")
        if "://" in name or PLACEHOLDER.search(file):
            raise ConfigError(f"{path}: tune cannot follow {name}: give an ini file without it")
        included = self._directory / file if file else self._latest
        if conditional and not included.exists():
            return  # the condition is false, such as `if-exists`
        yield from self._read(included, section, read_text(included), conditional)


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
            "x": "" if section == ini_syntax.DEFAULT_SECTION else section,
        }
        return found[match[1].lower()].replace("%", "%%")  # uWSGI reads the measured file, and takes them back

    return _MAGIC.sub(substitute, value)
