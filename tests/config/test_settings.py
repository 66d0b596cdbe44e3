"""Settings from flags, variables and the file: each has its row, and the order is fixed."""

import operator
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from tools.environments import ROOT
from uwsgi_headroom.arguments.commands import SETTING_FLAGS
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config import precedence
from uwsgi_headroom.config.defaults import HISTORY_MAX_SIZE
from uwsgi_headroom.config.parsers import parse_logs, parse_size
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS, FLAGS, SERVER_SETTINGS, SETTINGS, Config, Settings
from uwsgi_headroom.config.yaml_file import load_file
from uwsgi_headroom.errors import LONGEST_MESSAGE, ConfigError
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.fleet import find_log

NOTHING_GIVEN = Parser(flags=SETTING_FLAGS).parse_args([])
SAMPLES = {
    "stats": ("/a", lambda result: [server.address for server in result.servers], [Unix("/a")]),
    "config": ("{file}", lambda result: result.log_level, "error"),
    "web_listen_address": ("[::1]:1", lambda result: result.listen, (("::1", 1),)),
    "web_allowed_hosts": ("Headroom.example.com", lambda result: result.allowed_hosts, ("headroom.example.com",)),
    "web_readers": ("grafana", lambda result: result.readers, ("grafana",)),
    "discover": ("true", lambda result: result.discover, True),
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
    "uwsgi_log": ("a=/var/log/a.log", lambda result: result.settings.logs, (("a", "/var/log/a.log"),)),
    "log_level": ("warning", lambda result: result.log_level, "warning"),
    "log_format": ("json", lambda result: result.log_format, "json"),
}


def test_every_setting_has_a_row_a_variable_and_a_default(write):
    path = write("log: {level: error}\n")
    assert set(vars(NOTHING_GIVEN)) == set(SAMPLES)
    for flag in SETTING_FLAGS:
        text, look, expected = SAMPLES[flag.name]
        value = text.format(file=path) if "{" in text else text
        name = flag.name.upper()
        assert f"[UWSGI_HEADROOM_{name}" in flag.help
        assert flag.names[-1].lstrip("-").replace(".", "_").replace("-", "_") == flag.name
        assert look(resolved(**{name: value})) == expected
        words = (flag.names[-1], value) if flag.takes_value else (flag.completed[value != "true"],)
        assert look(resolved(*words)) == expected
    ours = {field.name for field in fields(Config)} - {"settings", "servers", "probe"}
    watching = {f"settings.{field.name}" for field in fields(Settings)}
    rows = [setting.field for setting in SETTINGS if setting.field]
    assert sorted(rows) == sorted(ours | watching)
    servers = {setting.field for setting in SERVER_SETTINGS if setting.field}
    assert servers <= {*ServerConfig.__struct_fields__}
    assert {setting.name for setting in FLAGS} == set(vars(NOTHING_GIVEN))
    assert precedence.unknown_variables({f"UWSGI_HEADROOM_{setting.name.upper()}": "" for setting in FLAGS}) == []
    assert precedence.unknown_variables({"UWSGI": "/usr/bin/uwsgi", "HOME": "/"}) == []
    assert resolved() == Config()


DOCUMENT = (ROOT / "docs" / "configuration.md").read_text()

NO_VALUE = """
allowed_hosts web_config_file discover history settings.slo settings.backends settings.route_templates
settings.code_prefixes
"""
"""The fields of settings that are empty by default."""


@pytest.mark.parametrize("setting", FLAGS, ids=lambda setting: setting.name)
def test_the_default_of_the_documents_is_the_default(setting):
    shown = [(text, "docs") for text in re.findall("`([^`]+)`", setting.default)]
    default = operator.attrgetter(setting.field)(Config()) if setting.field else None
    if setting.field in NO_VALUE.split():
        assert not shown
        assert not default
    elif setting.field:
        assert (setting.parse(shown) if setting.is_repeatable else setting.parse(*shown[0])) == default


