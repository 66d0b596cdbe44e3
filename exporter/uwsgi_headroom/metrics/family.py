"""Prepares the observations of a scrape, and builds its metric families anew: prometheus_client's types, without its
checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from uwsgi_headroom.analysis.settings import SettingAdvice, review_server
from uwsgi_headroom.history.counts import Quantity
from uwsgi_headroom.history.totals import Totals, WorkerTotals
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.terminal_text import escape_text
from uwsgi_headroom.watch.observation import WELL, ExporterHealth, Observation


class LabelSet(dict[str, str]):
    """The labels of a sample and their text. Shared by samples and scrapes, so that values are escaped only once; never
    changed."""

    __slots__ = ("text",)

    def __init__(self, **labels: str) -> None:
        # Text that does something to the terminal of who reads a scrape is escaped; line breaks, by both formats.
        harmless = {name: "\n".join(map(escape_text, value.split("\n"))) for name, value in labels.items()}
        super().__init__(harmless)
        pairs = [f'{name}="{_escape(value)}"' for name, value in sorted(self.items())]
        self.text = f"{{{','.join(pairs)}}}" if pairs else ""


@cache
def label_set(**labels: str) -> LabelSet:
    """Return the label set of these pairs from a cache, which `forget_label_sets` bounds: every scrape has the same
    ones, and a lookup costs a tenth of making one."""
    return LabelSet(**labels)


@cache
def label_sets(label: str, values: tuple[str, ...], /, **labels: str) -> tuple[LabelSet, ...]:
    """Return the label sets of these pairs with each value of one more label, by one lookup."""
    return tuple([LabelSet(**labels, **{label: value}) for value in values])


_CACHES = (label_set, label_sets)
_asked_before = [0] * len(_CACHES)


def forget_label_sets() -> None:
    """Forget all label sets if more are cached than were used since the last call. Call this before each scrape.

    Scrapes with the same labels keep the caches. If names change or a server is gone, a cache never exceeds the labels
    of two scrapes, which the bounds of a document limit.
    """
    for place, cached in enumerate(_CACHES):
        kept = cached.cache_info()
        asked = kept.hits + kept.misses
        if kept.currsize > asked - _asked_before[place]:
            cached.cache_clear()
            asked = 0
        _asked_before[place] = asked


Line = tuple[str, LabelSet, float]
"""Name, labels and value of a sample. The library's `Sample` takes ten times as long to make."""


class Family(Metric):
    """A family whose labels are all label sets. Names are not checked: tests do that."""

    def __init__(self, name: str, documentation: str, kind: str, lines: list[Line]) -> None:
        self.name, self.documentation, self.type, self.unit, self.lines = name, documentation, kind, "", lines

    @property
    def samples(self) -> list[Sample]:  # type: ignore[override]
        """The lines as the library has them."""
        return [Sample(*line) for line in self.lines]


Subject = TypeVar("Subject")
Key = TypeVar("Key")

Whole = TypeVar("Whole")

Subjects = Sequence[tuple[LabelSet, Subject]]

Each = Callable[["Scrape"], Subjects[Subject]]
"""Lists the subjects of a kind in a scrape."""


class Histogram(NamedTuple):
    """The numbers up to each bound, of which the last is `+Inf`, and the sum of all that is counted."""

    bounds: tuple[str, ...]
    counts: Sequence[float]
    sum: float


Value = float | None | Mapping[Any, "float | None"] | Histogram

Rows = Mapping[str, tuple[str, Callable[[Subject], Value]]]
"""Families by their names: what each says, and its value for a subject; None: no sample.

A name that ends in `_total` is that of a counter. `uwsgi_workers{state}` has a series for each value of one more label,
and its value is a mapping; with several labels, the keys of the mapping have a value of each. With `{le}` it is a
`Histogram`.
"""

Table = tuple[Each[Subject], Rows[Subject]]
"""Families, and which subjects of a scrape have samples of them."""


