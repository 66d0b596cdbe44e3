"""Building metric families, fresh for every scrape: prometheus_client's own types, without its checks of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

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


@cache
def label_set(**labels: str) -> LabelSet:
    """The label set of these pairs. The same ones come with every scrape, and to find one costs a tenth of making it.
    `forget_label_sets` bounds how many are kept."""
    return LabelSet(**labels)


_asked_before: list[int] = [0]


def forget_label_sets() -> None:
    """Forget all label sets if more are kept than were asked for since the last call. Call this before each scrape.

    Scrapes with the same labels keep them. Where names change from scrape to scrape, or a server is gone, what is kept
    is never more than the labels of two scrapes, whose number and length the bounds of a document limit.
    """
    kept = label_set.cache_info()
    asked = kept.hits + kept.misses
    if kept.currsize > asked - _asked_before[0]:
        label_set.cache_clear()
        asked = 0
    _asked_before[0] = asked


class Family(Metric):
    """A family whose labels are all label sets, and whose name is one of ours: tests check the names, once."""

    def __init__(self, name: str, documentation: str, kind: str, samples: list[Sample]) -> None:
        self.name, self.documentation, self.type, self.unit, self.samples = name, documentation, kind, "", samples


Subject = TypeVar("Subject")

Samples = Iterable[tuple[LabelSet, float | None]]
"""Labels and values of one family; a value of None is absent from the output."""


def gauge(name: str, documentation: str, samples: Samples) -> Family:
    """A value that goes up and down."""
    return Family(name, documentation, "gauge", _named(name, samples))


def counter(name: str, documentation: str, samples: Samples) -> Family:
    """A value that only grows, until a reset. `name` ends in `_total`."""
    return Family(name[: -len("_total")], documentation, "counter", _named(name, samples))


Table = Sequence[tuple[str, str, Callable[[Subject], float | None]]]
"""Families by name and documentation, with their value of a subject."""


def tabulate_families(table: Table[Subject], subjects: Sequence[tuple[LabelSet, Subject]]) -> Iterator[Family]:
    """The families of a table, with a sample for each subject; none where there is no subject, as for most parts of
    most servers. Those whose name ends in `_total` are counters."""
    if not subjects:
        return
    labels = [labels for labels, _ in subjects]
    described = [subject for _, subject in subjects]
    for name, documentation, value in table:
        make = counter if name.endswith("_total") else gauge
        yield make(name, documentation, zip(labels, map(value, described), strict=True))


def name_apart(parts: Sequence[Subject], name: Callable[[Subject], str]) -> list[tuple[str, Subject]]:
    """The parts with their names, in order. One whose name another had before gets `#2` and so on behind it: labels
    must differ."""
    named: dict[str, Subject] = {}
    numbers: dict[str, int] = {}
    for part in parts:
        plain = candidate = name(part)
        while candidate in named:
            numbers[plain] = numbers.get(plain, 1) + 1
            candidate = f"{plain}#{numbers[plain]}"
        named[candidate] = part
    return list(named.items())


def summed(samples: Samples) -> Samples:
    """Samples of equal labels made one, their values added up: what uWSGI lists twice under one name."""
    sums: dict[str, tuple[LabelSet, float]] = {}
    for labels, value in samples:
        if value is not None:
            sums[labels.text] = (labels, sums.get(labels.text, (labels, 0))[1] + value)
    return sums.values()


def _named(name: str, samples: Samples) -> list[Sample]:
    return [Sample(name, labels, value) for labels, value in samples if value is not None]


def _escape(value: str) -> str:
    # A name or path may hold bytes that are no UTF-8 (surrogates, in Python); the exposition format cannot.
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
