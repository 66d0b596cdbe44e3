"""The same days from a real Prometheus and from history files agree, and are what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import fields, replace

from tests.report.sources.exposed import MINUTE, Exposed, expose
from tests.report.sources.records import write_history_file
from tests.support.monitoring import prometheus, write_blocks
from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Step
from tests.support.synthetic.server import make_review_data, sampled
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.columns import Column, ReviewData, ServerData, WorkerColumns
from uwsgi_headroom.report.sources.history_file import load_history_files
from uwsgi_headroom.report.sources.prometheus import load_prometheus
from uwsgi_headroom.report.sources.prometheus_api import HttpPost, PrometheusApi, make_endpoint
from uwsgi_headroom.report.sources.selection import TimeRange

pytestmark = pytest.mark.integration

HISTORY = History(
    services=(
        replace(
            stories.STORY,
            servers=2,
            peak=83 / 3,
            steps=(Step(day=34 / 96, factor=1.2, title="More traffic."),),
            reloads=(0.2,),
            restarts=(0.5,),
            missing=((58 / 96, 64 / 96),),
        ),
    ),
    days=0.75,
)
SPAN = TimeRange(HISTORY.since, HISTORY.until, "UTC")

RARE = ("full", "queue", "occupancy", "by_time")
"""Columns of the ends of distributions: where a value is below RARELY, it is a count of a few samples or requests, and
changes several times as much as the load from one quarter of an hour to the next, of which the last scrape sees a part.
"""

RARELY = 0.1

SUM, MAXIMUM = 0.01, 0.05


class Both(Struct, frozen=True):
    """The same history by each source. api: of the Prometheus, while it runs."""

    api: PrometheusApi
    from_prometheus: ReviewData
    from_files: ReviewData


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The history in a Prometheus that scraped once a minute, and in one history file for each of the machines."""
    paths = [tmp_path_factory.mktemp("history") / f"web{machine + 1}.db" for machine in range(2)]
    for machine, path in enumerate(paths):
        write_history_file(HISTORY, path, machine)
    with prometheus([], history=lambda folder: write_blocks(folder, openmetrics(HISTORY))) as running:
        api = PrometheusApi(HttpPost(make_endpoint(f"http://127.0.0.1:{running.port}")))
        asked = load_prometheus(api, lambda _now: SPAN)
        yield Both(api, asked, load_history_files(paths, lambda _end: SPAN))


def assert_close(differences: list[Difference]) -> None:
    """Sums within 1 % and largest quarters within 5 %, but for rare events."""
    for found in differences:
        if found.column.startswith(RARE) and not found.largest > RARELY:
            continue
        # A restart, a gap and the start of the history each end within a quarter, of which scrapes see a part.
        assert found.missing <= 2, found
        assert found.sum < SUM, found
        assert found.maximum < MAXIMUM, found


def test_both_sources_agree(both):
    """In every column of every server."""
    servers = zip(both.from_prometheus.servers, both.from_files.servers, strict=True)
    for one, other in servers:
        assert (one.service, one.bounds, one.objective) == (other.service, other.bounds, other.objective)
        assert_close(compare(one, other))


def test_both_are_what_happened(both):
    """In every column of every server."""
    truth = make_review_data(HISTORY).servers
    for data in (both.from_prometheus, both.from_files):
        for one, other in zip(data.servers, truth, strict=True):
            assert_close(compare(one, other))


def test_names(both):
    """A server's name is unique, and those of one service have its name."""
    assert [server.server for server in both.from_prometheus.servers] == ["shop web1:9238", "shop web2:9238"]
    assert [server.server for server in both.from_files.servers] == ["shop web1", "shop web2"]
    for data in (both.from_prometheus, both.from_files):
        assert {server.service for server in data.servers} == {"shop"}
        assert not data.partial


def test_no_event_is_lost_or_counted_twice(both):
    """A reload resets uWSGI's counters, a restart those of the exporter, and neither is a respawn."""
    for data in (both.from_prometheus, both.from_files):
        for server in data.servers:
            assert np.nansum(server.reloads) == 1
            assert np.nansum(server.respawns) == 0
            (mark,) = [event for event in server.events if event.kind == "reload"]
            assert abs(mark.time - (HISTORY.since + 0.2 * 86400)) <= 900


def test_what_was_not_sampled_is_unknown(both):
    """And a sentence says so."""
    for data in (both.from_prometheus, both.from_files):
        for server in data.servers:
            assert np.isnan(server.requests).sum() == 6
            assert not server.covered[np.isnan(server.requests)].any()
        assert all("no data for 90 min of 18 h" in problem for problem in data.problems)
        assert len(data.problems) == 2


