"""A scrape keeps the texts of values and labels for the next one, and writes the same as if it had kept nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.captured_documents import NAMES
from tests.support.observations import down, proven, up
from uwsgi_headroom.metrics import exposition, families, family
from uwsgi_headroom.metrics.exposition import render_families
from uwsgi_headroom.metrics.family import LabelSet, gauge
from uwsgi_headroom.watch.observation import Observation

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
def test_scrapes_are_those_of_an_exporter_that_keeps_nothing(
    story: list[tuple[list[Observation], bool]],
) -> None:
    """After any scrapes of any servers, in any order, a scrape is byte for byte that of a new exporter."""
    forget()
    kept = [lines_of(servers, openmetrics=openmetrics) for servers, openmetrics in story]
    for (servers, openmetrics), lines in zip(story, kept, strict=True):
        forget()
        assert lines_of(servers, openmetrics=openmetrics) == lines


@given(st.permutations([0, 0.0, -0.0, False, 1, 1.0, True, 1e6, 10**6, 1e-5, float("inf")]))
def test_equal_values_have_one_text(values: list[float]) -> None:
    """Values that are equal are written alike, whichever was first, except for the two zeros."""
    forget()
    text = render_families([gauge("g", "h", [(LabelSet(n=str(place)), value) for place, value in enumerate(values)])])
    written = [line.split()[1].decode() for line in text.splitlines() if not line.startswith(b"#")]
    signs = ["-0.0" if str(value) == "-0.0" else None for value in values]
    known = {0: "0.0", 1: "1.0", 1e6: "1e+06", 1e-5: "1e-05", float("inf"): "+Inf"}
    assert written == [sign or known[value] for sign, value in zip(signs, values, strict=True)]


@pytest.mark.parametrize("number", [1, 20_000])
def test_few_texts_of_values_are_kept(number: int) -> None:
    """Values that change with every scrape push each other out."""
    render_families([gauge("g", "h", [(LabelSet(), place + 0.5) for place in range(number)])])
    assert exposition.write_value.cache_info().currsize <= 8192
