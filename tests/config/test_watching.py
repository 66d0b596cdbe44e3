"""The settings of what is watched and kept: sampling, history, logs."""

from pathlib import Path

import pytest

from tests.config.test_settings import refusal, resolved
from uwsgi_headroom.config.defaults import HISTORY_MAX_SIZE
from uwsgi_headroom.config.parsers import parse_logs, parse_size
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS, Settings
from uwsgi_headroom.config.yaml_file import load_file
from uwsgi_headroom.errors import LONGEST_MESSAGE, ConfigError
from uwsgi_headroom.watch.fleet import find_log


@pytest.mark.parametrize("rate", ["0.25", "20"])
def test_bounds_are_allowed(rate):
    assert resolved("--samples-per-second", rate).settings.samples_per_second == float(rate)


@pytest.mark.parametrize("rate", ["0", "0.24", "20.1", "-5", "nan", "inf", "often"])
def test_refused_rates(rate):
    with pytest.raises(ConfigError, match=r"--samples-per-second: expected a number from 0.25 to 20, not '.*'"):
        resolved(f"--samples-per-second={rate}")


@pytest.mark.parametrize("empty", ["", "~", "[]"])
def test_no_windows_are_the_default_ones(write, empty):
    assert load_file(write(f"sampling:\n  windows: {empty}\n")).settings == DEFAULT_SETTINGS


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
    """A path alone, or keys."""
    config = load_file(write(text))
    assert (config.history, config.history_max_size) == settings


@pytest.mark.parametrize(
    "text", ["", "MB", "5", "5 kB", "0MB", "0.5MB", "2000TB", "-1GB", "nanGB", "1e3GB", "\u0661GB", "1GiB"]
)
def test_sizes_that_are_none(text):
    """A size has a unit, and bounds."""
    with pytest.raises(ConfigError, match="is not a size from 1MB to 1TB, such as 500MB"):
        parse_size(text, "--history-max-size")


def test_a_long_value_is_not_quoted_whole(write):
    """The message still begins with the line and ends with what to do."""
    path = write(f"web: {{listen_address: {'x' * 100_000}}}")
    with pytest.raises(ConfigError) as caught:
        load_file(path)
    message = str(caught.value)
    assert len(message) < LONGEST_MESSAGE + 50
    assert message.startswith(f"{path}:1: 'xxx")
    assert "characters] xxx" in message
    assert message.endswith("write host:port, such as 127.0.0.1:9238")


def test_a_log_is_that_of_a_server():
    """None is read by default. A server has one; a name that no server has is refused, unless a pattern may find it."""
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


NO_UNITS = ("shop=journal:", "shop=journal:a b", "shop=journal:../a", "shop=journal:a=b", f"shop=journal:{'a' * 300}")


@pytest.mark.parametrize(
    "text", ["", "shop", "shop=", "=/var/log/shop.log", "/var/log/shop.log", "shop=/a\0b", *NO_UNITS]
)
def test_refused_logs(text):
    with pytest.raises(ConfigError, match=r"^--log: "):
        parse_logs([(text, "--log")])


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
