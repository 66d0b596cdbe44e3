"""The text of a scrape is that of Prometheus' own library; what is kept for the next one changes nothing."""

import json
import math
import re
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import exposition as text_exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.support.captured_documents import NAMES
from tests.support.observations import down, proven, render_families, series, up
from uwsgi_headroom.metrics import exposition, families, family
from uwsgi_headroom.metrics.family import LabelSet, forget_label_sets, label_set, make_family, name_apart
from uwsgi_headroom.watch.observation import Observation

EVERYTHING = [*[up(name) for name in NAMES], down("down"), proven("prefork_4x1_served", "proven")]
NASTY = ['"', "\\", "\n", '\\"\n', "\\n", '{a="b"}', "# HELP", "", " ", "\t\r\0\x1b", "ünï", "🦄", "\u2028", "a" * 500]
VALUES = [
    0.0, -0.0, 1.0, -1.0, 0.1 + 0.2, 1e-5, 1e5, 999999.5, 1e6, -1e6, 1234567.0, 1234567.891, 1e15, 1e16, 1e21, 1e-300,
    float(2**53), float(2**63), 2.0**64, 12345678.5, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan,
]  # fmt: skip


class _Collected:
    """A registry of existing families."""

    def __init__(self, collected: Iterable[Metric]) -> None:
        self._collected = list(collected)

    def collect(self) -> list[Metric]:
        return self._collected


def by_the_library(collected: Iterable[Metric], openmetrics: bool) -> bytes:
    generate = openmetrics_exposition.generate_latest if openmetrics else text_exposition.generate_latest
    return generate(_Collected(family for family in collected if family.samples))


both = pytest.mark.parametrize("openmetrics", [False, True], ids=["text", "openmetrics"])


@both
def test_everything_ever_captured(openmetrics):
    """All captured documents in one scrape, with a server that is down, are written as the library writes them."""
    collected = list(families(EVERYTHING))
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@both
def test_nasty_label_values(openmetrics):
    """Label values with quotes, backslashes, line ends and every other character are written as the library does."""
    collected = [make_family("g", "h", [(LabelSet(a=value, b="x"), 1.0) for value in NASTY])]
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@both
def test_nasty_documentation(openmetrics):
    """Help texts are written as the library does."""
    collected = [make_family(f"g{place}", help_text, [(LabelSet(), 1.0)]) for place, help_text in enumerate(NASTY)]
    collected += [make_family("c_total", 'a "b" \\ \n', [(LabelSet(), 1.0)])]
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@both
def test_values(openmetrics):
    """Every float is written as Go writes it."""
    collected = [make_family("g", "h", [(LabelSet(n=str(place)), value) for place, value in enumerate(VALUES)])]
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@both
@given(st.lists(st.floats() | st.integers(-(2**63), 2**64) | st.booleans(), max_size=20), st.text(), st.text())
def test_anything(openmetrics, values, label, help_text):
    """The output is equal for any values and texts."""
    samples = [(LabelSet(n=str(place), label=label), value) for place, value in enumerate(values)]
    collected = [make_family("g", help_text, samples), make_family("c_total", help_text, samples)]
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_name_that_does_something_to_a_terminal(openmetrics):
    """Its control characters, those that turn text around, and bytes that are not UTF-8 are written as escapes."""
    body = render_families(
        [make_family("g", "h", [(LabelSet(a="caf\udce9\x1b[31m\u202e\r"), 1.0)])], openmetrics=openmetrics
    )
    assert rb'g{a="caf\\udce9\\x1b[31m\\u202e\\r"} 1.0' in body


def test_a_name_that_is_the_escape_of_another():
    """A name with a character that is escaped, and one that has the escape as its text, have a series each."""
    body = {"version": "2.0.31", "workers": [], "locks": [{"a\u200b": 0}, {r"a\u200b": 7}]}
    held = [value for name, value in series(up("s", json.dumps(body).encode())).items() if "uwsgi_lock_held" in name]
    assert held == [0, 1]


def test_both_formats_parse():
    """The library's parsers read both formats with the same result."""
    collected = list(families(EVERYTHING))
    text = list(parse_text(render_families(collected).decode()))
    openmetrics = list(parse_openmetrics(render_families(collected, openmetrics=True).decode()))

    def samples_of(parsed: list[Metric]) -> set[tuple[str, frozenset[tuple[str, str]], str]]:
        return {
            (sample.name, frozenset(sample.labels.items()), str(sample.value))
            for family in parsed
            for sample in family.samples
        }

    assert samples_of(text) == samples_of(openmetrics)
    assert len(samples_of(text)) == sum(len(family.samples) for family in collected)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_each_family_is_one_block(openmetrics):
    """Each family appears once, help and type before its samples, for any number of servers."""
    lines = render_families(families(EVERYTHING), openmetrics=openmetrics).decode().split("\n")
    assert lines.pop() == ""
    if openmetrics:
        assert lines.pop() == "# EOF"
    names: list[str] = []
    for line in lines:
        if line.startswith("# HELP "):
            names.append(line.split()[2])
        elif line.startswith("# TYPE "):
            assert line.split()[2] == names[-1]
        else:
            name = line.partition("{")[0].partition(" ")[0]
            assert re.sub("_(total|bucket|count|sum)$", "", name) == names[-1].removesuffix("_total")
    assert len(names) == len(set(names)) > 60


