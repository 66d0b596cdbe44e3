"""Building metric families: prometheus_client's own types, made fresh for every scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeVar

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample


class LabelSet(dict[str, str]):
    """The labels of a sample, and their text. Shared by samples and by scrapes, so that values are escaped once;
    never changed afterwards."""

    __slots__ = ("text",)

    def __init__(self, **labels: str) -> None:
        super().__init__(labels)
        pairs = [f'{name}="{_escape(value)}"' for name, value in sorted(labels.items())]
        self.text = f"{{{','.join(pairs)}}}" if pairs else ""


@lru_cache(maxsize=1 << 15)
def label_set(**labels: str) -> LabelSet:
    """The label set of these pairs. The same ones come with every scrape, and to find one costs a tenth of making it;
    those that no scrape asks for any more are forgotten in time."""
    return LabelSet(**labels)


Subject = TypeVar("Subject")

Samples = Iterable[tuple[LabelSet, float | None]]
"""Labels and values of one family; a value of None is absent from the output."""


def gauge(name: str, documentation: str, samples: Samples) -> Metric:
    """A value that goes up and down."""
    return _metric(name, name, documentation, "gauge", samples)


def counter(name: str, documentation: str, samples: Samples) -> Metric:
    """A value that only grows, until a reset. `name` ends in `_total`."""
    return _metric(name, name.removesuffix("_total"), documentation, "counter", samples)


Table = Sequence[tuple[str, str, Callable[[Subject], float | None]]]
"""Families by name and documentation, with their value of a subject."""


def tabulate_families(table: Table[Subject], subjects: Sequence[tuple[LabelSet, Subject]]) -> Iterator[Metric]:
    """The families of a table, with a sample for each subject. Those whose name ends in `_total` are counters."""
    labels = [labels for labels, _ in subjects]
    described = [subject for _, subject in subjects]
    for name, documentation, value in table:
        make = counter if name.endswith("_total") else gauge
        yield make(name, documentation, zip(labels, map(value, described), strict=True))


def summed(samples: Samples) -> Samples:
    """Samples of equal labels made one, their values added up: what uWSGI lists twice under one name."""
    sums: dict[str, tuple[LabelSet, float]] = {}
    for labels, value in samples:
        if value is not None:
            sums[labels.text] = (labels, sums.get(labels.text, (labels, 0))[1] + value)
    return sums.values()


def _metric(
    sample_name: str, name: str, documentation: str, kind: Literal["gauge", "counter"], samples: Samples
) -> Metric:
    metric = Metric(name, documentation, kind)
    metric.samples = [Sample(sample_name, labels, value) for labels, value in samples if value is not None]
    return metric


def _escape(value: str) -> str:
    # A name or path may hold bytes that are no UTF-8 (surrogates, in Python); the exposition format cannot.
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
