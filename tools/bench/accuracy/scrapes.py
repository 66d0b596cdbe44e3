"""Runs the exporter and scrapes it, and computes the growth of counters between two scrapes."""

import contextlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.support.exporter import Exporter, exporter
from tests.support.real_uwsgi import wait_until

SERVER = "bench"
"""The name of the server in the exporter's labels."""

Labels = frozenset[tuple[str, str]]
Samples = dict[str, dict[Labels, float]]

_LINE = re.compile(r"(?m)^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Scrape:
    """One response of the exporter, and the monotonic time at which it was complete."""

    received: float
    text: str = field(repr=False)

    @cached_property
    def samples(self) -> Samples:
        """Samples by name and labels, without the label `server`, because there is only one server."""
        samples: Samples = {}
        for name, labels, value in _LINE.findall(self.text):
            of = frozenset(pair for pair in _LABEL.findall(labels) if pair[0] != "server")
            samples.setdefault(name, {})[of] = float(value)
        return samples

    @property
    def elapsed(self) -> float:
        """Seconds from the exporter's first reading to the one behind this scrape, by the exporter's own clock."""
        names = ("uwsgi_exporter_observed_seconds_total", "uwsgi_exporter_sample_gap_seconds_total")
        return sum(self.value(name) for name in names)

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name][frozenset(labels.items())]

    def by_worker(self, name: str) -> dict[int, float]:
        values: dict[int, float] = {}
        for labels, value in self.samples.get(name, {}).items():
            worker = int(dict(labels)["worker_id"])
            values[worker] = values.get(worker, 0.0) + value
        return values

    def total(self, name: str) -> float:
        return sum(self.samples.get(name, {}).values())


class Scraper:
    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self.scrapes: list[Scrape] = []

    def scrape(self) -> Scrape:
        text = self._exporter.metrics()
        self.scrapes.append(Scrape(time.monotonic(), text))
        return self.scrapes[-1]

    def until(self, instant: float, every: float) -> Scrape:
        """Scrapes every `every` seconds until `instant`; returns the last scrape, which is made at `instant`."""
        while (left := instant - time.monotonic()) > 0:
            time.sleep(min(every, left))
            last = self.scrape()
        return last

    def document(self) -> Any:
        return json.loads(self._exporter.get(f"/api/v2/servers/{SERVER}?window=3600")[1])


@contextlib.contextmanager
def exporting(stats: str, *options: str) -> Iterator[tuple[Exporter, Scraper]]:
    """Runs the exporter of a stats socket, from its first reading on."""
    with exporter("--stats", f"{SERVER}={stats}", "--log.level", "warning", *options) as running:
        scraper = Scraper(running)
        wait_until(lambda: scraper.scrape().samples.get("uwsgi_threads_available"), what="the exporter to read")
        yield running, scraper


class Span:
    """The growth of counters between two scrapes, over the exact time between their two readings."""

    def __init__(self, start: Scrape, end: Scrape) -> None:
        self.start, self.end = start, end
        self.seconds = end.elapsed - start.elapsed

    def growth(self, name: str) -> float:
        return self.end.total(name) - self.start.total(name)

    def by_worker(self, name: str) -> dict[int, float]:
        start, end = self.start.by_worker(name), self.end.by_worker(name)
        return {worker: value - start.get(worker, 0.0) for worker, value in end.items()}


def first_reading(scrapes: Sequence[Scrape]) -> float:
    """The monotonic time of the exporter's first reading, to a few milliseconds: a reading comes before the response of
    its scrape is complete, and the scrape that was answered soonest after its reading gives the tightest bound."""
    return min(scrape.received - scrape.elapsed for scrape in scrapes)


def window(span: Span, scrapes: Sequence[Scrape]) -> tuple[float, float]:
    first = first_reading(scrapes)
    return first + span.start.elapsed, first + span.end.elapsed
