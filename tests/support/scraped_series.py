"""The series of a watched server, as one scrape returns them."""

from itertools import chain

from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.metrics import SECTIONS
from uwsgi_headroom.metrics.family import LabelSet, group_by_kind, tabulate
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.watch import Watch

WINDOWS = (60.0, 300.0)


def watch_of(*readings: Reading) -> Watch:
    watch = Watch("shop", Unix("/run/shop.stats"))
    for reading in readings:
        watch._record(reading.at, reading)
    return watch


def series(watch: Watch, outcome: Reading | ReadError, *sections: str) -> dict[str, float]:
    """All series by their text, without the label `server`: those of these sections, or of all."""
    of = watch._observation(outcome, watch.figures(outcome, WINDOWS) if isinstance(outcome, Reading) else [])
    scrape = group_by_kind([of])
    made = chain.from_iterable(tabulate(SECTIONS[section], scrape) for section in sections or SECTIONS)
    values: dict[str, float] = {}
    for metric in made:
        for sample in metric.samples:
            labels = LabelSet(**{name: value for name, value in sample.labels.items() if name != "server"})
            key = sample.name + labels.text
            assert key not in values
            values[key] = sample.value
    return values