def tabulate(tables: Iterable[Table[Any]], scrape: Scrape) -> Iterator[Family]:
    """Make the families of tables; none of a table without subjects, as most parts of most servers are."""
    for find, rows in tables:
        if found := find(scrape):
            for name, (documentation, value) in rows.items():
                yield make_family(name, documentation, found, value)


def make_family(
    name: str, documentation: str, subjects: Subjects[Any], value: Callable[[Any], Any] = lambda number: number
) -> Family:
    """Make a family from labelled subjects. name: as in `Rows`; value: of a subject."""
    full, family, kind, more = _parse_name(name)
    if kind == "histogram":
        lines = _write_histograms(full, subjects, value)
    elif more:
        lines = [
            (full, of, number)
            for labels, subject in subjects
            if (values := value(subject))
            for of, number in zip(_extend(labels, more, values), values.values(), strict=True)
            if number is not None
        ]
    else:
        lines = [(full, labels, number) for labels, subject in subjects if (number := value(subject)) is not None]
    return Family(family, documentation, kind, lines)


@cache
def _parse_name(name: str) -> tuple[str, str, str, tuple[str, ...]]:
    """The name of samples and of their family, the type, and the labels that the keys of a value have."""
    full, _, more = name.removesuffix("}").partition("{")
    labels = tuple(more.split(",")) if more else ()
    if labels == ("le",):
        return full, full, "histogram", labels
    return full, full.removesuffix("_total"), "counter" if full.endswith("_total") else "gauge", labels


def _extend(labels: LabelSet, more: tuple[str, ...], values: Iterable[Any]) -> Iterable[LabelSet]:
    if len(more) == 1:
        return label_sets(more[0], tuple(values), **labels)
    return [label_set(**labels, **dict(zip(more, key, strict=True))) for key in values]


def _write_histograms(name: str, subjects: Subjects[Any], value: Callable[[Any], Histogram]) -> list[Line]:
    lines: list[Line] = []
    for labels, subject in subjects:
        bounds, counts, total = value(subject)
        each = zip(label_sets("le", bounds, **labels), counts, strict=True)
        lines += [(f"{name}_bucket", bound, count) for bound, count in each]
        lines += [(f"{name}_count", labels, counts[-1]), (f"{name}_sum", labels, total)]
    return lines


def tabulate_counts(quantities: Iterable[Quantity]) -> Rows[Any]:
    """The families of the quantities whose rows name a metric, for totals that have fields of their names."""
    return {row.metric: (row.says, _find_total(row)) for row in quantities if row.metric}


def _find_total(row: Quantity) -> Callable[[object], Value]:
    if not row.known.endswith("_since"):
        return attrgetter(row.name)
    return lambda totals: None if getattr(totals, row.known) is None else getattr(totals, row.name)


def name_apart(parts: Sequence[Subject], name: Callable[[Subject], str]) -> list[tuple[str, Subject]]:
    """Give each part a unique name: a repeated one gets the suffix `#2` and so on, because labels must differ, also
    once they are escaped."""
    named: dict[str, tuple[str, Subject]] = {}
    numbers: dict[str, int] = {}
    for part in parts:
        plain = candidate = name(part)
        while escape_text(candidate) in named:
            numbers[plain] = numbers.get(plain, 1) + 1
            candidate = f"{plain}#{numbers[plain]}"
        named[escape_text(candidate)] = candidate, part
    return list(named.values())


def add_up(
    parts: Iterable[Subject], name: Callable[[Subject], Key], count: Callable[[Subject], float | None]
) -> dict[Key, float]:
    """Sum what is known of parts with equal names: uWSGI may list a part twice."""
    sums: dict[Key, float] = {}
    for part in parts:
        if (number := count(part)) is not None:
            sums[name(part)] = sums.get(name(part), 0) + number
    return sums


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Slot(NamedTuple):
    """A worker slot. process: None unless it is proven to be one of this host."""

    worker: Worker
    reading: Reading
    process: WorkerProcess | None


