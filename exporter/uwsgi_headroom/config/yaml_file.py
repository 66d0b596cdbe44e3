"""Reads the configuration file, which is YAML, and other small YAML files: a node, unlike a plain value, has a line
number, with which every mistake is reported.

docs/configuration.md shows all keys. Most of them are plain values, and follow from the rows of `SETTINGS`. Those with
a form of their own are read here: servers with their objectives and expectations, the targets of probes, and sections
that may be written as one value.
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
from typing import Any, NoReturn

import yaml
from msgspec.structs import replace
from yaml.reader import ReaderError

from uwsgi_headroom.config.defaults import JOURNAL, MOST_SERVERS_RANGE
from uwsgi_headroom.config.parsers import NumberRange, Texts, parse_boolean
from uwsgi_headroom.config.servers import ServerConfig, join, make_server, parse_pattern, parse_server_argument
from uwsgi_headroom.config.settings import SERVER_SETTINGS, SETTINGS, Config, ProbeConfig, SettingRow, assign
from uwsgi_headroom.config.slo import Slo, parse_objective, parse_threshold
from uwsgi_headroom.errors import AddressError, ConfigError

LARGEST = 1024 * 1024
"""Bytes."""

_LINE_END = r"\r\n|[\r\n\x85\u2028\u2029]"
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""What an escape of YAML can write and no path, label or answer can hold: NUL, and half of a surrogate pair."""


def read_file(path: Path, where: str = "", *, is_ordinary: bool = True) -> bytes:
    """Read a file. where: the line that names it, for messages; is_ordinary: refuses anything else, such as the pipe
    that a shell's <(...) gives. Raises ConfigError."""
    prefix = f"{where}: " * bool(where)
    flags = os.O_NONBLOCK * is_ordinary  # a FIFO without a writer would block
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags), "rb") as file:
            if is_ordinary and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{prefix}{path}: not an ordinary file")
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        problem = getattr(error, "strerror", None) or "not a path"
        is_folder = is_ordinary and isinstance(error, IsADirectoryError)
        raise ConfigError(f"{prefix}{path}: {'not an ordinary file' if is_folder else problem}") from None
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
        hint = "; indent with spaces" * ("'\\t'" in problem)
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
    """The readers of values that the parser of a file extends. path: for messages; directory: of relative paths in the
    file, "" for the working directory."""

    def __init__(self, path: str, directory: str) -> None:
        self._path, self._directory = path, directory

    def _mapping(
        self, node: yaml.Node | None, known: tuple[str, ...], places: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, yaml.Node]:
        """The values by key. places: where keys belong that are not known here."""
        keys: dict[str, yaml.Node] = {}
        for key, value in self._pairs(node, f"expected keys and values: {', '.join(known)}"):
            name = str(key.value)
            if name not in known:
                hint = f"known keys: {', '.join(known)}"
                for near in difflib.get_close_matches(name, known, 1):
                    hint = f"did you mean {near!r}?"
                if name in places:
                    hint = f"write it in {places[name]}"
                self._fail(key, f"unknown key {name!r}; {hint}")
            if name in keys:
                self._fail(key, f"duplicate key {name!r}")
            keys[name] = value
        return keys

    def _list(self, node: yaml.Node | None) -> list[yaml.Node]:
        return self._children(node, yaml.SequenceNode, "expected a list, each entry after a dash")

    def _pairs(self, node: yaml.Node | None, expected: str) -> list[tuple[yaml.Node, yaml.Node]]:
        return self._children(node, yaml.MappingNode, expected)

    def _children(self, node: yaml.Node | None, kind: type[yaml.Node], expected: str) -> list[Any]:
        """None for a value that is missing or null."""
        if node is None or self._is_null(node):
            return []
        if not isinstance(node, kind):
            self._fail(node, expected)
        return list(node.value)

    def _string(self, node: yaml.Node | None, default: str = "") -> str:
        """A text that may be empty, as null is in Go. default: for a value that is missing."""
        if node is None:
            return default
        if self._is_null(node):
            return ""
        if not isinstance(node, yaml.ScalarNode):
            self._fail(node, "expected text")
        return self._unicode(node)

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

    def _text_and_place(self, node: yaml.Node) -> tuple[str, str]:
        return self._text(node), self._where(node)

    def _unicode(self, node: yaml.ScalarNode) -> str:
        text = str(node.value)
        if _NO_TEXT.search(text):
            self._fail(node, "the text has a NUL, or half of a surrogate pair: write another character")
        return text

    def _is_null(self, node: yaml.Node) -> bool:
        return bool(node.tag == "tag:yaml.org,2002:null")

    def _where(self, node: yaml.Node) -> str:
        return f"{self._path}:{node.start_mark.line + 1}"

    def _fail(self, node: yaml.Node, message: str) -> NoReturn:
        raise ConfigError(f"{self._where(node)}: {message}")


_KEYS = ("servers", "sampling", "backends", "routes", "code", "history", "web", "probe", "log")
"""The keys of the file, in the order in which messages list them."""

_SECTIONS = ("sampling", "routes", "code", "history", "web", "log")
"""Those of them that have keys of their own, each with a row."""

_PLACES = {
    **{setting.key: "an entry of `servers`" for setting in SERVER_SETTINGS},
    **{key: f"the section `{section}`" for section, _, key in (each.key.partition(".") for each in SETTINGS) if key},
}
"""Where each key below the top belongs."""

_SHORT = {"routes": "enabled", "code": "enabled", "history": "file"}
"""Sections that may be written as one value, and the key that it then stands for."""

