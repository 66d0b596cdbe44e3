"""Prepares the observations of a scrape, and builds its metric families anew: prometheus_client's types, without its
checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from msgspec import Struct
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from uwsgi_headroom.history.totals import WorkerTotals
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.stats import AnySnapshot
from uwsgi_headroom.stats.raw import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.terminal_text import escape_text
from uwsgi_headroom.watch.observation import WELL, ExporterHealth, Observation


class LabelSet(dict[str, str]):
    """The labels of a sample and their text. Samples and scrapes share label sets, so that values are escaped only
    once; never changed after creation."""

    __slots__ = ("text",)

    def __init__(self, **labels: str) -> None:
        super().__init__({name: _make_harmless(value) for name, value in labels.items()})
        pairs = [f'{name}="{_escape(value)}"' for name, value in sorted(self.items())]
        self.text = f"{{{','.join(pairs)}}}" if pairs else ""


@cache
def label_set(**labels: str) -> LabelSet:
    """Return the label set of these pairs from a cache: every scrape has the same ones, and a lookup costs a tenth of
    making one. `forget_label_sets` bounds the size of the cache."""
    return LabelSet(**labels)


@cache
def label_sets(label: str, values: tuple[str, ...], /, **labels: str) -> tuple[LabelSet, ...]:
    """Return the label sets of these pairs with each of the values of one more label: one lookup for all of them."""
    return tuple([LabelSet(**labels, **{label: value}) for value in values])


_CACHES = (label_set, label_sets)
_asked_before = [0] * len(_CACHES)


def forget_label_sets() -> None:
    """Forget all label sets if more are cached than were used since the last call. Call this before each scrape.

    Scrapes with the same labels keep the caches. If names change from scrape to scrape, or a server is gone, a cache
    never exceeds the labels of two scrapes, whose number and length are limited by the bounds of a document.
    """
    for place, cached in enumerate(_CACHES):
        kept = cached.cache_info()
        asked = kept.hits + kept.misses
        if kept.currsize > asked - _asked_before[place]:
            cached.cache_clear()
            asked = 0
        _asked_before[place] = asked


Line = tuple[str, LabelSet, float]
"""The name, the labels and the value of a sample. The library's `Sample` takes ten times as long to make."""


class Family(Metric):
    """A family whose labels are all label sets. Names are not checked at run time, because tests check them."""

    def __init__(self, name: str, documentation: str, kind: str, lines: list[Line]) -> None:
        self.name, self.documentation, self.type, self.unit, self.lines = name, documentation, kind, "", lines

    @property
    def samples(self) -> list[Sample]:  # type: ignore[override]
        """The lines as the library has them."""
        return [Sample(*line) for line in self.lines]


Subject = TypeVar("Subject")

Samples = Iterable[tuple[LabelSet, float | None]]
"""Labels and values of one family; a sample with the value None is left out."""


def gauge(name: str, documentation: str, samples: Samples) -> Family:
    """Make a gauge: a value that goes up and down."""
    return Family(name, documentation, "gauge", _named(name, samples))


def counter(name: str, documentation: str, samples: Samples) -> Family:
    """Make a counter: a value that only grows, until a reset. `name` ends in `_total`."""
    return Family(name[: -len("_total")], documentation, "counter", _named(name, samples))


Table = Sequence[tuple[str, str, Callable[[Subject], float | None]]]
"""Families: name, documentation, and a function from a subject to the value."""


def tabulate_families(table: Table[Subject], subjects: Sequence[tuple[LabelSet, Subject]]) -> Iterator[Family]:
    """Make the families of a table, with a sample for each subject; none without subjects, as for most parts of most
    servers. Families whose name ends in `_total` are counters."""
    if not subjects:
        return
    labels = [labels for labels, _ in subjects]
    described = [subject for _, subject in subjects]
    for name, documentation, value in table:
        make = counter if name.endswith("_total") else gauge
        yield make(name, documentation, zip(labels, map(value, described), strict=True))


def name_apart(parts: Sequence[Subject], name: Callable[[Subject], str]) -> list[tuple[str, Subject]]:
    """Give each part a unique name, in order: a repeated name gets the suffix `#2` and so on, because labels must
    differ."""
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
    """Add up samples with equal labels: uWSGI may list a part twice under one name."""
    sums: dict[str, tuple[LabelSet, float]] = {}
    for labels, value in samples:
        if value is not None:
            sums[labels.text] = (labels, sums.get(labels.text, (labels, 0))[1] + value)
    return sums.values()


def _named(name: str, samples: Samples) -> list[Line]:
    return [(name, labels, value) for labels, value in samples if value is not None]


def _make_harmless(value: str) -> str:
    """Escape what does something to the terminal in which somebody reads a scrape. Both formats escape line breaks."""
    return "\n".join(map(escape_text, value.split("\n")))


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def labels_of(observation: Observation, **more: str) -> LabelSet:
    return label_set(server=observation.name, **more)


def label_each(observation: Observation, label: str, values: tuple[str, ...], **more: str) -> tuple[LabelSet, ...]:
    """Return the labels of an observed server with each of the values of one more label."""
    return label_sets(label, values, server=observation.name, **more)


class ObservedServer(Struct, frozen=True):
    """An observation whose document is a uWSGI server's. record: as it is judged."""

    observation: Observation
    reading: Reading
    snapshot: Snapshot
    record: ServerRecord
    labels: LabelSet
    workers: list[tuple[LabelSet, Worker]]
    processes: list[tuple[LabelSet, WorkerProcess]]

    @property
    def worker_totals(self) -> Iterator[tuple[LabelSet, WorkerTotals]]:
        return zip((labels for labels, _ in self.workers), self.observation.totals.workers, strict=False)


class Scrape(Struct, frozen=True):
    """All observations of one scrape, with their labels, and grouped by kind of document."""

    observations: Sequence[tuple[LabelSet, Observation]]
    health: ExporterHealth
    servers: list[ObservedServer]
    emperors: list[tuple[Observation, EmperorSnapshot]]
    routers: list[tuple[Observation, RouterSnapshot]]


def group_by_kind(observations: Sequence[Observation], health: ExporterHealth = WELL) -> Scrape:
    """Group observations by kind of document. Call this once at the beginning of a scrape."""
    forget_label_sets()
    read: list[tuple[Observation, Reading, AnySnapshot]] = [
        (observation, observation.reading, observation.reading.snapshot)
        for observation in observations
        if observation.reading
    ]
    return Scrape(
        observations=[(labels_of(observation), observation) for observation in observations],
        health=health,
        servers=[
            _server(observation, reading, snapshot, observation.server)
            for observation, reading, snapshot in read
            if isinstance(snapshot, Snapshot) and observation.server
        ],
        emperors=[
            (observation, snapshot) for observation, _, snapshot in read if isinstance(snapshot, EmperorSnapshot)
        ],
        routers=[(observation, snapshot) for observation, _, snapshot in read if isinstance(snapshot, RouterSnapshot)],
    )


def _server(observation: Observation, reading: Reading, snapshot: Snapshot, record: ServerRecord) -> ObservedServer:
    ids = tuple([str(worker.worker_id) for worker in snapshot.workers])
    workers = list(zip(label_each(observation, "worker_id", ids), snapshot.workers, strict=True))
    processes = reading.host.processes
    return ObservedServer(
        observation=observation,
        reading=reading,
        snapshot=snapshot,
        record=record,
        labels=labels_of(observation),
        workers=workers,
        processes=[
            (labels, processes[worker.pid]) for labels, worker in workers if worker.pid and worker.pid in processes
        ],
    )