class ObservedServer(Struct, frozen=True, dict=True):
    """An observation whose document is a uWSGI server's. record: as it is judged."""

    observation: Observation
    reading: Reading
    snapshot: Snapshot
    record: ServerRecord
    slots: list[tuple[LabelSet, Slot]]

    @property
    def totals(self) -> Totals:
        return self.observation.totals

    @cached_property
    def advice(self) -> Sequence[SettingAdvice] | None:
        """What the review of settings says; None if no options are known."""
        return review_server(self.record)

    @cached_property
    def processes(self) -> list[WorkerProcess]:
        return [slot.process for _, slot in self.slots if slot.process]


class Scrape(Struct, frozen=True):
    """All observations of one scrape, with their labels, and those whose documents are a uWSGI server's."""

    observations: Sequence[tuple[LabelSet, Observation]]
    health: ExporterHealth
    servers: list[tuple[LabelSet, ObservedServer]]
    slots: list[tuple[LabelSet, Slot]]


def group_by_kind(observations: Sequence[Observation], health: ExporterHealth = WELL) -> Scrape:
    """Label the observations, and group them. Call this once at the beginning of a scrape."""
    forget_label_sets()
    labelled = [(label_set(server=observation.name), observation) for observation in observations]
    servers = [(labels, server) for labels, observation in labelled if (server := _observe(labels, observation))]
    slots = [pair for _, server in servers for pair in server.slots if server.snapshot.source == "stats"]
    return Scrape(labelled, health, servers, slots)


def _observe(labels: LabelSet, observation: Observation) -> ObservedServer | None:
    reading, record = observation.reading, observation.server
    if not reading or not record or not isinstance(reading.snapshot, Snapshot):
        return None
    workers, processes = reading.snapshot.workers, reading.host.processes
    labelled = label_sets("worker_id", tuple([str(worker.worker_id) for worker in workers]), **labels)
    slots = [Slot(worker, reading, processes.get(worker.pid or 0)) for worker in workers]
    return ObservedServer(observation, reading, reading.snapshot, record, list(zip(labelled, slots, strict=True)))


def each_observation(scrape: Scrape) -> Subjects[Observation]:
    return scrape.observations


def each_server(scrape: Scrape) -> Subjects[ObservedServer]:
    return scrape.servers


def each_summed(scrape: Scrape) -> Subjects[ObservedServer]:
    """The servers whose totals have series: not those of the kernel while stats do not answer, which would be less than
    before, and whose end would look like growth."""
    return [pair for pair in scrape.servers if not pair[1].observation.is_silent]


def each_slot(scrape: Scrape) -> Subjects[Slot]:
    return scrape.slots


def each_found(among: Each[Whole], find: Callable[[Whole], Subject | None]) -> Each[Subject]:
    """Lists what is found in subjects, with the labels of these; nothing for those without it."""
    return lambda scrape: [(labels, found) for labels, whole in among(scrape) if (found := find(whole))]


def each_part(among: Each[Whole], label: str, find: Callable[[Whole], Iterable[tuple[str, Subject]]]) -> Each[Subject]:
    """Lists the parts of subjects that have one more label. find: lists those of a subject, with the label's value."""
    return lambda scrape: [
        (label_set(**labels, **{label: name}), part) for labels, whole in among(scrape) for name, part in find(whole)
    ]


def each_with(find: Callable[[ObservedServer], object]) -> Each[ObservedServer]:
    return each_found(each_server, lambda server: server if find(server) else None)


each_reading = each_found(each_observation, lambda observation: observation.reading)
each_totals = each_found(each_summed, lambda server: server.totals)
each_process = each_found(each_slot, lambda slot: slot.process)


def each_worker_totals(scrape: Scrape) -> Subjects[WorkerTotals]:
    return [
        (labels, totals)
        for _, server in scrape.servers
        if server.snapshot.source == "stats"
        for (labels, _), totals in zip(server.slots, server.totals.workers, strict=False)
    ]