_STRING = "tag:yaml.org,2002:str"


def load_file(path: Path) -> Config:
    """Read a configuration file. Raises ConfigError with the line and the expected value in its message."""
    root = compose(read_file(path, is_ordinary=False), path)
    # A pipe, as a shell's <(...) gives, lies nowhere: paths in it are relative to the working directory.
    directory = str(path.absolute().parent) if path.is_file() else ""
    return _File(str(path), directory).config(root) if root else Config()


class _File(YamlNodes):
    """Walks the YAML nodes of the configuration file."""

    def config(self, root: yaml.Node) -> Config:
        top = self._mapping(root, _KEYS, _PLACES)
        nodes = {"backends": top["backends"]} if "backends" in top else {}
        for section in _SECTIONS:
            keys = self._section(section, top.get(section))
            nodes.update({f"{section}.{key}": node for key, node in keys.items()})
        values: dict[str, Any] = {
            "servers": tuple(self._server(node) for node in self._list(top.get("servers"))),
            "probe": self._probe(top.get("probe")),
            "settings.routes": any(name.startswith("routes.") for name in nodes),
            "settings.code": any(name.startswith("code.") for name in nodes),
        }
        for setting in SETTINGS:
            if node := nodes.get(setting.key):
                values.update(self._value(setting, node))
        return assign(Config(), values)

    def _section(self, name: str, node: yaml.Node | None) -> dict[str, yaml.Node]:
        if name in _SHORT and isinstance(node, yaml.ScalarNode) and not self._is_null(node):
            keys: dict[str, yaml.Node] = {_SHORT[name]: node}
        else:
            known = (setting.key.partition(".") for setting in SETTINGS)
            keys = self._mapping(node, tuple(key for section, _, key in known if section == name))
        file = keys.get("file")
        if file and file.tag != _STRING:  # `yes` and `.nan` are no paths
            self._fail(file, "expected the path of a file; without this key, the history stays in memory")
        return keys

    def _value(self, setting: SettingRow, node: yaml.Node) -> dict[str, Any]:
        """The value of a setting by its field; nothing for an empty list."""
        if setting.is_mapping:
            pairs = self._pairs(node, "expected a name and an address for each backend")
            texts: Texts = [(f"{self._text(name)}={self._text(address)}", self._where(name)) for name, address in pairs]
        elif setting.is_repeatable:
            texts = self._texts(node)
        else:
            texts = [self._text_and_place(node)]
        if not texts:
            return {}
        if setting.is_path and not texts[0][0].startswith(JOURNAL):
            texts = [(join(self._directory, text), where) for text, where in texts]
        return {setting.field: setting.read(texts)}

    def _texts(self, node: yaml.Node | None) -> Texts:
        if isinstance(node, yaml.ScalarNode) and not self._is_null(node):
            return [self._text_and_place(node)]
        return list(map(self._text_and_place, self._list(node)))

    def _probe(self, node: yaml.Node | None) -> ProbeConfig | None:
        if node is None or self._is_null(node):
            return None
        if isinstance(node, yaml.ScalarNode):
            return ProbeConfig() if parse_boolean(*self._text_and_place(node)) else None
        targets = self._texts(self._mapping(node, ("targets",)).get("targets"))
        return ProbeConfig(tuple(parse_pattern(text, where) for text, where in targets))

    def _server(self, node: yaml.Node) -> ServerConfig:
        if isinstance(node, yaml.ScalarNode):
            return parse_server_argument(*self._text_and_place(node), self._directory)
        keys = self._mapping(node, tuple(setting.key for setting in SERVER_SETTINGS))
        if "stats" not in keys:
            self._fail(node, "a server needs `stats`, the address of its stats server")
        name = self._text(keys["name"]) if "name" in keys else ""
        try:
            stats, where = self._text(keys["stats"]), self._where(node)
            server = make_server(stats, name=name, where=where, directory=self._directory)
        except AddressError as error:
            self._fail(keys["stats"], str(error))
        values: dict[str, Any] = {}
        for setting in SERVER_SETTINGS:
            if setting.field and setting.key in keys:
                values.update(self._value(setting, keys[setting.key]))
        if "expect" in keys:
            values.update(self._expect(server, keys["expect"]))
        if "log" in keys and server.address is None:
            self._fail(keys["log"], "a pattern has many logs: give each server its own with --uwsgi-log NAME=PATH")
        if "slo" in keys:
            values["slo"] = self._slo(keys["slo"])
        return replace(server, **values)

    def _expect(self, server: ServerConfig, node: yaml.Node) -> dict[str, Any]:
        """The servers that a pattern should find: a number, or their names."""
        if server.address is not None:
            self._fail(node, "expect belongs to a pattern: a server of its own is always expected")
        if isinstance(node, yaml.ScalarNode) and node.tag != _STRING:
            return {"expect_number": NumberRange(*MOST_SERVERS_RANGE, is_whole=True)(*self._text_and_place(node))}
        return {"expect_names": tuple(dict.fromkeys(text for text, _ in self._texts(node)))}

    def _slo(self, node: yaml.Node) -> Slo:
        keys = self._mapping(node, ("threshold", "objective"))
        if len(keys) < 2:
            self._fail(node, "an objective needs `threshold`, such as 1s, and `objective`, such as 99%")
        threshold, objective = (self._text_and_place(keys[name]) for name in ("threshold", "objective"))
        return Slo(parse_threshold(*threshold), parse_objective(*objective), self._where(node))
