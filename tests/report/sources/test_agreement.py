"""The same days from a real Prometheus and from history files agree, and are what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.report.sources.records import MINUTE, Exposed, expose, write_history_file
from tests.support.monitoring import prometheus, write_blocks
from tests.support.synthetic import stories
from tests.support.synthetic.plan import DAY, History, Step
from tests.support.synthetic.server import is_sampled, make_review_data
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.report.quarters import ReviewData, ServerHistory, count_timed
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.sources.history_file import load_history_files
from uwsgi_headroom.report.sources.prometheus import load_prometheus
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi, make_endpoint
from uwsgi_headroom.report.sources.selection import TimeRange
from uwsgi_headroom.store.record import Record

pytestmark = pytest.mark.integration

HISTORY = History(
    services=(
        replace(
            stories.STORY,
            servers=2,
            peak=83 / 3,
            steps=(Step(day=34 / 96, factor=1.2),),
            reloads=(0.2,),
            restarts=(0.5,),
            missing=((58 / 96, 64 / 96),),
        ),
    ),
    days=0.75,
)
SPAN = TimeRange(HISTORY.since, HISTORY.until, "UTC")

SUM, MAXIMUM = 0.01, 0.05
"""The most by which sums, and the largest quarters, may differ."""

RARE = 20.0
"""Seconds or requests in the largest quarter below which a figure is made of a few samples, of which the last scrape
sees a part."""


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
        api = PrometheusApi(make_endpoint(f"http://127.0.0.1:{running.port}"))
        asked = load_prometheus(api, lambda _now: SPAN)
        yield Both(api, asked, load_history_files(paths, lambda _end: SPAN))


def figures_of(record: Record) -> dict[str, float]:
    """The figures of a quarter, by name."""
    window = record.window
    found = {"observed": window.observed_seconds, "full": window.full_seconds, "own": window.cpu.own_seconds}
    found |= {"idle": window.cpu.idle_seconds, "others": window.cpu.others_seconds, "judged": window.judged}
    found |= {"missed": window.missed, "queue": sum(window.queue_seconds.values()), "timed": count_timed(record)}
    found |= {f"waits {state}": seconds for state, seconds in window.waits.seconds.items()}
    found |= {f"backend {name}": seconds for name, seconds in window.waits.backends.items()}
    found |= {f"route {name}": seconds for name, seconds in record.routes.seconds.items()}
    for worker in window.workers:
        names = ("requests", "running_time", "busy_seconds", "cpu_seconds", "up_seconds", "interpreter_lock_seconds")
        found |= {f"worker {worker.worker_id} {name}": getattr(worker, name) for name in names}
    percentiles = compute_percentiles(record.response_times).percentiles
    found |= {f"percentile {each.share:g}": 100 * each.seconds for each in percentiles if each.seconds}
    levels = record.levels
    return found | {"cpus": levels.cpus, "memory": levels.memory_per_worker, "available": levels.memory_available}


def assert_close(one: ServerHistory, other: ServerHistory) -> None:
    """Sums within 1 %, and the largest quarters within 5 %."""
    # A restart, a gap and the start of the history each end within a quarter, of which scrapes see a part.
    assert len(one.quarters.keys() ^ other.quarters) <= 2
    common = sorted(one.quarters.keys() & other.quarters)
    pairs = [(figures_of(one.quarters[end]), figures_of(other.quarters[end])) for end in common]
    for name in pairs[0][0]:
        mine, others = [pair[0][name] for pair in pairs], [pair[1][name] for pair in pairs]
        if max(others) > RARE or name.startswith("percentile"):
            assert max(mine) == pytest.approx(max(others), rel=MAXIMUM), name
            assert sum(mine) == pytest.approx(sum(others), rel=MAXIMUM if name.startswith("percentile") else SUM), name


def test_both_sources_agree(both):
    """In every figure of every server."""
    for one, other in zip(both.from_prometheus.servers, both.from_files.servers, strict=True):
        assert one.service == other.service
        assert_close(one, other)


def test_both_are_what_happened(both):
    """In every figure of every server."""
    truth = make_review_data(HISTORY).servers
    for data in (both.from_prometheus, both.from_files):
        for one, other in zip(data.servers, truth, strict=True):
            assert_close(one, other)


def test_both_have_the_same_review(both):
    """The same verdict, the same limits, and the same number for each setting."""
    reviews = [build_review(data).services[0] for data in (both.from_prometheus, both.from_files)]
    one, other = reviews
    assert one.verdict.judgement == other.verdict.judgement
    assert [each.code for each in one.recommendations] == [each.code for each in other.recommendations]
    assert [each.setting for each in one.recommendations] == [each.setting for each in other.recommendations]
    assert one.utilization.first == other.utilization.first
    assert one.utilization.headroom == pytest.approx(other.utilization.headroom, rel=0.02)
    assert one.users.whole.percentiles == pytest.approx(other.users.whole.percentiles, rel=0.03)


def test_names(both):
    """A server's name is unique, and those of one service have its name."""
    assert [server.server for server in both.from_prometheus.servers] == ["shop web1:9238", "shop web2:9238"]
    assert [server.server for server in both.from_files.servers] == ["shop web1", "shop web2"]
    for data in (both.from_prometheus, both.from_files):
        assert {server.service for server in data.servers} == {"shop"}
        assert not data.partial