def test_a_part_of_the_range_in_days_of_a_time_zone(both):
    """A shorter range has the same values."""
    part = load_prometheus(both.api, lambda _now: TimeRange(SPAN.since + 900, SPAN.since + 9000, "Asia/Kathmandu"))
    assert part.time_zone == "Asia/Kathmandu"
    whole = both.from_prometheus.servers[0]
    np.testing.assert_allclose(part.servers[0].requests, whole.requests[1:10], rtol=1e-9)


def test_a_service_and_a_server_can_be_chosen(both):
    """An unknown one is an error."""
    chosen = load_prometheus(both.api, lambda _now: SPAN, servers=["shop web2:9238"])
    assert [server.server for server in chosen.servers] == ["shop web2:9238"]
    with pytest.raises(HeadroomError, match="no server shop web3"):
        load_prometheus(both.api, lambda _now: SPAN, servers=["shop web3"])


def test_a_range_without_data(both):
    """Before the first scrape, there is nothing to review."""
    early = TimeRange(SPAN.since - 86400, SPAN.since - 43200, "UTC")
    with pytest.raises(HeadroomError, match="has no metrics of uwsgi-headroom from 2026-09-26 06:00"):
        load_prometheus(both.api, lambda _now: early)


class Difference(Struct, frozen=True):
    """Relative differences of a column: of its sum, and of its largest quarter of an hour. missing: quarters that only
    one of both has; largest: the largest value."""

    column: str
    sum: float
    maximum: float
    missing: int
    largest: float


def named_columns(server: ServerData | WorkerColumns) -> Iterator[tuple[str, Column]]:
    """Every column of a server by name, those of its parts and workers too."""
    for each in fields(server):
        value = getattr(server, each.name)
        if isinstance(value, np.ndarray) and each.name != "time":
            yield each.name, value
        elif each.name == "by_worker":
            for worker in value:
                yield from ((f"worker {worker.worker_id} {name}", column) for name, column in named_columns(worker))
        elif each.name in ("waits", "backends", "routes"):
            yield from ((f"{each.name} {part}", column) for part, column in value.items())
        elif each.name in ("occupancy", "by_time", "percentiles"):
            yield from ((f"{each.name} {place}", column) for place, column in enumerate(value))


def compare(one: ServerData, other: ServerData) -> list[Difference]:
    """The differences of all columns; both servers must have the same ones."""
    columns, others = dict(named_columns(one)), dict(named_columns(other))
    assert columns.keys() == others.keys(), columns.keys() ^ others.keys()
    return [_compare(name, columns[name], others[name]) for name in columns]


def _compare(name: str, one: Column, other: Column) -> Difference:
    known = ~np.isnan(one) & ~np.isnan(other)
    missing = int((np.isnan(one) != np.isnan(other)).sum())
    if not known.any():
        return Difference(name, 0.0, 0.0, missing, float("nan"))
    sums, maxima = ([float(f(column[known])) for column in (one, other)] for f in (np.sum, np.max))
    return Difference(name, _relative(*sums), _relative(*maxima), missing, maxima[1])


def _relative(one: float, other: float) -> float:
    return 0.0 if one == other else abs(one - other) / max(abs(other), 1e-300)


PHASE = 7.3
"""Seconds from a full minute to the next scrape: Prometheus scrapes each target at its own time."""


def openmetrics(history: History) -> Iterator[str]:
    """Yields scrapes once a minute, grouped by family as the format requires; none while a server is missing."""
    families: dict[str, list[Iterator[str]]] = {}
    for service in history.services:
        for place in range(service.servers):
            times = np.arange(history.since + PHASE + 11 * place, history.until, MINUTE)
            times = times[sampled(history, service, times)]
            target = {"instance": f"web{place + 1}:9238", "job": "uwsgi"}
            for series in expose(history, service, place):
                families.setdefault(series.name, []).append(_lines(series, target, times, history.since))
    for name, series_lines in families.items():
        yield f"# TYPE {name} gauge\n"
        yield from chain(*series_lines)
    yield "# EOF\n"


def _lines(series: Exposed, target: Mapping[str, str], times: np.ndarray, since: float) -> Iterator[str]:
    labels = ",".join(f'{key}="{value}"' for key, value in {**target, **series.labels}.items())
    head = f"{series.name}{{{labels}}}"
    after = (times - since) / MINUTE
    if series.counter:
        before = np.floor(after).astype(int)
        ahead = np.minimum(before + 1, len(series.values) - 1)
        growth = np.maximum(0.0, series.values[ahead] - series.values[before])  # a reset is at the end of its minute
        values = series.values[before] + (after - before) * growth
    else:
        values = series.values[np.floor(after).astype(int)]
    for at, value in zip(times.tolist(), values.tolist(), strict=True):
        yield f"{head} {value:.6f} {at:.3f}\n"
