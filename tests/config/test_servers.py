"""Servers of the configuration: their names, and how many are expected."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.test_settings import refusal, resolved
from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.servers import GlobNames, address_name, default_name
from uwsgi_headroom.source import Http, Tcp, Unix


@pytest.mark.parametrize(
    ("patterns", "path", "name"),
    [
        (["/run/uwsgi/*.stats"], "/run/uwsgi/shop.stats", "shop"),
        (["/run/uwsgi/*.stats"], "/run/uwsgi/shop.v2.stats", "shop.v2"),
        (["/run/uwsgi/*"], "/run/uwsgi/shop.stats", "shop.stats"),
        (["/run/uwsgi/shop*.stats"], "/run/uwsgi/shop1.stats", "shop1"),
        (["/run/*/*.stats"], "/run/a/shop.stats", "a/shop"),
        (["/srv/*/run/stats"], "/srv/shop/run/stats", "shop"),
        (["/run/a/*.stats", "/run/b/*.stats"], "/run/b/shop.stats", "b/shop"),
        (["/run/*.stats", "/run/*.sock"], "/run/shop.sock", "shop.sock"),
        (["/run/[ab]/?.stats"], "/run/a/x.stats", "a/x"),
        (["./*.stats"], "./shop.stats", "shop"),
        (["/*.stats"], "/shop.stats", "shop"),
        (["/run/uwsgi/*.stats", "/run/uwsgi/app/*/stats"], "/run/uwsgi/shop.stats", "shop"),
        (["/run/uwsgi/*.stats", "/run/uwsgi/app/*/stats"], "/run/uwsgi/app/shop/stats", "app/shop"),
        (["/run/*.stats", "/run/*/stats"], "/run/shop.stats", "shop.stats"),
        (["/run/*/*.a", "/run/*/*/b"], "/run/x/shop.a", "x/shop.a"),
    ],
)
def test_what_the_patterns_leave_open(patterns, path, name):
    """The directory and the ending that all patterns share are left out."""
    assert GlobNames(patterns, []).name(path) == name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["api"], "shop"),
        (["shop"], "/run/shop.stats"),
        (["shop", "/run/shop.stats"], "/run/shop.stats#2"),
        (["shop", "/run/shop.stats", "/run/shop.stats#2"], "/run/shop.stats#3"),
    ],
)
def test_a_name_that_the_configuration_gives_to_another(given, name):
    """If a configured server has the short name, the path is the name."""
    assert GlobNames(["/run/*.stats"], given).name("/run/shop.stats") == name


_PARTS = st.text(st.sampled_from("ab.*?\\\udce9#"), min_size=1, max_size=4)
_PATHS = st.lists(st.lists(_PARTS, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts)), min_size=1)


@given(_PATHS, st.lists(st.sampled_from(["/*", "/a*", "/*.b", "/a/*", "/*/b", "/*/*.b", "/*/*/*"]), min_size=1))
def test_no_two_paths_have_one_name(paths, patterns):
    names = GlobNames(patterns, [])
    matched = {path for path in paths if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)}
    written = {names.name(path).encode() for path in matched}
    assert len(written) == len(matched)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (Unix("/run/a/shop.stats"), "/run/a/shop.stats"),
        (Unix("@shop.stats"), "unix:@shop.stats"),
        (Tcp("::1", 1717), "tcp://[::1]:1717"),
        (Http("localhost", 1717), "http://localhost:1717"),
        (Unix("/run/caf\udce9/shop.stats"), "/run/caf\\udce9/shop.stats"),
        (Unix("/run/caf\\udce9/shop.stats"), "/run/caf\\\\udce9/shop.stats"),
    ],
)
def test_a_server_that_was_found_without_a_pattern(address, name):
    """No name has a character that a terminal obeys, and names that are written alike are two."""
    assert address_name(address) == name
    names = GlobNames(["/run/*.stats"])
    assert names.name("/run/a\x1b[31m.stats") == "a\\x1b[31m"
    assert names.name("/run/a\\x1b[31m.stats") == "a\\\\x1b[31m"
    assert default_name(Unix("/run/a\x1bb.stats")) == "a\\x1bb"


@pytest.mark.parametrize(
    ("patterns", "name", "path"),
    [
        (["/run/uwsgi/*.stats"], "shop", "/run/uwsgi/shop.stats"),
        (["/run/*/*.stats"], "a/shop", "/run/a/shop.stats"),
        (["/srv/*/run/stats"], "shop", "/srv/shop/run/stats"),
        (["/run/a/*.stats", "/run/b/*.sock"], "a/shop.stats", "/run/a/shop.stats"),
        (["/run/uwsgi/*.stats"], "", None),
        (["/run/uwsgi/*.stats"], ".hidden", None),
        (["/run/uwsgi/*.stats"], "a/shop", None),
        (["/run/uwsgi/shop*.stats"], "blog", None),
        (["/run/uwsgi/*.stats"], "../shop", None),
        (["/run/uwsgi/*.stats"], "a\\\\b", None),
    ],
)
def test_the_path_of_a_name(patterns, name, path):
    names = GlobNames(patterns)
    assert names.path(name, patterns[0]) == path
    assert path is None or names.name(path) == name


def written(write, servers: str, sampling: str = "{}") -> tuple[str, str]:
    return "--config", str(write(f"servers:\n{servers}\nsampling: {sampling}\n"))


@pytest.mark.parametrize(
    ("expect", "names", "number"),
    [("[shop, blog]", ("shop", "blog"), 0), ("shop", ("shop",), 0), ("3", (), 3), ("[shop, shop]", ("shop",), 0)],
)
def test_a_pattern_takes_names_or_a_number(write, expect, names, number):
    (server,) = resolved(*written(write, f"  - {{stats: '/run/*.stats', expect: {expect}}}")).servers
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
def test_mistakes(write, server, part):
    message = refusal(*written(write, f"  - {server}"))
    assert part in message
    assert "headroom.yml:2" in message


def test_names_and_the_most_servers_of_patterns(write):
    two = "  - {{stats: '/run/a/*.stats', expect: [{}]}}\n  - /run/b/*.stats"
    assert resolved(*written(write, two.format("a/shop"))).servers[0].expect_names == ("a/shop",)
    assert "named 'shop'" in refusal(*written(write, two.format("shop")))
    assert resolved(*written(write, "  - /run/*.stats")).settings.max_servers == defaults.MOST_SERVERS
    assert resolved(*written(write, "  - /run/*.stats", "{max_servers: 1000}")).settings.max_servers == 1000
    for wrong in ("0", "10001", "many"):
        message = refusal(*written(write, "  - /run/*.stats", f"{{max_servers: {wrong}}}"))
        assert "expected a number from 1 to 10000" in message