def test_no_reload_is_lost_or_counted_twice(both):
    """It resets uWSGI's counters, and a restart those of the exporter."""
    for data in (both.from_prometheus, both.from_files):
        for server in data.servers:
            (end,) = [end for end, record in server.quarters.items() if record.window.reloads]
            assert abs(end - (HISTORY.since + 0.2 * 86400)) <= 900
            assert server.quarters[end].window.reloads == 1


def test_what_was_not_sampled_is_unknown(both):
    """And a sentence says so."""
    for data in (both.from_prometheus, both.from_files):
        for server in data.servers:
            assert len(server.quarters) == 72 - 6
        assert all("no data for 90 min of 18 h" in problem for problem in data.problems)
        assert len(data.problems) == 2


def test_a_part_of_the_range_in_days_of_a_time_zone(both):
    """A shorter range has the same values."""
    part = load_prometheus(both.api, lambda _now: TimeRange(SPAN.since + 900, SPAN.since + 9000, "Asia/Kathmandu"))
    assert part.time_zone == "Asia/Kathmandu"
    whole = both.from_prometheus.servers[0].quarters
    assert dict(part.servers[0].quarters) == dict(list(whole.items())[1:10])


def test_a_service_and_a_server_can_be_chosen(both):
    """Only its series are asked for."""
    chosen = load_prometheus(both.api, lambda _now: SPAN, servers=["shop web2:9238"])
    assert [server.server for server in chosen.servers] == ["shop web2:9238"]


PHASE = 7.3
"""Seconds from a full minute to the next scrape: Prometheus scrapes each target at its own time."""


def openmetrics(history: History) -> Iterator[str]:
    """Yields scrapes once a minute, grouped by family as the format requires; none while a server is missing."""
    families: dict[str, list[Iterator[str]]] = {}
    for service in history.services:
        for place in range(service.servers):
            start, number = history.since + PHASE + 11 * place, round(history.days * DAY / MINUTE)
            times = [time for each in range(number) if is_sampled(history, service, time := start + MINUTE * each)]
            target = {"instance": f"web{place + 1}:9238", "job": "uwsgi"}
            for series in expose(history, service, place):
                families.setdefault(series.name, []).append(_lines(series, target, times, history.since))
    for name, series_lines in families.items():
        yield f"# TYPE {name} gauge\n"
        yield from chain(*series_lines)
    yield "# EOF\n"


def _lines(series: Exposed, target: Mapping[str, str], times: Sequence[float], since: float) -> Iterator[str]:
    labels = ",".join(f'{key}="{value}"' for key, value in {**target, **series.labels}.items())
    for at in times:
        before, part = divmod((at - since) / MINUTE, 1)
        value, ahead = series.values[int(before)], series.values[min(int(before) + 1, len(series.values) - 1)]
        growth = max(0.0, ahead - value) if series.counter else 0.0  # a reset is at the end of its minute
        yield f"{series.name}{{{labels}}} {value + part * growth:.6f} {at:.3f}\n"