def test_the_file_of_the_documents_shows_every_key(write):
    text = next(block for block in re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL) if "servers:" in block)
    config = load_file(write(text))
    assert (config.log_format, config.settings.routes, config.probe is None) == ("json", True, False)
    shown = yaml.safe_load(text)
    for setting in SETTINGS:
        section, _, key = setting.key.partition(".")
        assert not setting.key or (key in shown[section] if key else section in shown), setting.key
    servers = {key for server in shown["servers"] for key in server}
    assert servers == {setting.key for setting in SERVER_SETTINGS}


# The variables that Kubernetes sets in each pod for services called uwsgi-headroom, -stats and -log-level.
SERVICES = """
SERVICE_HOST SERVICE_PORT SERVICE_PORT_WINDOW PORT PORT_9238_TCP PORT_9238_TCP_PROTO PORT_9238_TCP_PORT
PORT_9238_TCP_ADDR STATS_PORT STATS_SERVICE_HOST LOG_LEVEL_PORT LOG_LEVEL_SERVICE_PORT LOG_LEVEL_PORT_80_TCP
"""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("STAT", "STATS"),
        ("stats", "STATS"),
        ("WINDOWS", "WINDOW"),
        ("LISTEN_ADDRESS", "WEB_LISTEN_ADDRESS"),
        ("LOGLEVEL", "LOG_LEVEL"),
        ("SAMPLE_PER_SECOND", "SAMPLES_PER_SECOND"),
        ("CPU_RESIDENCE", "CPU_RESIDENCY"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_right_one(name, meant):
    message = f"unknown environment variable UWSGI_HEADROOM_{name}; did you mean UWSGI_HEADROOM_{meant}?"
    assert refusal(**{name: "x"}) == message


@pytest.mark.parametrize("name", [*SERVICES.split(), "VERSION", "IMAGE", "CONFIG_DIR"])
def test_names_of_orchestration_stop_nothing(name):
    environment = {f"UWSGI_HEADROOM_{name}": "tcp://10.0.0.1:9238"}
    assert precedence.resolve_config(NOTHING_GIVEN, environment) == precedence.resolve_config(NOTHING_GIVEN, {})
    assert precedence.unknown_variables(environment) == [f"UWSGI_HEADROOM_{name}"]


def resolved(*arguments: str, **environment: str) -> Config:
    named = {f"UWSGI_HEADROOM_{name}": value for name, value in environment.items()}
    return precedence.resolve_config(Parser(flags=SETTING_FLAGS).parse_args(arguments), named)


def refusal(*arguments: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved(*arguments, **environment)
    return str(caught.value)


def test_flags_go_before_variables_and_those_before_the_file(write):
    """Servers of the file and of flags add up."""
    path = write("log: {level: error, format: json}\nweb: {listen_address: ':1'}\n")
    given = resolved("--config", str(path), "--log.level", "debug", LOG_LEVEL="warning", WEB_LISTEN_ADDRESS=":2")
    assert (given.log_level, given.listen, given.log_format) == ("debug", (("", 2),), "json")
    given = resolved(CONFIG=str(path), LOG_LEVEL="warning")
    assert (given.log_level, given.listen, given.log_format) == ("warning", (("", 1),), "json")
    path = write("servers: [a=/a]\n")
    given = resolved("--config", str(path), "--stats", "b=/b", "--stats", "/run/*.stats", STATS="c=/c")
    assert [server.name or server.pattern for server in given.servers] == ["a", "b", "/run/*.stats"]
    given = resolved("--config", str(path), STATS="b=/b  c=/c")
    assert [server.name for server in given.servers] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "where", "advice"),
    [
        (("--stats", "shop"), "--stats", "tcp://host:port"),
        (("--stats", ""), "--stats", "tcp://host:port"),
        (("--stats", "shop="), "--stats", "tcp://host:port"),
        (("--stats", "shop=/run/*.stats"), "--stats", "is a glob"),
        (("--web.listen-address", "9238"), "--web.listen-address", "host:port"),
        (("--web.listen-address", "a:b"), "--web.listen-address", "host:port"),
        (("--web.listen-address", "::1:80"), "--web.listen-address", "host:port"),
        (("--web.listen-address", "h:65536"), "--web.listen-address", "host:port"),
        (("--log.level", "loud"), "--log.level", "debug, info, warning, error"),
        (("--log.format", "xml"), "--log.format", "logfmt, json"),
        (("--backends", "db:5432"), "--backends", "10.0.0.5:5432"),
        (("--config", "/nowhere.yml"), "/nowhere.yml", "No such file"),
        ({"STATS": "shop"}, "UWSGI_HEADROOM_STATS", ""),
        ({"WEB_LISTEN_ADDRESS": "x"}, "UWSGI_HEADROOM_WEB_LISTEN_ADDRESS", ""),
        ({"LOG_LEVEL": "x"}, "UWSGI_HEADROOM_LOG_LEVEL", ""),
        ({"SAMPLES_PER_SECOND": "99"}, "UWSGI_HEADROOM_SAMPLES_PER_SECOND", ""),
    ],
)
def test_a_mistake_names_its_flag_or_variable(arguments, where, advice):
    message = refusal(**arguments) if isinstance(arguments, dict) else refusal(*arguments)
    assert message.startswith(f"{where}: ")
    assert advice in message


