"""Parses scrapes with Prometheus' own parsers, and checks what holds for all scrapes."""

from __future__ import annotations

import math

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by name and labels (sorted pairs)."""

_ONLY_GROWS = ("_total", "_bucket", "_count", "_sum")


def parse_scrape(text: str, *, openmetrics: bool = False) -> Series:
    """Returns every series of a scrape. Raises ValueError if a parser refuses it; AssertionError if a series occurs
    twice, a value is not a number, or a counter is below zero."""
    parse = parse_openmetrics if openmetrics else parse_text
    series: Series = {}
    for family in parse(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in series, f"{key} is there twice"
            assert not math.isnan(sample.value), key
            assert sample.value >= 0 or not sample.name.endswith(_ONLY_GROWS), key
            series[key] = sample.value
    return series
