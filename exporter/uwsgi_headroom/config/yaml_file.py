"""Reads the configuration file, which is YAML, and reports every mistake with its line.

docs/configuration.md shows all keys. Most of them are plain values, and follow from the rows of `SETTINGS`. Those with
a form of their own are read here: servers with their objectives and expectations, the targets of probes, and sections
that may be written as one value.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from uwsgi_headroom.config.defaults import MOST_SERVERS_RANGE
from uwsgi_headroom.config.parsers import NumberRange, Texts
from uwsgi_headroom.config.probe_targets import parse_pattern
from uwsgi_headroom.config.servers import ServerConfig, join, make_server, parse_server_argument
from uwsgi_headroom.config.settings import SERVER_SETTINGS, SETTINGS, Config, ProbeConfig, SettingRow, assign
from uwsgi_headroom.config.slo import Slo, parse_objective, parse_threshold
from uwsgi_headroom.config.yaml_nodes import LARGEST, YamlNodes, compose
from uwsgi_headroom.errors import AddressError, ConfigError

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
    try:
        with path.open("rb") as file:  # also a pipe, as a shell's <(...) gives
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if len(content) > LARGEST:
        raise ConfigError(f"{path}: larger than a megabyte")
    root = compose(content, path)
    # A pipe, as a shell's <(...) gives, lies nowhere: paths in it are relative to the working directory.
    directory = str(path.absolute().parent) if path.is_file() else ""
    return _File(str(path), directory).config(root) if root else Config()


class _File(YamlNodes):
    """Walks the YAML nodes of the configuration file. directory: of relative paths in it."""

    def __init__(self, name: str, directory: str) -> None:
        super().__init__(name)
        self._directory = directory

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
        """The keys of a section."""
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
        """The value of a setting by its field; nothing if the node is an empty list."""
        if setting.is_repeatable:
            texts = self._pairs_as_texts(node) if setting.is_mapping else self._texts(node)
            return {setting.field: setting.parse(texts)} if texts else {}
        if isinstance(setting.parse, NumberRange):
            return {setting.field: self._number(node, setting.parse)}
        value = setting.parse(self._text(node), self._where(node))
        return {setting.field: join(self._directory, value) if setting.is_path and value else value}

    def _texts(self, node: yaml.Node | None) -> Texts:
        return [(self._text(each), self._where(each)) for each in self._one_or_more(node)]

    def _pairs_as_texts(self, node: yaml.Node) -> Texts:
        """Each key and its value as `NAME=ADDRESS`."""
        pairs = self._pairs(node, "expected a name and an address for each backend")
        return [(f"{self._text(name)}={self._text(address)}", self._where(name)) for name, address in pairs]

    def _probe(self, node: yaml.Node | None) -> ProbeConfig | None:
        if node is None or self._is_null(node):
            return None
        if isinstance(node, yaml.ScalarNode):
            return ProbeConfig() if self._boolean(node) else None
        targets = self._texts(self._mapping(node, ("targets",)).get("targets"))
        return ProbeConfig(tuple(parse_pattern(text, where) for text, where in targets))

    def _server(self, node: yaml.Node) -> ServerConfig:
        if isinstance(node, yaml.ScalarNode):
            return parse_server_argument(self._text(node), self._where(node), self._directory)
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
            self._fail(keys["log"], "a pattern has many logs: give each server its own with --log NAME=PATH")
        if "slo" in keys:
            values["slo"] = self._slo(keys["slo"])
        return replace(server, **values)

    def _expect(self, server: ServerConfig, node: yaml.Node) -> dict[str, Any]:
        """The servers that a pattern should find: a number, or their names."""
        if server.address is not None:
            self._fail(node, "expect belongs to a pattern: a server of its own is always expected")
        if isinstance(node, yaml.ScalarNode) and node.tag != _STRING:
            return {"expect_number": self._number(node, NumberRange(*MOST_SERVERS_RANGE, is_whole=True))}
        return {"expect_names": tuple(dict.fromkeys(text for text, _ in self._texts(node)))}

    def _slo(self, node: yaml.Node) -> Slo:
        keys = self._mapping(node, ("threshold", "objective"))
        if len(keys) < 2:
            self._fail(node, "an objective needs `threshold`, such as 1s, and `objective`, such as 99%")
        threshold, objective = keys["threshold"], keys["objective"]
        return Slo(
            parse_threshold(self._text(threshold), self._where(threshold)),
            parse_objective(self._text(objective), self._where(objective)),
            self._where(node),
        )
