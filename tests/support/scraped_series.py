"""A watched server's series as one scrape gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.family import LabelSet
from uwsgi_headroom.metrics.scrape import Scrape, Subject
from uwsgi_headroom.metrics.scrape import scrape as sort
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.watch import Watch

WINDOWS = (60.0, 300.0)


def watched(*readings: Reading) -> Watch:
    watch = Watch("shop", Unix("/run/shop.stats"))
    for reading in readings:
        watch._record(reading.at, reading)
    return watch


def subject(watch: Watch, outcome: Reading | ReadError, windows: Sequence[float] = WINDOWS) -> Subject:
    """As the fleet makes one."""
    return Subject(
        name=watch.name,
        address=str(watch.address),
        outcome=outcome,
        read_errors={},
        totals=watch.integrals.totals,
        pace=watch.pace,
        figures=watch.figures(outcome, windows) if isinstance(outcome, Reading) else [],
    )


def series(
    watch: Watch,
    outcome: Reading | ReadError,
    *modules: Callable[[Scrape], Iterator[Metric]],
    windows: Sequence[float] = WINDOWS,
) -> dict[str, float]:
    """Every series as it stands in the text, less its label `server`: of these modules, or of all."""
    of = subject(watch, outcome, windows)
    made: Iterable[Metric] = (it for module in modules for it in module(sort([of]))) if modules else families([of])
    found: dict[str, float] = {}
    for metric in made:
        for sample in metric.samples:
            labels = LabelSet(**{name: value for name, value in sample.labels.items() if name != "server"})
            key = sample.name + labels.text
            assert key not in found
            found[key] = sample.value
    return found
