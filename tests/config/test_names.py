"""No two servers have one name, and a server keeps the name that it has."""

from __future__ import annotations

import pytest

from uwsgi_headroom.config.names import free_name, name_servers
from uwsgi_headroom.source import Address, Http, Tcp, Unix

SHOP = Unix("/run/a/shop.stats")


@pytest.mark.parametrize(
    ("taken", "name"),
    [
        ([], "shop"),
        (["api", "/run/a/shop.stats"], "shop"),
        (["shop"], "/run/a/shop.stats"),
        (["shop", "/run/a/shop.stats"], "/run/a/shop.stats#2"),
        (["shop", "/run/a/shop.stats", "/run/a/shop.stats#2"], "/run/a/shop.stats#3"),
    ],
)
def test_a_name_that_nobody_has(taken: list[str], name: str) -> None:
    """A server is named after its file; where that is taken after its path; and never as another server."""
    assert free_name(SHOP, taken) == name


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (Unix("@shop.stats"), "unix:@shop.stats"),
        (Tcp("::1", 1717), "tcp://[::1]:1717"),
        (Http("localhost", 1717), "http://localhost:1717"),
        (Unix("/run/caf\udce9/shop.stats"), "/run/caf\\udce9/shop.stats"),
    ],
)
def test_the_path_of_an_address_that_is_no_path(address: Address, name: str) -> None:
    """Where its short name is taken, any other address is its own name, in text that a label can hold."""
    assert free_name(address, [free_name(address, [])]) == name


def test_servers_that_are_found_at_once() -> None:
    """Two of one file name are both named after their paths, whichever was found first; others are not."""
    other, api = Unix("/run/b/shop.stats"), Tcp("localhost", 1717)
    for addresses in ([SHOP, other, api], [other, api, SHOP]):
        assert name_servers(addresses) == {
            SHOP: "/run/a/shop.stats",
            other: "/run/b/shop.stats",
            api: "localhost:1717",
        }


def test_names_that_are_written_alike() -> None:
    """Two paths that are one text, because a byte that is no UTF-8 is spelled out, are two servers."""
    alike = [Unix("/run/caf\udce9.stats"), Unix("/run/caf\\udce9.stats")]
    assert len(set(name_servers(alike).values())) == 2
