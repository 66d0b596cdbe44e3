"""Reads the configuration file, which is YAML, and reports every mistake with its line.

servers:
  - name: shop
    stats: unix:///run/uwsgi/shop.stats
    timeout: 5            # seconds for one read
    size_cap: 6291456     # bytes of one document
    stuck: 30s            # a request in service for this long counts as stuck
    slo: {threshold: 1s, objective: 99%}   # response time inside uWSGI, and the share of requests within it
  - stats: /run/uwsgi/*.stats
    expect: [shop, blog]  # servers that are down if they are not there; also a number, such as 2
sampling:
  samples_per_second: 5   # between scrapes, of each server
  windows: [1m, 5m]       # to average figures over; figures of single workers use the longest
  cpu_residency: false    # CPU time by worker and CPU: workers x CPUs more series
  waits: true             # what request threads wait for, where the kernel permits it
  read_pollfds: false     # read from the workers' memory which descriptors a thread polls
  max_servers: 400        # that patterns find
backends:                 # names for what request threads wait for
  postgres: 10.0.0.5:5432
routes:                   # which routes hold the busy threads; off without this key; also `routes: true`
  templates:
    - /orders/{id}
  beyond_loopback: false  # serve routes on addresses that other machines can reach, without a login
history:                  # a file with the history that lasts; also `history: FILE`
  file: /var/lib/uwsgi-headroom/history.sqlite
  max_size: 1GB           # above, the oldest minutes are deleted first
web:
  listen_address: 127.0.0.1:9238
  allowed_hosts: [headroom.example.com]   # host names of the exporter behind a proxy
  config_file: /etc/uwsgi-headroom/web.yml   # TLS and login, in the format of Prometheus exporters
probe:                    # `/probe?target=`, off without this key; also `probe: true`, for the servers above alone
  targets: ["10.0.3.*:1717", /run/uwsgi/*.stats]
log:
  level: info
  format: logfmt
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import yaml

from uwsgi_headroom.config import slo, values
from uwsgi_headroom.config.defaults import LOG_FORMATS, LOG_LEVELS, MOST_SERVERS_RANGE, SAMPLES_PER_SECOND_RANGE
from uwsgi_headroom.config.model import SETTINGS, Config, ProbeConfig, ServerConfig, Settings, Slo
from uwsgi_headroom.config.probe_targets import parse_pattern
from uwsgi_headroom.config.read_file import LARGEST
from uwsgi_headroom.config.yaml_nodes import YamlNodes, compose
from uwsgi_headroom.errors import AddressError, ConfigError
from uwsgi_headroom.routes.templates import parse_template, refuse_too_many


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
    return _File(str(path)).config(root) if root else Config()


class _File(YamlNodes):
    """Walks the YAML nodes of the configuration file."""

    def config(self, root: yaml.Node) -> Config:
        top = self._mapping(root, ("servers", "sampling", "backends", "routes", "history", "web", "probe", "log"))
        routes = self._routes(top.get("routes"))
        sampling = replace(
            self._sampling(top.get("sampling")),
            backends=self._backends(top.get("backends")),
            routes=bool(routes) and self._boolean(routes.get("enabled"), default=True),
            route_templates=self._templates(routes.get("templates")),
        )
        history = self._history(top.get("history"))
        web = self._mapping(top.get("web"), ("listen_address", "allowed_hosts", "config_file"))
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
            web_config_file=self._text(web["config_file"]) if "config_file" in web else "",
            settings=sampling,
            routes_beyond_loopback=self._boolean(routes.get("beyond_loopback"), default=False),
            history=self._text(history["file"]) if "file" in history else "",
            history_max_size=values.parse_size(self._text(history["max_size"]), self._where(history["max_size"]))
            if "max_size" in history
            else defaults.history_max_size,
            probe=self._probe(top.get("probe")),
            log_level=self._choice(log.get("level"), LOG_LEVELS, defaults.log_level),
            log_format=self._choice(log.get("format"), LOG_FORMATS, defaults.log_format),  # type: ignore[arg-type]
        )

    def _sampling(self, node: yaml.Node | None) -> Settings:
        keys = self._mapping(
            node, ("samples_per_second", "windows", "cpu_residency", "waits", "read_pollfds", "max_servers")
        )
        defaults = SETTINGS
        windows = keys.get("windows")
        return Settings(
            samples_per_second=self._number(
                keys.get("samples_per_second"), defaults.samples_per_second, *SAMPLES_PER_SECOND_RANGE
            ),
            windows=self._windows(windows) if windows else defaults.windows,
            cpu_residency=self._boolean(keys.get("cpu_residency"), defaults.cpu_residency),
            waits=self._boolean(keys.get("waits"), defaults.waits),
            read_pollfds=self._boolean(keys.get("read_pollfds"), defaults.read_pollfds),
            max_servers=int(self._number(keys.get("max_servers"), defaults.max_servers, *MOST_SERVERS_RANGE)),
        )

    def _windows(self, node: yaml.Node) -> tuple[float, ...]:
        lengths = [values.parse_windows([self._text(each)], self._where(each)) for each in self._one_or_more(node)]
        return tuple(sorted(set(chain.from_iterable(lengths))))

    def _backends(self, node: yaml.Node | None) -> tuple[tuple[str, str], ...]:
        if node is None or self._is_null(node):
            return ()
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, "expected a name and an address for each backend")
        texts: list[str] = []
        backends: tuple[tuple[str, str], ...] = ()
        for name, address in node.value:  # each with those before it: a message has the line of the last
            texts.append(f"{self._text(name)}={self._text(address)}")
            backends = values.parse_backends(texts, self._where(name))
        return backends

    def _routes(self, node: yaml.Node | None) -> dict[str, yaml.Node]:
        """The keys of `routes`, which may also be true or false."""
        if isinstance(node, yaml.ScalarNode) and not self._is_null(node):
            return {"enabled": node}
        return self._mapping(node, ("enabled", "templates", "beyond_loopback"))

    def _history(self, node: yaml.Node | None) -> dict[str, yaml.Node]:
        """The keys of `history`, which may also be the path of the file."""
        if isinstance(node, yaml.ScalarNode) and not self._is_null(node):
            keys: dict[str, yaml.Node] = {"file": node}
        else:
            keys = self._mapping(node, ("file", "max_size"))
        file = keys.get("file")
        if file and file.tag != "tag:yaml.org,2002:str":  # `yes` and `.nan` are no paths
            self._fail(file, "expected the path of a file; without this key, the history stays in memory")
        return keys

    def _probe(self, node: yaml.Node | None) -> ProbeConfig | None:
        if node is None or self._is_null(node):
            return None
        if isinstance(node, yaml.ScalarNode):
            return ProbeConfig() if self._boolean(node, default=False) else None
        targets = self._one_or_more(self._mapping(node, ("targets",)).get("targets"))
        return ProbeConfig(tuple(parse_pattern(self._text(each), self._where(each)) for each in targets))

    def _templates(self, node: yaml.Node | None) -> tuple[str, ...]:
        templates: tuple[str, ...] = ()
        for each in self._one_or_more(node):
            where = self._where(each)
            templates = refuse_too_many([*templates, parse_template(self._text(each), where)], where)
        return templates

    def _server(self, node: yaml.Node) -> ServerConfig:
        if isinstance(node, yaml.ScalarNode):
            return values.parse_server_argument(self._text(node), self._where(node))
        keys = self._mapping(node, ("name", "stats", "timeout", "size_cap", "slo", "stuck", "expect"))
        if "stats" not in keys:
            self._fail(node, "a server needs `stats`, the address of its stats server")
        defaults = ServerConfig("", None)
        try:
            server = values.make_server(
                self._text(keys["stats"]),
                name=self._text(keys["name"]) if "name" in keys else "",
                timeout=self._number(keys.get("timeout"), defaults.timeout, 0.1, 60),
                size_cap=int(self._number(keys.get("size_cap"), defaults.size_cap, 4096, 2**30)),
                where=self._where(node),
            )
        except AddressError as error:
            self._fail(keys["stats"], str(error))
        if "stuck" in keys:
            age = values.parse_stuck(self._text(keys["stuck"]), self._where(keys["stuck"]))
            server = replace(server, stuck_seconds=age)
        if "expect" in keys:
            server = self._expect(server, keys["expect"])
        return replace(server, slo=self._slo(keys["slo"])) if "slo" in keys else server

    def _expect(self, server: ServerConfig, node: yaml.Node) -> ServerConfig:
        """The servers that a pattern should find: a number, or their names."""
        if server.address is not None:
            self._fail(node, "expect belongs to a pattern: a server of its own is always expected")
        if isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:str":
            return replace(server, expect_number=int(self._number(node, 0, *MOST_SERVERS_RANGE)))
        return replace(server, expect_names=tuple(dict.fromkeys(self._text(each) for each in self._one_or_more(node))))

    def _slo(self, node: yaml.Node) -> Slo:
        keys = self._mapping(node, ("threshold", "objective"))
        if len(keys) < 2:
            self._fail(node, "an objective needs `threshold`, such as 1s, and `objective`, such as 99%")
        threshold, objective = keys["threshold"], keys["objective"]
        return Slo(
            slo.parse_threshold(self._text(threshold), self._where(threshold)),
            slo.parse_objective(self._text(objective), self._where(objective)),
            self._where(node),
        )
