"""Reads small YAML files, and the files that they name, and walks their nodes.

A node, unlike a plain value, has a line number, which every message gives.
"""

from __future__ import annotations

import codecs
import difflib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import yaml
from yaml.reader import ReaderError

from uwsgi_headroom.config.parsers import NumberRange, parse_boolean
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.numbers import parse_number

LARGEST = 1024 * 1024
"""Bytes."""

_LINE_END = r"\r\n|[\r\n\x85\u2028\u2029]"
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""What an escape of YAML can write and no path, label or answer can hold: NUL, and half of a surrogate pair."""


def read_file(path: Path, where: str = "") -> bytes:
    """Read a file. where: the line that names it, for messages. Raises ConfigError."""
    prefix = f"{where}: " if where else ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO without a writer would block
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{prefix}{path}: not an ordinary file")
            content = file.read(LARGEST + 1)
    except IsADirectoryError:
        raise ConfigError(f"{prefix}{path}: not an ordinary file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError(f"{prefix}{path}: {getattr(error, 'strerror', None) or 'not a path'}") from None
    if len(content) > LARGEST:
        raise ConfigError(f"{prefix}{path}: larger than a megabyte")
    return content


def compose(content: bytes, path: Path) -> yaml.Node | None:
    """Parse YAML to its root node, None if it is empty. path: for messages. Raises ConfigError."""
    try:
        root: yaml.Node | None = yaml.compose(content, Loader=yaml.SafeLoader)
    except ReaderError as error:
        raise ConfigError(f"{path}:{_explain_character(content, error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        hint = "; indent with spaces" if "'\\t'" in problem else ""
        raise ConfigError(f"{path}{line}: not valid YAML: {problem}{hint}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not a configuration file: nested too deeply") from None
    return root


def _explain_character(content: bytes, error: ReaderError) -> str:
    """The line of a character that YAML cannot hold, and what it is. The position of such an error counts bytes if the
    content could not be decoded, and characters otherwise."""
    if error.encoding != "unicode":
        before = content[: error.position].decode(errors="replace")
        reason = f"the byte 0x{content[error.position]:02x} is not {error.encoding}: save the file as UTF-8"
    else:
        is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        before = content.decode("utf-16" if is_utf16 else "utf-8", "replace")[: error.position]
        reason = f"the character U+{error.character:04X} is not allowed"
    return f"{len(re.findall(_LINE_END, before)) + 1}: not valid YAML: {reason}"


class YamlNodes:
    """The readers of values that the parser of a file extends. path: for messages."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _mapping(
        self, node: yaml.Node | None, known: tuple[str, ...], places: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, yaml.Node]:
        """The values by key. places: where keys belong that are not known here."""
        if node is None or self._is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, f"expected keys and values: {', '.join(known)}")
        keys: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value)
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(known)}"
                hint = f"; write it in {places[name]}" if name in places else hint
                self._fail(key, f"unknown key {name!r}{hint}")
            if name in keys:
                self._fail(key, f"duplicate key {name!r}")
            keys[name] = value
        return keys

    def _list(self, node: yaml.Node | None) -> list[yaml.Node]:
        if node is None or self._is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            self._fail(node, "expected a list, each entry after a dash")
        return list(node.value)

    def _one_or_more(self, node: yaml.Node | None) -> list[yaml.Node]:
        return [node] if isinstance(node, yaml.ScalarNode) and not self._is_null(node) else self._list(node)

    def _pairs(self, node: yaml.Node | None, expected: str) -> list[tuple[yaml.Node, yaml.Node]]:
        """The keys and values of a mapping whose keys are not known beforehand."""
        if node is None or self._is_null(node):
            return []
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, expected)
        return list(node.value)

    def _string(self, node: yaml.Node) -> str:
        """A text that may be empty, as null is in Go."""
        if not isinstance(node, yaml.ScalarNode):
            self._fail(node, "expected text")
        return "" if self._is_null(node) else self._unicode(node)

    def _flag(self, node: yaml.Node | None, default: bool) -> bool:
        """A YAML boolean: a text in quotes is none."""
        if node is None or self._is_null(node):
            return default
        if node.tag != "tag:yaml.org,2002:bool":
            self._fail(node, "expected true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def _text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
            self._fail(node, "expected text")
        return self._unicode(node)

    def _unicode(self, node: yaml.ScalarNode) -> str:
        text = str(node.value)
        if _NO_TEXT.search(text):
            self._fail(node, "the text has a NUL, or half of a surrogate pair: write another character")
        return text

    def _number(self, node: yaml.Node, bounds: NumberRange) -> float:
        try:
            number = parse_number(self._text(node), bounds.least, bounds.most)
        except ValueError:
            self._fail(node, f"expected a number {bounds}")
        return int(number) if bounds.is_whole else number

    def _boolean(self, node: yaml.Node) -> bool:
        return parse_boolean(self._text(node), self._where(node))

    def _is_null(self, node: yaml.Node) -> bool:
        return bool(node.tag == "tag:yaml.org,2002:null")

    def _where(self, node: yaml.Node) -> str:
        return f"{self._path}:{node.start_mark.line + 1}"

    def _fail(self, node: yaml.Node, message: str) -> NoReturn:
        raise ConfigError(f"{self._where(node)}: {message}")
