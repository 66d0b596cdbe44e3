"""The rows of the settings: each has its flag, its variable, its key, its default and its place in the documents."""

from __future__ import annotations

import operator
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from tests.config.test_precedence import resolved
from tools.environments import ROOT
from uwsgi_headroom.arguments.commands import SETTING_FLAGS
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import FLAGS, SERVER_SETTINGS, SETTINGS, Config, SettingRow, Settings
from uwsgi_headroom.config.yaml_file import load_file
from uwsgi_headroom.source import Unix


def parser() -> Parser:
    return Parser(flags=SETTING_FLAGS)


SAMPLES = {
    "stats": ("/a", lambda result: [server.address for server in result.servers], [Unix("/a")]),
    "config": ("{file}", lambda result: result.log_level, "error"),
    "web_listen_address": ("[::1]:1", lambda result: result.listen, (("::1", 1),)),
    "web_allowed_hosts": ("Headroom.example.com", lambda result: result.allowed_hosts, ("headroom.example.com",)),
    "web_config_file": ("web.yml", lambda result: result.web_config_file, "web.yml"),
    "samples_per_second": ("2", lambda result: result.settings.samples_per_second, 2.0),
    "window": ("10m", lambda result: len(result.settings.windows), 1),
    "cpu_residency": ("true", lambda result: result.settings.cpu_residency, True),
    "waits": ("false", lambda result: result.settings.waits, False),
    "backends": ("pg=10.0.0.5:5432", lambda result: result.settings.backends, (("pg", "10.0.0.5:5432"),)),
    "read_pollfds": ("true", lambda result: result.settings.read_pollfds, True),
    "read_locks": ("true", lambda result: result.settings.read_locks, True),
    "slo": ("1s:99%", lambda result: result.settings.slo and result.settings.slo.objective, 0.99),
    "stuck": ("5m", lambda result: result.settings.stuck_seconds, 300.0),
    "routes": ("true", lambda result: result.settings.routes, True),
    "route_template": ("/orders/new", lambda result: result.settings.route_templates, ("/orders/new",)),
    "routes_beyond_loopback": ("true", lambda result: result.routes_beyond_loopback, True),
    "code": ("true", lambda result: result.settings.code, True),
    "code_prefix": ("/srv/shop/", lambda result: result.settings.code_prefixes, ("/srv/shop/",)),
    "code_beyond_loopback": ("true", lambda result: result.code_beyond_loopback, True),
    "history": ("/var/lib/h.sqlite", lambda result: result.history, "/var/lib/h.sqlite"),
    "history_max_size": ("1.5GB", lambda result: result.history_max_size, 1_500_000_000),
    "log": ("a=/var/log/a.log", lambda result: result.settings.logs, (("a", "/var/log/a.log"),)),
    "log_level": ("warning", lambda result: result.log_level, "warning"),
    "log_format": ("json", lambda result: result.log_format, "json"),
}


def test_every_flag_has_its_variable(tmp_path: Path) -> None:
    """Each flag of the parser has an environment variable, named in its help, that does the same."""
    path = tmp_path / "headroom.yml"
    path.write_text("log: {level: error}\n")
    assert set(vars(parser().parse_args([]))) == set(SAMPLES)
    for flag in SETTING_FLAGS:
        text, look, expected = SAMPLES[flag.name]
        value = text.format(file=path) if "{" in text else text
        name = flag.name.upper()
        assert f"[UWSGI_HEADROOM_{name}" in flag.help
        assert flag.names[0].lstrip("-").replace(".", "_").replace("-", "_") == flag.name
        assert look(resolved(**{name: value})) == expected
        assert look(resolved(flag.names[0], value)) == expected


DOCUMENT = (ROOT / "docs" / "configuration.md").read_text()

NO_VALUE = {
    "allowed_hosts",
    "web_config_file",
    "history",
    "settings.slo",
    "settings.backends",
    "settings.route_templates",
    "settings.code_prefixes",
}
"""The fields of settings that are empty by default."""


def get(config: Config, field: str) -> object:
    return operator.attrgetter(field)(config)


@pytest.mark.parametrize("setting", FLAGS, ids=lambda setting: setting.name)
def test_the_default_of_the_documents_is_the_default(setting: SettingRow) -> None:
    """Documents and help show the values that hold without the flag."""
    shown = [(text, "docs") for text in re.findall("`([^`]+)`", setting.default)]
    if not setting.field:
        return
    if setting.field in NO_VALUE:
        assert not shown
        assert not get(Config(), setting.field)
        return
    value = setting.parse(shown) if setting.is_repeatable else setting.parse(*shown[0])
    assert value == get(Config(), setting.field)


def test_every_field_has_a_row() -> None:
    """A setting without a row could be given nowhere. The servers, and the targets of probes, are no plain values."""
    ours = {field.name for field in fields(Config)} - {"settings", "servers", "probe"}
    watching = {f"settings.{field.name}" for field in fields(Settings)}
    rows = [setting.field for setting in SETTINGS if setting.field]
    assert sorted(rows) == sorted(ours | watching)
    servers = {setting.field for setting in SERVER_SETTINGS if setting.field}
    assert servers <= {field.name for field in fields(ServerConfig)}


def test_the_file_of_the_documents_shows_every_key(tmp_path: Path) -> None:
    """It is read, and has every key of the file and of a server."""
    text = next(block for block in re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL) if "servers:" in block)
    path = tmp_path / "headroom.yml"
    path.write_text(text)
    config = load_file(path)
    assert (config.log_format, config.settings.routes, config.probe is None) == ("json", True, False)
    shown = yaml.safe_load(text)
    for setting in SETTINGS:
        section, _, key = setting.key.partition(".")
        assert not setting.key or (key in shown[section] if key else section in shown), setting.key
    servers = {key for server in shown["servers"] for key in server}
    assert servers == {setting.key for setting in SERVER_SETTINGS}
