"""Reads the configuration file, which is YAML, and reports every mistake with its line.

servers:
  - name: shop
    stats: unix:///run/uwsgi/shop.stats
    timeout: 5            # seconds for one read
    size_cap: 6291456     # bytes of one document
  - stats: /run/uwsgi/*.stats
sampling:
  samples_per_second: 5   # between scrapes, of each server
  windows: [1m, 5m]       # to average figures over; figures of single workers use the longest
  cpu_residency: false    # CPU time by worker and CPU: workers x CPUs more series
  waits: true             # what request threads wait for, where the kernel permits it
  read_pollfds: false     # read from the workers' memory which descriptors a thread polls
backends:                 # names for what request threads wait for
  postgres: 10.0.0.5:5432
web:
  listen_address: 127.0.0.1:9238
  allowed_hosts: [headroom.example.com]   # host names of the exporter behind a proxy
log:
  level: info
  format: logfmt
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import yaml

from uwsgi_headroom.config import values
from uwsgi_headroom.config.defaults import LOG_FORMATS, LOG_LEVELS, SAMPLES_PER_SECOND_RANGE
from uwsgi_headroom.config.model import SETTINGS, Config, ServerConfig, Settings
from uwsgi_headroom.errors import AddressError, ConfigError
from uwsgi_headroom.number_range import parse_number


def load_file(path: Path) -> Config:
    """Read a configuration file. Raises ConfigError with the line and the expected value in its message."""
    try:
        with path.open("rb") as file:
            root = yaml.compose(file, Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not a configuration file: nested too deeply") from None
    return _File(str(path)).config(root) if root else Config()


class _File:
    """Walks the YAML nodes of one file, because a node, unlike a plain value, has a line number."""

    def __init__(self, path: str) -> None:
        self._path = path

    def config(self, root: yaml.Node) -> Config:
        top = self._mapping(root, ("servers", "sampling", "backends", "web", "log"))
        sampling = replace(self._sampling(top.get("sampling")), backends=self._backends(top.get("backends")))
        web = self._mapping(top.get("web"), ("listen_address", "allowed_hosts"))
        log = self._mapping(top.get("log"), ("level", "format"))
        defaults = Config()
        listen = [
            values.parse_listen_address(self._text(node), self._where(node))
            for node in self._one_or_more(web.get("listen_address"))
        ]
        hosts = [
            values.parse_host_name(self._text(node), self._where(node))
            for node in self._one_or_more(web.get("allowed_hosts"))
        ]
        return Config(
            servers=tuple(self._server(node) for node in self._list(top.get("servers"))),
            listen=tuple(listen) or defaults.listen,
            allowed_hosts=tuple(hosts),
            settings=sampling,
            log_level=self._choice(log.get("level"), LOG_LEVELS, defaults.log_level),
            log_format=self._choice(log.get("format"), LOG_FORMATS, defaults.log_format),  # type: ignore[arg-type]
        )

    def _sampling(self, node: yaml.Node | None) -> Settings:
        keys = self._mapping(node, ("samples_per_second", "windows", "cpu_residency", "waits", "read_pollfds"))
        defaults = SETTINGS
        windows = keys.get("windows")
        return Settings(
            samples_per_second=self._number(
                keys.get("samples_per_second"), defaults.samples_per_second, *SAMPLES_PER_SECOND_RANGE
            ),
            windows=values.parse_windows(
                [self._text(window) for window in self._one_or_more(windows)], self._where(windows)
            )
            if windows
            else defaults.windows,
            cpu_residency=self._boolean(keys.get("cpu_residency"), defaults.cpu_residency),
            waits=self._boolean(keys.get("waits"), defaults.waits),
            read_pollfds=self._boolean(keys.get("read_pollfds"), defaults.read_pollfds),
        )

    def _backends(self, node: yaml.Node | None) -> tuple[tuple[str, str], ...]:
        if node is None or self._is_null(node):
            return ()
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, "expected a name and an address for each backend")
        texts = [f"{self._text(name)}={self._text(address)}" for name, address in node.value]
        return values.parse_backends(texts, self._where(node))

    def _server(self, node: yaml.Node) -> ServerConfig:
        if isinstance(node, yaml.ScalarNode):
            return values.parse_server_argument(self._text(node), self._where(node))
        keys = self._mapping(node, ("name", "stats", "timeout", "size_cap"))
        if "stats" not in keys:
            self._fail(node, "a server needs `stats`, the address of its stats server")
        defaults = ServerConfig("", None)
        try:
            return values.make_server(
                self._text(keys["stats"]),
                name=self._text(keys["name"]) if "name" in keys else "",
                timeout=self._number(keys.get("timeout"), defaults.timeout, 0.1, 60),
                size_cap=int(self._number(keys.get("size_cap"), defaults.size_cap, 4096, 2**30)),
                where=self._where(node),
            )
        except AddressError as error:
            self._fail(keys["stats"], str(error))

    def _mapping(self, node: yaml.Node | None, known: tuple[str, ...]) -> dict[str, yaml.Node]:
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

    def _text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
            self._fail(node, "expected text")
        return str(node.value)

    def _number(self, node: yaml.Node | None, default: float, least: float, most: float) -> float:
        if node is None:
            return default
        try:
            return parse_number(self._text(node), least, most)
        except ValueError:
            self._fail(node, f"expected a number from {least:g} to {most:g}")

    def _boolean(self, node: yaml.Node | None, default: bool) -> bool:
        return default if node is None else values.parse_boolean(self._text(node), self._where(node))

    def _choice(self, node: yaml.Node | None, known: Iterable[str], default: str) -> str:
        if node is None:
            return default
        text = self._text(node)
        if text not in known:
            self._fail(node, f"{text!r} is not one of {', '.join(known)}")
        return text

    def _is_null(self, node: yaml.Node) -> bool:
        return bool(node.tag == "tag:yaml.org,2002:null")

    def _where(self, node: yaml.Node) -> str:
        return f"{self._path}:{node.start_mark.line + 1}"

    def _fail(self, node: yaml.Node, message: str) -> NoReturn:
        raise ConfigError(f"{self._where(node)}: {message}")