SERVERS = [*[up(name) for name in NAMES], *map(down, NAMES[:3]), proven("prefork_4x1_served", "proven")]


def forget() -> None:
    for cached in (family.label_set, family.label_sets, exposition.write_value):
        cached.cache_clear()


def lines_of(servers: Sequence[Observation], *, openmetrics: bool) -> list[bytes]:
    lines = render_families(families(servers), openmetrics=openmetrics).splitlines()
    return [line for line in lines if not line.startswith(b"process_")]


scrapes = st.lists(
    st.tuples(st.lists(st.sampled_from(SERVERS), unique_by=lambda server: server.name, max_size=5), st.booleans()),
    max_size=5,
)


@given(scrapes)
@settings(max_examples=30)
def test_scrapes_are_those_of_an_exporter_that_keeps_nothing(story):
    forget()
    kept = [lines_of(servers, openmetrics=openmetrics) for servers, openmetrics in story]
    for (servers, openmetrics), lines in zip(story, kept, strict=True):
        forget()
        assert lines_of(servers, openmetrics=openmetrics) == lines


@given(st.permutations([0, 0.0, -0.0, False, 1, 1.0, True, 1e6, 10**6, 1e-5, float("inf")]))
def test_equal_values_have_one_text(values):
    """Values that are equal are written alike, whichever was first, except for the two zeros."""
    forget()
    text = render_families(
        [make_family("g", "h", [(LabelSet(n=str(place)), value) for place, value in enumerate(values)])]
    )
    written = [line.split()[1].decode() for line in text.splitlines() if not line.startswith(b"#")]
    signs = ["-0.0" if str(value) == "-0.0" else None for value in values]
    known = {0: "0.0", 1: "1.0", 1e6: "1e+06", 1e-5: "1e-05", float("inf"): "+Inf"}
    assert written == [sign or known[value] for sign, value in zip(signs, values, strict=True)]


@pytest.mark.parametrize("number", [1, 20_000])
def test_few_texts_of_values_are_kept(number):
    """Values that change with every scrape push each other out."""
    render_families([make_family("g", "h", [(LabelSet(), place + 0.5) for place in range(number)])])
    assert exposition.write_value.cache_info().currsize <= 8192


NAME_LISTS = st.lists(st.sampled_from(["", "a", "a#2", "b", "\ud800", "?", "\\", "a\n"]), max_size=6)


@given(NAME_LISTS)
def test_names_are_unique(names):
    """Every part gets a unique name, and the first one keeps its name."""
    named = name_apart(names, str)
    assert [part for _, part in named] == names
    assert len({name for name, _ in named}) == len(names)
    assert not names or named[0][0] == names[0]


def test_names_in_use_are_stepped_over():
    """A suffix that another part already has in its name is skipped."""
    assert [name for name, _ in name_apart(["a", "a#2", "a", "a"], str)] == ["a", "a#2", "a#3", "a#4"]


@given(NAME_LISTS, NAME_LISTS)
@settings(max_examples=30)
def test_no_document_gives_a_series_twice(names, others):
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


def test_labels_of_scrapes_are_kept():
    """The same scrape again makes no new label set."""
    for _ in range(2):
        scrape(["kept"])
    made = label_set.cache_info().misses
    scrape(["kept"])
    assert label_set.cache_info().misses == made


@pytest.mark.parametrize("length", [10, 250])
def test_labels_that_change_with_every_scrape_are_forgotten(length):
    """For any number of changing names, the cache never exceeds the label sets of two scrapes."""
    sizes = []
    for number in range(30):
        scrape([f"{number} {place}".ljust(length, "x") for place in range(100)])
        sizes.append(label_set.cache_info().currsize)
    assert max(sizes[5:]) < 2 * label_set.cache_info().currsize + 200
    assert max(sizes) < 600


def test_labels_of_a_server_that_is_gone_are_forgotten():
    """Label sets that later scrapes no longer use are forgotten."""
    for _ in range(2):
        scrape([f"gone {place}" for place in range(1000)])
    assert label_set.cache_info().currsize >= 1000
    for _ in range(3):
        scrape(["stays"])
    assert label_set.cache_info().currsize < 500


def test_nothing_asked_nothing_kept():
    """If no scrape happens between two calls, all label sets are forgotten."""
    label_set(a="b")
    forget_label_sets()
    forget_label_sets()
    assert label_set.cache_info().currsize == 0
