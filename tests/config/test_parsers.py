"""Parsing of settings from text."""

import pytest

from uwsgi_headroom.config.parsers import parse_listen_address
from uwsgi_headroom.config.servers import parse_server_argument
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source import File, Tcp, Unix


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
def test_a_server_and_its_name(text, name, address):
    """A server's name comes before an equals sign, or from its socket's file or its host and port."""
    server = parse_server_argument(text, "--stats")
    assert (server.name, server.address) == (name, address)


@pytest.mark.parametrize(
    ("text", "name", "address", "pattern"),
    [
        ("run/shop.stats", "shop", Unix("./run/shop.stats"), ""),
        ("shop.stats", "shop", Unix("./shop.stats"), ""),
        ("blog=run/shop.stats", "blog", Unix("./run/shop.stats"), ""),
        ("run/*.stats", "", None, "./run/*.stats"),
        ("no/*.stats", "", None, "./no/*.stats"),
        ("run/a:1", "a:1", Unix("./run/a:1"), ""),
        ("shop:1", "shop:1", Tcp("shop", 1), ""),
    ],
)
def test_a_relative_path_that_is_there(tmp_path, monkeypatch, text, name, address, pattern):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for path in ("shop.stats", "run/shop.stats", "run/a:1", "shop:1"):
        (tmp_path / path).touch()
    server = parse_server_argument(text, "--stats")
    assert (server.name, server.address, server.pattern) == (name, address, pattern)


@pytest.mark.parametrize("text", ["shop", "run/none.stats", "*", "tpc://a*"])
def test_what_is_neither_an_address_nor_there(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="use unix:///path"):
        parse_server_argument(text, "--stats")


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
def test_addresses_to_listen_on(text, address):
    assert parse_listen_address(text, "--web.listen-address") == address
