"""The output equals that of Prometheus' own library for the same families, byte for byte."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.support.captured_documents import NAMES
from tests.support.observations import down, proven, up
from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.exposition import render_families
from uwsgi_headroom.metrics.family import LabelSet, counter, gauge

EVERYTHING = [
    *[up(name) for name in NAMES],
    down("down"),
    proven("prefork_4x1_served", "proven"),
]
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
    generate = openmetrics_exposition.generate_latest if openmetrics else exposition.generate_latest
    return generate(_Collected(family for family in collected if family.samples))


both = pytest.mark.parametrize("openmetrics", [False, True], ids=["text", "openmetrics"])


@both
def test_everything_ever_captured(openmetrics: bool) -> None:
    """All captured documents in one scrape, with a server that is down, are written as the library writes them."""
    collected = list(families(EVERYTHING))
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@both
def test_nasty_label_values(openmetrics: bool) -> None:
    """Label values with quotes, backslashes, line ends and every other character are written as the library does."""
    collected = [gauge("g", "h", [(LabelSet(a=value, b="x"), 1.0) for value in NASTY])]
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@both
def test_nasty_documentation(openmetrics: bool) -> None:
    """Help texts are written as the library does."""
    collected = [gauge(f"g{place}", help_text, [(LabelSet(), 1.0)]) for place, help_text in enumerate(NASTY)]
    collected += [counter("c_total", 'a "b" \\ \n', [(LabelSet(), 1.0)])]
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@both
def test_values(openmetrics: bool) -> None:
    """Every float is written as Go writes it."""
    collected = [gauge("g", "h", [(LabelSet(n=str(place)), value) for place, value in enumerate(VALUES)])]
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@both
@given(st.lists(st.floats() | st.integers(-(2**63), 2**64) | st.booleans(), max_size=20), st.text(), st.text())
def test_anything(openmetrics: bool, values: list[float], label: str, help_text: str) -> None:
    """The output is equal for any values and texts."""
    samples = [(LabelSet(n=str(place), label=label), value) for place, value in enumerate(values)]
    collected = [gauge("g", help_text, samples), counter("c_total", help_text, samples)]
    assert render_families(collected, openmetrics=openmetrics) == by_the_library(collected, openmetrics)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_name_that_does_something_to_a_terminal(openmetrics: bool) -> None:
    """Its control characters, those that turn text around, and bytes that are not UTF-8 are written as escapes."""
    body = render_families([gauge("g", "h", [(LabelSet(a="caf\udce9\x1b[31m\u202e\r"), 1.0)])], openmetrics=openmetrics)
    assert rb'g{a="caf\\udce9\\x1b[31m\\u202e\\r"} 1.0' in body


def test_both_formats_parse() -> None:
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
def test_each_family_is_one_block(openmetrics: bool) -> None:
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
