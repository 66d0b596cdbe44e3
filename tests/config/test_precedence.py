"""The precedence of settings, and the origin that a message names."""

from __future__ import annotations

from pathlib import Path

import pytest

from uwsgi_headroom.arguments.commands import SETTING_FLAGS
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config import precedence
from uwsgi_headroom.config.settings import Config
from uwsgi_headroom.errors import ConfigError


def resolved(*arguments: str, **environment: str) -> Config:
    parser = Parser(flags=SETTING_FLAGS)
    named = {f"UWSGI_HEADROOM_{name}": value for name, value in environment.items()}
    return precedence.resolve_config(parser.parse_args(arguments), named)


def refusal(*arguments: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved(*arguments, **environment)
    return str(caught.value)


def test_nothing_said() -> None:
    """Without flags, variables and file: no server, loopback, and logs of level info in logfmt."""
    assert resolved() == Config()


def test_flags_go_before_variables_and_those_before_the_file(tmp_path: Path) -> None:
    """A flag overrides its variable, the variable the file, and the file the default."""
    path = tmp_path / "headroom.yml"
    path.write_text("log: {level: error, format: json}\nweb: {listen_address: ':1'}\n")
    given = resolved("--config", str(path), "--log.level", "debug", LOG_LEVEL="warning", WEB_LISTEN_ADDRESS=":2")
    assert (given.log_level, given.listen, given.log_format) == ("debug", (("", 2),), "json")
    given = resolved(CONFIG=str(path), LOG_LEVEL="warning")
    assert (given.log_level, given.listen, given.log_format) == ("warning", (("", 1),), "json")


def test_servers_of_the_file_and_of_flags_add_up(tmp_path: Path) -> None:
    """`--stats` adds to the servers of the file; the flag replaces its variable."""
    path = tmp_path / "headroom.yml"
    path.write_text("servers: [a=/a]\n")
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
        (("--config", "/nowhere.yml"), "/nowhere.yml", "No such file"),
    ],
)
def test_a_mistake_names_its_flag(arguments: tuple[str, ...], where: str, advice: str) -> None:
    """A message about a wrong flag names the flag and the allowed values."""
    message = refusal(*arguments)
    assert message.startswith(f"{where}: ")
    assert advice in message


@pytest.mark.parametrize(
    ("name", "value"), [("STATS", "shop"), ("WEB_LISTEN_ADDRESS", "x"), ("LOG_LEVEL", "x"), ("LOG_FORMAT", "x")]
)
def test_a_mistake_names_its_variable(name: str, value: str) -> None:
    """A message about a wrong environment variable names the variable."""
    assert refusal(**{name: value}).startswith(f"UWSGI_HEADROOM_{name}: ")


def test_two_servers_of_one_name(tmp_path: Path) -> None:
    """Two servers with the same name are refused, with both origins and how to name them."""
    message = refusal("--stats", "/a/stats", "--stats", "/b/stats")
    assert "'stats'" in message
    assert "NAME=unix:///b/stats" in message
    path = tmp_path / "headroom.yml"
    path.write_text("servers:\n  - a=/a\n  - b=/b\n  - a=/c\n")
    message = refusal("--config", str(path))
    assert message.startswith(f"{path}:4: ")
    assert f"{path}:2" in message


def test_the_file_and_a_flag_of_one_name(tmp_path: Path) -> None:
    """A server of the file and one of a flag with the same name are refused too."""
    path = tmp_path / "headroom.yml"
    path.write_text("servers: [a=/a]\n")
    message = refusal("--config", str(path), "--stats", "a=/b")
    assert message.startswith("--stats: ")
    assert f"{path}:1" in message


def test_several_globs_have_no_name_to_share() -> None:
    """Globs have no names, so several of them are no duplicates."""
    assert len(resolved("--stats", "/a/*.stats", "--stats", "/b/*.stats").servers) == 2


def test_two_names_of_one_address(tmp_path: Path) -> None:
    """One stats server under two names would be read twice: refused with both origins, in any notation."""
    message = refusal("--stats", "a=/run/shop.stats", "--stats", "b=unix:///run/shop.stats")
    assert "unix:///run/shop.stats" in message
    assert "'a'" in message
    path = tmp_path / "headroom.yml"
    path.write_text("servers:\n  - a=127.0.0.1:1717\n  - b=/b\n")
    message = refusal("--config", str(path), "--stats", "c=tcp://127.0.0.1:1717")
    assert message.startswith("--stats: ")
    assert f"{path}:2" in message


def test_two_names_of_one_file() -> None:
    """A file may be replayed under several names, because it has no master."""
    assert len(resolved("--stats", "a=file:///a.json", "--stats", "b=file:///a.json").servers) == 2