def test_two_servers_of_one_name(write):
    """They are refused with both origins and how to name them, also one of the file and one of a flag."""
    message = refusal("--stats", "/a/stats", "--stats", "/b/stats")
    assert "'stats'" in message
    assert "NAME=unix:///b/stats" in message
    path = write("servers:\n  - a=/a\n  - b=/b\n  - a=/c\n")
    message = refusal("--config", str(path))
    assert message.startswith(f"{path}:4: ")
    assert f"{path}:2" in message
    path = write("servers: [a=/a]\n")
    message = refusal("--config", str(path), "--stats", "a=/b")
    assert message.startswith("--stats: ")
    assert f"{path}:1" in message
    assert len(resolved("--stats", "/a/*.stats", "--stats", "/b/*.stats").servers) == 2


def test_two_names_of_one_address(write):
    """It would be read twice: refused with both origins, in any notation. A file may have several names."""
    message = refusal("--stats", "a=/run/shop.stats", "--stats", "b=unix:///run/shop.stats")
    assert "unix:///run/shop.stats" in message
    assert "'a'" in message
    path = write("servers:\n  - a=127.0.0.1:1717\n  - b=/b\n")
    message = refusal("--config", str(path), "--stats", "c=tcp://127.0.0.1:1717")
    assert message.startswith("--stats: ")
    assert f"{path}:2" in message
    assert len(resolved("--stats", "a=file:///a.json", "--stats", "b=file:///a.json").servers) == 2


@pytest.mark.parametrize("rate", ["0", "0.24", "20.1", "-5", "nan", "inf", "often"])
def test_rates(rate):
    with pytest.raises(ConfigError, match=r"--samples-per-second: expected a number from 0.25 to 20, not '.*'"):
        resolved(f"--samples-per-second={rate}")
    for allowed in ("0.25", "20"):
        assert resolved("--samples-per-second", allowed).settings.samples_per_second == float(allowed)


NO_WINDOWS = [f"sampling:\n  windows: {empty}\n" for empty in ("", "~", "[]")]


@pytest.mark.parametrize("text", [*NO_WINDOWS, "backends:\n", "backends: {}\n", "backends: null\n"])
def test_no_windows_and_no_backends_are_the_default_ones(write, text):
    assert load_file(write(text)).settings == DEFAULT_SETTINGS


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("history: /var/lib/h.sqlite", ("/var/lib/h.sqlite", HISTORY_MAX_SIZE)),
        ("history:\n  file: /h.sqlite\n  max_size: 250MB", ("/h.sqlite", 250_000_000)),
        ("history: {max_size: 1tb}", ("", 10**12)),
        ("history:", ("", HISTORY_MAX_SIZE)),
        ("servers: []", ("", HISTORY_MAX_SIZE)),
    ],
)
def test_history_in_the_file(write, text, settings):
    config = load_file(write(text))
    assert (config.history, config.history_max_size) == settings


