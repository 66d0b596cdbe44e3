"""What a pattern is expected to find, and how many servers patterns may find."""

from __future__ import annotations

from pathlib import Path

import pytest

from uwsgi_headroom.arguments.commands import SETTING_FLAGS
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config import defaults, precedence
from uwsgi_headroom.config.settings import Config
from uwsgi_headroom.errors import ConfigError


def loaded(tmp_path: Path, servers: str, sampling: str = "{}") -> Config:
    file = tmp_path / "headroom.yml"
    file.write_text(f"servers:\n{servers}\nsampling: {sampling}\n")
    parser = Parser(flags=SETTING_FLAGS)
    return precedence.resolve_config(parser.parse_args(["--config", str(file)]), {})


def refusal(tmp_path: Path, servers: str, sampling: str = "{}") -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, servers, sampling)
    return str(caught.value)


@pytest.mark.parametrize(
    ("expect", "names", "number"),
    [("[shop, blog]", ("shop", "blog"), 0), ("shop", ("shop",), 0), ("3", (), 3), ("[shop, shop]", ("shop",), 0)],
)
def test_names_or_a_number(tmp_path: Path, expect: str, names: tuple[str, ...], number: int) -> None:
    """A pattern takes either; a single name needs no list."""
    (server,) = loaded(tmp_path, f"  - {{stats: '/run/*.stats', expect: {expect}}}").servers
    assert (server.expect_names, server.expect_number) == (names, number)


@pytest.mark.parametrize(
    ("server", "part"),
    [
        ("{stats: '/run/*.stats', expect: 0}", "expected a number from 1"),
        ("{stats: '/run/*.stats', expect: 100000}", "expected a number from 1"),
        ("{stats: '/run/*.stats', expect: {shop: 1}}", "expected a list"),
        ("{stats: '/run/*.stats', expect: [a/b]}", "no socket that /run/*.stats matches is named 'a/b'"),
        ("{stats: '/run/shop*.stats', expect: [blog]}", "no socket that /run/shop*.stats matches is named 'blog'"),
        ("{stats: '/run/shop.stats', expect: 1}", "expect belongs to a pattern"),
    ],
)
def test_mistakes(tmp_path: Path, server: str, part: str) -> None:
    """A name that no socket can have would be down for as long as the exporter runs."""
    message = refusal(tmp_path, f"  - {server}")
    assert part in message
    assert "headroom.yml:2" in message


def test_names_are_those_of_all_patterns(tmp_path: Path) -> None:
    """With two directories, names have the directory; the check knows it."""
    two = "  - {{stats: '/run/a/*.stats', expect: [{}]}}\n  - /run/b/*.stats"
    assert loaded(tmp_path, two.format("a/shop")).servers[0].expect_names == ("a/shop",)
    assert "named 'shop'" in refusal(tmp_path, two.format("shop"))


def test_the_most_servers(tmp_path: Path) -> None:
    """A number within bounds; 400 unless set."""
    assert loaded(tmp_path, "  - /run/*.stats").settings.max_servers == defaults.MOST_SERVERS
    assert loaded(tmp_path, "  - /run/*.stats", "{max_servers: 1000}").settings.max_servers == 1000
    for wrong in ("0", "10001", "many"):
        assert "expected a number from 1 to 10000" in refusal(tmp_path, "  - /run/*.stats", f"{{max_servers: {wrong}}}")
