"""Flags and their environment variables, and which of several settings goes first."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from uwsgi_headroom import config
from uwsgi_headroom.config import Config, flags
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source import File, Tcp, Unix


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    flags.add_flags(made)
    return made


def resolved(*arguments: str, **environment: str) -> Config:
    named = {f"UWSGI_HEADROOM_{name}": value for name, value in environment.items()}
    return flags.resolve_config(parser().parse_args(arguments), named)


def refusal(*arguments: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved(*arguments, **environment)
    return str(caught.value)


def test_nothing_said() -> None:
    """Without flags, variables and file: no server, loopback, and what is worth knowing in logfmt."""
    assert resolved() == Config()


SAMPLES = {
    "stats": ("/a", lambda result: [server.address for server in result.servers], [Unix("/a")]),
    "config": ("{file}", lambda result: result.log_level, "error"),
    "web_listen_address": ("[::1]:1", lambda result: result.listen, (("::1", 1),)),
    "samples_per_second": ("2", lambda result: result.settings.samples_per_second, 2.0),
    "window": ("10m", lambda result: len(result.settings.windows), 1),
    "cpu_residency": ("true", lambda result: result.settings.cpu_residency, True),
    "log_level": ("warning", lambda result: result.log_level, "warning"),
    "log_format": ("json", lambda result: result.log_format, "json"),
}


def test_every_flag_has_its_variable(tmp_path: Path) -> None:
    """Each flag of the parser has an environment variable, named in its help, that does the same."""
    path = tmp_path / "headroom.yml"
    path.write_text("log: {level: error}\n")
    actions = [action for action in parser()._actions if action.dest != "help"]
    assert {action.dest for action in actions} == set(SAMPLES)
    for action in actions:
        text, look, expected = SAMPLES[action.dest]
        value = text.format(file=path) if "{" in text else text
        name = action.dest.upper()
        assert f"[UWSGI_HEADROOM_{name}" in (action.help or "")
        assert action.option_strings[0].lstrip("-").replace(".", "_").replace("-", "_") == action.dest
        assert look(resolved(**{name: value})) == expected
        assert look(resolved(action.option_strings[0], value)) == expected


def test_flags_go_before_variables_and_those_before_the_file(tmp_path: Path) -> None:
    """A flag goes before its variable, a variable before the file, and the file before the default."""
    path = tmp_path / "headroom.yml"
    path.write_text("log: {level: error, format: json}\nweb: {listen_address: ':1'}\n")
    given = resolved("--config", str(path), "--log.level", "debug", LOG_LEVEL="warning", WEB_LISTEN_ADDRESS=":2")
    assert (given.log_level, given.listen, given.log_format) == ("debug", (("", 2),), "json")
    given = resolved(CONFIG=str(path), LOG_LEVEL="warning")
    assert (given.log_level, given.listen, given.log_format) == ("warning", (("", 1),), "json")


def test_servers_of_the_file_and_of_flags_add_up(tmp_path: Path) -> None:
    """`--stats` adds to the servers of the file; its variable stands in for the flag, so the flag replaces it."""
    path = tmp_path / "headroom.yml"
    path.write_text("servers: [a=/a]\n")
    given = resolved("--config", str(path), "--stats", "b=/b", "--stats", "/run/*.stats", STATS="c=/c")
    assert [server.name or server.pattern for server in given.servers] == ["a", "b", "/run/*.stats"]
    given = resolved("--config", str(path), STATS="b=/b  c=/c")
    assert [server.name for server in given.servers] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("shop=/run/a.stats", "shop", Unix("/run/a.stats")),
        ("shop=tcp://a:1", "shop", Tcp("a", 1)),
        ("a.b-c_1=:1", "a.b-c_1", Tcp("127.0.0.1", 1)),
        ("/run/shop.stats", "shop", Unix("/run/shop.stats")),
        ("/run/shop.v2.stats", "shop.v2", Unix("/run/shop.v2.stats")),
        ("/run/.stats", ".stats", Unix("/run/.stats")),
        ("/run/stats", "stats", Unix("/run/stats")),
        ("/run/a=b.stats", "a=b", Unix("/run/a=b.stats")),
        ("@shop", "shop", Unix("@shop")),
        ("unix:@shop.stats", "shop", Unix("@shop.stats")),
        ("file:///tmp/shop.json", "shop", File("/tmp/shop.json")),
        ("localhost:1717", "localhost:1717", Tcp("localhost", 1717)),
        ("[::1]:1717", "::1:1717", Tcp("::1", 1717)),
    ],
)
def test_a_server_and_its_name(text: str, name: str, address: object) -> None:
    """A server is named before an equals sign, or after its socket's file or its host and port."""
    (server,) = resolved("--stats", text).servers
    assert (server.name, server.address) == (name, address)


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
    """A wrong flag is named, with what would be right."""
    message = refusal(*arguments)
    assert message.startswith(f"{where}: ")
    assert advice in message


@pytest.mark.parametrize(
    ("name", "value"), [("STATS", "shop"), ("WEB_LISTEN_ADDRESS", "x"), ("LOG_LEVEL", "x"), ("LOG_FORMAT", "x")]
)
def test_a_mistake_names_its_variable(name: str, value: str) -> None:
    """A wrong environment variable is named as such."""
    assert refusal(**{name: value}).startswith(f"UWSGI_HEADROOM_{name}: ")


def test_two_servers_of_one_name(tmp_path: Path) -> None:
    """Two servers of one name are refused with both places, and how to name them."""
    message = refusal("--stats", "/a/stats", "--stats", "/b/stats")
    assert "'stats'" in message
    assert "NAME=unix:///b/stats" in message
    path = tmp_path / "headroom.yml"
    path.write_text("servers:\n  - a=/a\n  - b=/b\n  - a=/c\n")
    message = refusal("--config", str(path))
    assert message.startswith(f"{path}:4: ")
    assert f"{path}:2" in message


def test_the_file_and_a_flag_of_one_name(tmp_path: Path) -> None:
    """A server of the file and one of a flag that have one name are refused too."""
    path = tmp_path / "headroom.yml"
    path.write_text("servers: [a=/a]\n")
    message = refusal("--config", str(path), "--stats", "a=/b")
    assert message.startswith("--stats: ")
    assert f"{path}:1" in message


def test_several_globs_have_no_name_to_share() -> None:
    """Globs are not named, so several are no duplicates."""
    assert len(resolved("--stats", "/a/*.stats", "--stats", "/b/*.stats").servers) == 2


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9238", ("127.0.0.1", 9238)),
        (":9238", ("", 9238)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::]:9238", ("::", 9238)),
        ("[::1]:9238", ("::1", 9238)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("localhost:0", ("localhost", 0)),
        (" host.internal:80 ", ("host.internal", 80)),
    ],
)
def test_addresses_to_listen_on(text: str, address: tuple[str, int]) -> None:
    """Each form of an address to listen on is understood."""
    assert config.parse_listen_address(text) == address
