"""No two samples have equal labels, and label sets are cached only as long as scrapes use them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.observations import series, up
from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.family import forget_label_sets, label_set, name_apart

NAMES = st.lists(st.sampled_from(["", "a", "a#2", "b", "\ud800", "?", "\\", "a\n"]), max_size=6)


@given(NAMES)
def test_names_are_unique(names: list[str]) -> None:
    """Every part gets a unique name, and the first one keeps its name."""
    named = name_apart(names, str)
    assert [part for _, part in named] == names
    assert len({name for name, _ in named}) == len(names)
    assert not names or named[0][0] == names[0]


def test_names_in_use_are_stepped_over() -> None:
    """A suffix that another part already has in its name is skipped."""
    assert [name for name, _ in name_apart(["a", "a#2", "a", "a"], str)] == ["a", "a#2", "a#3", "a#4"]


@given(NAMES, NAMES)
@settings(max_examples=100, deadline=None)
def test_no_document_gives_a_series_twice(names: list[str], others: list[str]) -> None:
    """Caches, applications, legions and other parts that uWSGI may list under one name have a series each."""
    apps = [{"id": 0, "mountpoint": name, "requests": 1, "exceptions": 1, "startup_time": 1} for name in names]
    server = {
        "workers": [{"apps": apps, "pid": 1}, {"apps": apps}],
        "caches": [{"name": name, "hits": 1, "miss": 1, "full": 1, "items": 1, "max_items": 2} for name in names],
        "legions": [{"legion": name, "valor": 1, "quorum": 1, "i_am_the_lord": 1} for name in names],
        "spoolers": [{"dir": name, "tasks": 1, "respawns": 1, "running": 1} for name in names],
        "crons": [{"started_at": 1}] * len(names),
        "locks": [{name: 1} for name in names],
        "metrics": {name: {"type": 0, "value": 1} for name in names},
        "sockets": [{"name": name, "queue": 1, "max_queue": 2} for name in names],
    }
    vassal = dict.fromkeys(("ready", "accepting", "loyal", "cursed", "respawns", "last_heartbeat"), 1)
    emperor = {"vassals": [{"id": name, **vassal} for name in names]}
    node = dict.fromkeys(("requests", "tx", "rx", "load", "weight", "failcnt", "death_mark"), 1)
    router = {
        "active_sessions": 1,
        "subscriptions": [
            {"key": key, "hits": 1, "nodes": [{"name": name, **node} for name in names]} for key in others
        ],
        "static_nodes": [{"name": name, "hits": 1} for name in names],
    }
    documents = {"s": server, "e": emperor, "r": router}
    values = series(*(up(name, json.dumps(document).encode()) for name, document in documents.items()))
    assert sum(name.startswith("uwsgi_cache_hits_total") for name in values) == len(names)
    assert sum(name.startswith("uwsgi_router_node_requests_total") for name in values) == len(names) * len(others)


def scrape(cache_names: list[str]) -> None:
    body = json.dumps({"workers": [], "caches": [{"name": name, "hits": 1} for name in cache_names]}).encode()
    assert list(families([up("server", body)]))


def test_labels_of_scrapes_are_kept() -> None:
    """The same scrape again makes no new label set."""
    for _ in range(2):
        scrape(["kept"])
    made = label_set.cache_info().misses
    scrape(["kept"])
    assert label_set.cache_info().misses == made


@pytest.mark.parametrize("length", [10, 250])
def test_labels_that_change_with_every_scrape_are_forgotten(length: int) -> None:
    """For any number of changing names, the cache never exceeds the label sets of two scrapes."""
    sizes = []
    for number in range(30):
        scrape([f"{number} {place}".ljust(length, "x") for place in range(100)])
        sizes.append(label_set.cache_info().currsize)
    assert max(sizes[5:]) < 2 * label_set.cache_info().currsize + 200
    assert max(sizes) < 600


def test_labels_of_a_server_that_is_gone_are_forgotten() -> None:
    """Label sets that later scrapes no longer use are forgotten."""
    for _ in range(2):
        scrape([f"gone {place}" for place in range(1000)])
    assert label_set.cache_info().currsize >= 1000
    for _ in range(3):
        scrape(["stays"])
    assert label_set.cache_info().currsize < 500


def test_nothing_asked_nothing_kept() -> None:
    """If no scrape happens between two calls, all label sets are forgotten."""
    label_set(a="b")
    forget_label_sets()
    forget_label_sets()
    assert label_set.cache_info().currsize == 0
