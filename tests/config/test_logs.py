"""uWSGI's logs: their names and paths, and where they are set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.test_precedence import refusal, resolved
from uwsgi_headroom.config import yaml_file
from uwsgi_headroom.config.parsers import parse_logs
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS, Settings
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.watch.fleet import find_log


def test_no_log_is_read_by_default() -> None:
    """A log has a URL for every request."""
    assert DEFAULT_SETTINGS.logs == ()
    assert resolved("--stats", "shop=/a").servers[0].log == ""


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
def test_accepted(text: str, expected: tuple[str, str]) -> None:
    """A log has the name of a server, which may be an address, and a path, which becomes absolute."""
    assert parse_logs([(text, "--log")]) == (expected,)


NO_UNITS = ("shop=journal:", "shop=journal:a b", "shop=journal:../a", "shop=journal:a=b", f"shop=journal:{'a' * 300}")


@pytest.mark.parametrize(
    "text", ["", "shop", "shop=", "=/var/log/shop.log", "/var/log/shop.log", "shop=/a\0b", *NO_UNITS]
)
def test_refused(text: str) -> None:
    """Anything else is a mistake, whose message names the flag."""
    with pytest.raises(ConfigError, match=r"^--log: "):
        parse_logs([(text, "--log")])


def test_a_server_has_one_log() -> None:
    """Two logs of one name would be a mistake."""
    with pytest.raises(ConfigError, match="'shop' has two logs"):
        parse_logs([("shop=/a", "--log"), ("shop=/b", "--log")])


def test_the_name_is_that_of_a_server() -> None:
    """A name that no server has is refused, unless a pattern may still find it."""
    assert "no server is named 'ship'; there are shop" in refusal("--stats", "shop=/a", "--log", "ship=/b")
    assert resolved("--stats", "/run/*.stats", "--log", "ship=/b").settings.logs == (("ship", "/b"),)
    assert resolved("--log", "ship=/b").settings.logs == (("ship", "/b"),)


def test_in_the_file(tmp_path: Path) -> None:
    """`log` is a key of a server; its own counts before that of the flag."""
    path = tmp_path / "headroom.yml"
    path.write_text("servers:\n  - name: shop\n    stats: /a\n    log: /var/log/shop.log\n")
    (server,) = yaml_file.load_file(path).servers
    assert server.log == "/var/log/shop.log"
    flag = Settings(logs=(("shop", "/other"), ("blog", "/blog")))
    assert find_log(server, "shop", flag) == "/var/log/shop.log"
    assert find_log(ServerConfig("blog", None), "blog", flag) == "/blog"
    assert find_log(ServerConfig("wiki", None), "wiki", flag) == ""


def test_a_pattern_has_no_log(tmp_path: Path) -> None:
    """All servers of a pattern would read one file."""
    path = tmp_path / "headroom.yml"
    path.write_text("servers:\n  - stats: /run/*.stats\n    log: /var/log/shop.log\n")
    with pytest.raises(ConfigError, match="a pattern has many logs"):
        yaml_file.load_file(path)
