"""Every query of every dashboard, asked of a real Prometheus that scrapes the real exporter on a real uWSGI."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from app.monitoring import JOB
from tests.support import alert_scenes, monitoring, recorded_months
from tests.support.dashboard_queries import NAMES, Query, queries
from tests.support.exporter import exporter
from tests.support.monitoring import Labels, Prometheus

pytestmark = pytest.mark.integration

LIMIT = "1s"
"""What Prometheus itself gives up after: a page that is slower is not looked at."""

_SERVER_EVENTS = ("Reloads", "Configuration", "Down and up")
EVENTS = {
    "fleet": _SERVER_EVENTS,
    "server": (*_SERVER_EVENTS, "Workers ended", "Cheaper mode", "Verdicts", "Exporter"),
    "affinity": ("Reloads", "Workers ended"),
    "capacity": ("Configuration",),
}
"""Marks of events, which tests/dashboards/test_annotations.py asks about."""

MAY_BE_EMPTY = {
    "fleet: mark Alerts": "no rules are loaded here",
    "fleet: Alerts A": "no rules are loaded here",
    "server: mark Alerts": "no rules are loaded here",
    "server: Alerts on this server A": "no rules are loaded here",
    "server: Requests B": "no static files are served",
    "server: Connections that found the queue full A": "its sockets are UNIX sockets, which count nothing",
    "server: Connections that found the queue full B": "its sockets are UNIX sockets, which count nothing",
    "affinity: mark Alerts": "no rules are loaded here",
    "capacity: mark Alerts": "no rules are loaded here",
    "server: Workers by state B": "every worker has its application",
    **{f"{name}: mark {mark}": "nothing happened to the server" for name, marks in EVENTS.items() for mark in marks},
}
"""Queries that have no answer here, and why."""


@dataclass(frozen=True)
class GrafanaQueries:
    """A Prometheus, and what is chosen on the dashboards in it. now: the end of the shown time."""

    prometheus: Prometheus
    now: float
    instance: str

    def queries(self, name: str) -> list[Query]:
        """Every query of a dashboard, over an hour or ninety days."""
        one = {"job": JOB, "instance": self.instance, "server": "shop"}
        many = dict.fromkeys(one, ".*")
        seconds = recorded_months.DAYS * recorded_months.DAY if name == "capacity" else 3600
        values = {
            "service_label": "server",
            "service": ".*",
            "window": "5m",
            "utc_offset": "0",
            "__from": str(round((self.now - seconds) * 1000)),
            **(many if name in ("fleet", "capacity") else one),
        }
        return list(queries(name, values, seconds))

    def query(self, where: str) -> Query:
        """The one at this place."""
        (query,) = [query for query in self.queries(where.partition(":")[0]) if query.where == where]
        return query

    def series(self, query: Query) -> Mapping[Labels, object]:
        """What a query answers. Fails if Prometheus cannot parse it, or takes too long."""
        if query.kind == "values":
            values = self.prometheus.values(query.label, query.expression)
            return {frozenset({(query.label, value)}): 1.0 for value in values}
        if query.kind == "instant":
            return self.prometheus.query(query.expression, self.now)
        if not query.where.startswith("capacity"):
            # Grafana would begin and end at a multiple of the step, before which there may have been too few samples.
            return self.prometheus.query_range(query.expression, self.now - 3600, self.now, query.step)
        end = self.now // query.step * query.step
        start = (self.now - recorded_months.DAYS * recorded_months.DAY) // query.step * query.step
        return self.prometheus.query_range(query.expression, start, end, query.step)


@pytest.fixture(scope="module")
def grafana() -> Iterator[GrafanaQueries]:
    """Uneven workers under load, in a Prometheus that also has ninety days of what rules would have recorded."""
    began = time.time()
    with alert_scenes.mapped(processes=4, threads=4) as server:
        arguments = ("--stats", f"shop={server.stats}", "--cpu-residency")
        with (
            exporter(*arguments) as running,
            monitoring.prometheus(
                [running.port], history=lambda directory: recorded_months.write(directory, began)
            ) as prometheus,
            alert_scenes.loaded(server.hot, clients=6, io_ms=20, cpu_ms=4),
            alert_scenes.loaded(server.calm, clients=3, io_ms=20, cpu_ms=4),
        ):
            enough_samples = 'count_over_time(uwsgi_unevenness_cost_ratio{window="5m"}[1m]) > 15'
            prometheus.wait_for(enough_samples, seconds=120)
            yield GrafanaQueries(replace(prometheus, limit=LIMIT), time.time(), f"127.0.0.1:{running.port}")


@pytest.mark.parametrize("name", NAMES)
def test_every_query_has_an_answer(grafana: GrafanaQueries, name: str) -> None:
    """It parses, returns data within a second, or stands in the list of those that may be empty."""
    empty = [query.where for query in grafana.queries(name) if not grafana.series(query)]
    assert set(empty) <= set(MAY_BE_EMPTY)


def test_the_list_of_empty_ones_is_true(grafana: GrafanaQueries) -> None:
    """It names queries that there are."""
    assert set(MAY_BE_EMPTY) <= {query.where for name in NAMES for query in grafana.queries(name)}


def test_the_hot_worker_is_seen(grafana: GrafanaQueries) -> None:
    """Who takes most of the requests stands first, and above the fair line."""
    shares = grafana.series(grafana.query("server: Share, and the fair one A"))
    fair = grafana.series(grafana.query("server: Share, and the fair one B"))
    assert next(iter(shares)) == frozenset({("worker_id", "1")})
    assert fair == {frozenset(): 0.25}
    assert float(str(shares[frozenset({("worker_id", "1")})])) > 0.3


def test_another_label_may_be_the_service(grafana: GrafanaQueries) -> None:
    """The free label groups by whatever Prometheus has, under one name of the column."""
    query = grafana.query("fleet: Services, least headroom first A")
    by_instance = query.expression.replace('"$1", "server"', '"$1", "instance"')
    (labels,) = grafana.prometheus.query(by_instance, grafana.now)
    assert dict(labels)["service"] == grafana.instance


def test_ninety_days_are_read(grafana: GrafanaQueries) -> None:
    """The review finds the days, the peak and the growth that the history was made with."""
    days = grafana.series(grafana.query("capacity: Days recorded A"))
    peak = grafana.series(grafana.query("capacity: Peak of threads busy A"))
    rows = grafana.series(grafana.query("capacity: For the minutes A"))
    growth = grafana.series(grafana.query("capacity: Growth in 30 days A"))
    assert recorded_months.DAYS - 1 <= _one(days) <= recorded_months.DAYS + 1
    assert 0.86 < _one(peak) < 1.1
    assert {dict(labels)["instance"] for labels in rows} == {server.instance for server in recorded_months.SERVERS}
    busiest = recorded_months.SERVERS[0]
    assert 0.6 < _one(growth) / (busiest.busiest * busiest.growth / 3) < 1.1


def test_the_trend_is_a_straight_line(grafana: GrafanaQueries) -> None:
    """From one day to the next it grows by the same, all along."""
    for points in grafana.series(grafana.query("capacity: Trend of the day's p95 B")).values():
        assert isinstance(points, list)
        steps = [after - before for (_, before), (_, after) in pairwise(points)]
        assert len(steps) > 80
        assert max(steps) - min(steps) < 1e-9


def test_the_week_has_every_hour(grafana: GrafanaQueries) -> None:
    """The fullest is in the middle of a weekday, and no hour is missing."""
    week = grafana.series(grafana.query("capacity: When it is busy: weekday and hour A"))
    assert len(week) == 7 * 24
    labels = dict(max(week, key=lambda hour: float(str(week[hour]))))
    assert int(labels["weekday"]) < 5
    assert labels["hour"] in ("13", "14")


def test_server_days_are_all_counted(grafana: GrafanaQueries) -> None:
    """Every day of every server is in one band."""
    bands = [query for query in grafana.queries("capacity") if query.where.startswith("capacity: Headroom, day by day")]
    assert abs(
        sum(_one(grafana.series(band)) for band in bands) - len(recorded_months.SERVERS) * recorded_months.DAYS
    ) <= len(recorded_months.SERVERS)


def _one(series: Mapping[Labels, object]) -> float:
    (value,) = series.values()
    return float(str(value))
