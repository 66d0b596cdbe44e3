"""The recording rules, evaluated by promtool over the exporter's series, equal the exporter's own figures."""

import contextlib
import json
import random
import re
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from msgspec import Struct
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.support import promtool
from tests.support.exporter import exporter
from tests.support.observations import everything, series, up
from tests.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from tests.support.simulated_server import Server
from tools.environments import ROOT
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


CAPTURED: dict[str, str] = json.loads(Path(__file__).with_name("uwsgi_exporter.json").read_text())
"""What timonwong/uwsgi_exporter 1.3.0 (commit 8e50e1b) answers about captured documents, by their names, read with
`--stats.uri file://... --collect.cores`. Its help texts, build information and durations are left out, and of
`stats_uri` the directory."""

MIGRATION = ROOT / "alerts" / "MIGRATION.md"
(_GROUP,) = yaml.safe_load((promtool.RULES / "compat-uwsgi-exporter.yaml").read_text())["groups"]
RECORDED = [rule["record"] for rule in _GROUP["rules"]]

OTHERWISE = {
    ("signal_handled", "uwsgi_worker_idle"): "a worker may handle a uWSGI signal and still be idle",
    ("no_cores", "uwsgi_worker_busy"): "threads are hidden",
    ("no_cores", "uwsgi_worker_idle"): "threads are hidden",
    ("no_cores", "uwsgi_worker_cores"): "threads are hidden, not 0",
}
"""Values in which ours differs from theirs on purpose."""


def theirs(name: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yields the samples of a captured response: name, labels with the server in place of the address, value."""
    # Without types: the parser requires counters to end in _total, which its cache counters do not.
    text = "".join(line for line in CAPTURED[name].splitlines(keepends=True) if not line.startswith("#"))
    for family in parsed(text):
        for sample in family.samples:
            labels = {label: value for label, value in sample.labels.items() if label != "stats_uri"}
            yield sample.name, {"server": name, **labels}, sample.value


def written(name: str, labels: dict[str, str]) -> str:
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"


def test_recorded_names_say_what_theirs_say(tmp_path):
    """For real documents (cheaper's workers, busy threads, killed workers, caches, memory), except the listed
    values."""
    given: dict[str, list[float | None]] = {}
    for server in CAPTURED:
        given |= {name: [value] for name, value in series(up(server)).items()}
        for name, labels, value in theirs(server):
            # uWSGI writes 0 for memory that it did not measure.
            if name in RECORDED and not (name == "uwsgi_worker_rss_bytes" and value == 0):
                given[written(f"theirs:{name}", labels)] = [value]
    servers = [name for name in RECORDED if not name.startswith("uwsgi_exporter_")]
    queries = []
    for name in servers:
        but = "|".join(server for server, other in OTHERWISE if other == name)
        ours, other = f'{name}{{server!~"{but}"}}', f'theirs:{name}{{server!~"{but}"}}'
        queries.append(f"({ours} unless {other}) or ({other} unless {ours}) or ({ours} != {other})")
    averages = "avg by (server) ({}uwsgi_worker_busy{{server!='no_cores'}})"
    queries.append(f"{averages.format('')} != {averages.format('theirs:')}")
    assert all(any(key.startswith(f"theirs:{name}{{") for key in given) for name in servers)
    assert promtool.nothing(tmp_path, ["compat-uwsgi-exporter.yaml"], given, "1m", "0m", queries) == ""


@pytest.mark.parametrize("server", CAPTURED)
def test_shared_names_say_what_theirs_say(server):
    """Same name, labels and value, for every row of the table that says `same`."""
    same = {name for name, row in rows().items() if row[3].startswith("same") and not row[3].startswith("same name")}
    ours = series(up(server))
    compared = [(written(name, labels), value) for name, labels, value in theirs(server) if name in same - {"uwsgi_up"}]
    assert len(compared) >= 5
    for key, value in compared:
        assert ours[key] == value


def rows() -> dict[str, tuple[str, str, str, str]]:
    """The rows of the table by their name: their type, our name, our type, the remark."""
    names = {}
    for line in MIGRATION.read_text().partition("## Metrics")[2].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0].startswith("`"):
            names[cells[0].strip("`")] = (cells[1], cells[2].strip("`"), cells[3], cells[4])
    return names


def _types(metrics: Iterator[Metric]) -> dict[str, str]:
    return {metric.name + ("_total" if metric.type == "counter" else ""): metric.type for metric in metrics}


def test_the_table_has_all_of_theirs():
    """The table has each metric that they export, with its type."""
    short = {"counter": "c", "gauge": "g"}
    exported = {name: short[kind] for text in CAPTURED.values() for kind, name in _declared(text)} | {
        "uwsgi_exporter_scrape_duration_seconds": "summary",
        "uwsgi_exporter_build_info": "g",
    }
    assert {name: row[0] for name, row in rows().items()} == exported


def _declared(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            yield kind, name


def test_the_table_tells_the_truth_about_ours():
    """Our name exists and has the type in the table; `same` means the same name; `recorded` names are in the rules."""
    short = {"counter": "c", "gauge": "g"}
    ours = {name: short.get(kind) for name, kind in _types(families(everything())).items()}
    for name, (_, our_name, our_type, words) in rows().items():
        assert our_name == "none" or ours[our_name] == our_type, name
        assert not words.startswith("same") or our_name == name, name
    assert [name for name, row in rows().items() if row[3].startswith("recorded")] == sorted(
        RECORDED, key=list(rows()).index
    )
    assert not set(RECORDED) & set(ours)


@pytest.mark.integration
def test_the_autoscalers_question_on_a_real_uwsgi(tmp_path):
    """avg(uwsgi_worker_busy) is the part of busy workers among those that were ever spawned."""
    with (
        uwsgi("--processes", "6", "--threads", "2", "--cheaper", "4", "--cheaper-initial", "4") as server,
        exporter("--stats", f"shop=unix://{server.stats}") as ours,
        held(server, 3),
    ):
        wait_until(lambda: ours.scrape()['uwsgi_threads_busy{server="shop"}'] == 3, what="three requests in service")
        before, scraped, after = _busy(server), ours.scrape(), _busy(server)
    assert before == after
    busy, spawned = after
    assert spawned == 4
    given: dict[str, list[float | None]] = {name: [value] for name, value in scraped.items()}
    queries = [
        f"avg(uwsgi_worker_busy) != {busy / spawned}",
        f"sum(uwsgi_worker_busy) != {busy}",
        f"sum(uwsgi_worker_idle) != {spawned - busy}",
        f"absent(uwsgi_worker_busy) or count(uwsgi_worker_busy) != {spawned}",
    ]
    assert promtool.nothing(tmp_path, ["compat-uwsgi-exporter.yaml"], given, "1m", "0m", queries) == ""


def _busy(server: Uwsgi) -> tuple[int, int]:
    """The numbers of workers that uWSGI reports as busy, and that were ever spawned, as the Go exporter counts them."""
    workers = [worker for worker in json.loads(server.document())["workers"] if worker["id"]]
    return sum(worker["status"] == "busy" for worker in workers), len(workers)


@contextlib.contextmanager
def held(server: Uwsgi, requests: int) -> Iterator[None]:
    """Keeps `requests` in service during the block, which must end within three seconds."""
    url = f"http://127.0.0.1:{server.http}/?io_ms=3000"
    threads = [threading.Thread(target=_get, args=(url,)) for _ in range(requests)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def _get(url: str) -> None:
    with urllib.request.urlopen(url, timeout=60) as answer:
        answer.read()