def test_a_long_value_is_not_quoted_whole(write):
    path = write(f"web: {{listen_address: {'x' * 100_000}}}")
    with pytest.raises(ConfigError) as caught:
        load_file(path)
    message = str(caught.value)
    assert len(message) < LONGEST_MESSAGE + 50
    assert message.startswith(f"{path}:1: 'xxx")
    assert "characters] xxx" in message
    assert message.endswith("write host:port, such as 127.0.0.1:9238")


def test_a_log_is_that_of_a_server():
    """None is read by default. A server has one; a name without a server is refused, unless a pattern may find it."""
    assert DEFAULT_SETTINGS.logs == ()
    assert resolved("--stats", "shop=/a").servers[0].log == ""
    with pytest.raises(ConfigError, match="'shop' has two logs"):
        parse_logs([("shop=/a", "--log"), ("shop=/b", "--log")])
    assert "no server is named 'ship'; there are shop" in refusal("--stats", "shop=/a", "--log", "ship=/b")
    assert resolved("--stats", "/run/*.stats", "--log", "ship=/b").settings.logs == (("ship", "/b"),)
    assert resolved("--log", "ship=/b").settings.logs == (("ship", "/b"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shop=/var/log/shop.log", ("shop", "/var/log/shop.log")),
        ("/run/shop.stats=/var/log/a=b.log", ("/run/shop.stats", "/var/log/a=b.log")),
        ("127.0.0.1:1717=log", ("127.0.0.1:1717", str(Path.cwd() / "log"))),
        ("shop=journal:shop", ("shop", "journal:shop.service")),
        ("shop=journal:uwsgi@a\\x2db.service", ("shop", "journal:uwsgi@a\\x2db.service")),
    ],
)
def test_accepted_logs(text, expected):
    """A log has the name of a server, which may be an address, and a path, which becomes absolute."""
    assert parse_logs([(text, "--log")]) == (expected,)


NO_SIZES = ["", "MB", "5", "5 kB", "0MB", "0.5MB", "2000TB", "-1GB", "nanGB", "1e3GB", "\u0661GB", "1GiB"]
NO_LOGS = ["", "shop", "shop=", "=/var/log/shop.log", "/var/log/shop.log", "shop=/a\0b"]
NO_UNITS = [f"shop=journal:{name}" for name in ("", "a b", "../a", "a=b", "a" * 300)]


@pytest.mark.parametrize("text", [*NO_SIZES, *NO_LOGS, *NO_UNITS])
def test_sizes_and_logs_that_are_none(text):
    message = "is not a size from 1MB to 1TB, such as 500MB" if text in NO_SIZES else r"^--log: "
    with pytest.raises(ConfigError, match=message):
        parse_size(text, "--history-max-size") if text in NO_SIZES else parse_logs([(text, "--log")])


def test_a_log_in_the_file(write):
    """All servers of a pattern would read one file, so a pattern has none."""
    (server,) = load_file(write("servers:\n  - name: shop\n    stats: /a\n    log: /var/log/shop.log\n")).servers
    assert server.log == "/var/log/shop.log"
    flag = Settings(logs=(("shop", "/other"), ("blog", "/blog")))
    assert find_log(server, "shop", flag) == "/var/log/shop.log"
    assert find_log(ServerConfig("blog", None), "blog", flag) == "/blog"
    assert find_log(ServerConfig("wiki", None), "wiki", flag) == ""
    path = write("servers:\n  - stats: /run/*.stats\n    log: /var/log/shop.log\n")
    with pytest.raises(ConfigError, match="a pattern has many logs"):
        load_file(path)
