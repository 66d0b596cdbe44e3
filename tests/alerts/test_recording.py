"""The recording rules, evaluated by promtool over the exporter's series, equal the exporter's own figures."""

import random
from collections.abc import Iterator, Sequence

import pytest
from msgspec import Struct

from tests.support import promtool
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.metrics import families
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.pace import Pace

READ_EVERY, SCRAPE_EVERY, WINDOW, LENGTH = 5, 30, 300, 600
"""Seconds."""

_PATTERN = SCRAPE_EVERY // READ_EVERY
SERVERS = 15
TOLERANCE = 1e-9
"""Relative: rounding of arithmetic in another order. Different formulas differ by more."""

Expected = Iterator[tuple[str, dict[str, str], float | None]]
"""Recorded name, labels, and value; None for no value."""


class Story(Struct, frozen=True):
    """One server. scrapes: by series, a value for each half minute; figures: the exporter's, at the end."""

    labels: dict[str, str]
    scrapes: dict[str, list[float | None]]
    figures: Figures


def tell_story(rng: random.Random, name: str) -> Story:
    """Makes a random server with a random load."""
    labels = {"job": "uwsgi", "instance": "web-1:9238", "server": name}
    integrals, history, reading = Integrals(), History(), None
    scrapes: dict[str, list[float | None]] = {}
    for at, reading in _readings(rng):
        if reading:
            integrals.add(reading, longest_step=READ_EVERY + 1)
            history.add(reading.at, integrals.totals)
        else:
            integrals.miss(at)
        if at % SCRAPE_EVERY == 0 and reading:
            seen = Observation(name, "unix:///run/app.stats", reading, {}, integrals.totals, Pace(), [], None)
            for series, value in _scrape(seen, labels):
                scrapes.setdefault(series, [None] * (LENGTH // SCRAPE_EVERY + 1))[at // SCRAPE_EVERY] = value
    window = history.window(WINDOW)
    assert window
    assert reading
    return Story(labels, scrapes, compute_figures(Known(window, describe_server(reading))))


def _scrape(seen: Observation, labels: dict[str, str]) -> Iterator[tuple[str, float]]:
    """Yields each series of the server, with the labels of its target, and its value."""
    for metric in families([seen]):
        for sample in metric.samples:
            if "server" in sample.labels and sample.name.startswith("uwsgi_"):
                pairs = sorted({**labels, **sample.labels}.items())
                yield sample.name + "{" + ",".join(f'{key}="{value}"' for key, value in pairs) + "}", sample.value


def _readings(rng: random.Random) -> Iterator[tuple[int, Reading | None]]:
    """Yields the time and result of each read; None if the read failed."""
    processes, threads = rng.choice([1, 2, 3, 4, 5, 8]), rng.choice([1, 2, 8])
    late = rng.random() < 0.2 and processes > 1
    server = Server(processes=processes, threads=threads, spawned=processes - late, cores=rng.random() < 0.85)
    loads = [_load(rng, threads) for _ in range(processes)]
    gap = range(0) if late else rng.choice([range(0), range(425, 450), range(395, 480)])
    spawns_at = rng.choice([390, 480])
    for at in range(0, LENGTH + 1, READ_EVERY):
        place = at // READ_EVERY % _PATTERN
        if late and at == spawns_at:
            server.respawn(processes, at)
        for slot, load in zip(server.slots, loads, strict=True):
            slot.busy = load.busy[place] if slot.pid else 0
            slot.state = ("busy" if slot.busy else "idle") if slot.pid else slot.state
        yield at, None if at in gap else server.read(at)
        for slot, load in zip(server.slots, loads, strict=True):
            if slot.pid is not None:
                slot.requests += load.served[place]
                slot.running_time = (slot.running_time or 0.0) + load.served[place] / 100


class _Load(Struct, frozen=True):
    """A worker's requests from one read to the next, and its busy threads at each read."""

    served: list[int]
    busy: list[int]


def _load(rng: random.Random, threads: int) -> _Load:
    rate, crowd = rng.choice([0, 3, 30, 30, 100]), rng.choice([0.01, 0.5, 1.0])
    return _Load(
        served=[rng.randint(0, 2 * rate) for _ in range(_PATTERN)],
        busy=[sum(rng.random() < crowd for _ in range(threads)) for _ in range(_PATTERN)],
    )


@pytest.fixture(scope="module")
def stories():
    rng = random.Random(20)
    return [tell_story(rng, f"shop-{server}") for server in range(SERVERS)]


def test_the_rules_say_what_the_exporter_says(stories, tmp_path):
    """Each figure is equal in both, or absent in both, for servers of all kinds."""
    text = (promtool.RULES / "recording.yaml").read_text()
    read = {key: values for story in stories for key, values in story.scrapes.items() if key.partition("{")[0] in text}
    series: dict[str, Sequence[float | None]] = {**read}
    expected = [figure for story in stories for figure in _figures(story)]
    for name, labels, value in expected:
        if value is not None:
            written = ",".join(f'{label}="{text}"' for label, text in labels.items())
            series[f"expected:{name}{{{written}}}"] = [value] * (LENGTH // SCRAPE_EVERY + 1)
    names = {name for name, _, _ in expected}
    for name in names:
        assert len([key for key in series if key.startswith(f"expected:{name}{{")]) > SERVERS / 2, name
    asked = [
        f"({name} unless expected:{name}) or (expected:{name} unless {name})"
        f" or abs({name} - expected:{name}) > {TOLERANCE} * (1 + abs(expected:{name}))"
        for name in sorted(names)
    ]
    assert promtool.nothing(tmp_path, ["recording.yaml"], series, "30s", f"{LENGTH}s", asked) == ""


def _figures(story: Story) -> Expected:
    """What is recorded of counters. Other series are the exporter's figures already: alerts/tests has them."""
    figures, labels = story.figures, story.labels
    active = [worker for worker in figures.workers if worker.active]
    requests = sum(worker.requests for worker in active)
    for worker in active:
        of_worker = {**labels, "worker_id": str(worker.worker_id)}
        yield "worker:uwsgi_active_requests:rate5m", of_worker, worker.requests / WINDOW
    yield "server:uwsgi_active_requests:rate5m", labels, requests / WINDOW
    yield "server:uwsgi_active_workers:count5m", labels, len(active) or None
    yield "server:uwsgi_hot_worker_ratio:ratio_rate5m", labels, figures.balance.hot_ratio
    floor = figures.balance.noise_floor if len(active) > 1 else None
    yield "server:uwsgi_hot_worker_ratio_noise_floor:ratio_rate5m", labels, floor
    busy = figures.flow.littles_law if figures.flow.observed is None else figures.flow.observed
    yield "server:uwsgi_utilization:ratio_rate5m", labels, ratio(busy or 0.0, figures.ceiling or 0)
