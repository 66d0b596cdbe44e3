"""Reads two expositions of one server, and returns its series with their growth between the two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Series:
    """A series of the real exporter. kind: of its family; first, second: its values in the two expositions."""

    name: str
    labels: Mapping[str, str]
    kind: str
    first: float
    second: float

    @property
    def grows(self) -> bool:
        """Whether the series is a counter, or a bucket, count or sum of a histogram."""
        return self.kind in ("counter", "histogram")

    @property
    def integral(self) -> bool:
        return self.first.is_integer() and self.second.is_integer()


def read(first: str, second: str) -> list[Series]:
    """Returns the series of the second exposition in its order. A series that the first lacks did not grow."""
    before = {_key(name, labels): value for name, labels, _, value in _samples(first)}
    return [
        Series(name, labels, kind, before.get(_key(name, labels), value), value)
        for name, labels, kind, value in _samples(second)
    ]


def observed_seconds(series: list[Series]) -> float:
    """Returns the seconds between the two expositions that the exporter's samples cover."""
    (observed,) = [one for one in series if one.name == "uwsgi_exporter_observed_seconds_total"]
    return observed.second - observed.first


def count(text: str) -> dict[str, int]:
    """Returns the number of series by name."""
    numbers: dict[str, int] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            numbers[name] = numbers.get(name, 0) + 1
    return numbers


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, dict(sample.labels), family.type, sample.value


def _key(name: str, labels: Mapping[str, str]) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())
