"""Runs every query of every dashboard on a real Prometheus that scrapes the real exporter of a real uWSGI."""

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
"""Timeout of queries in Prometheus: nobody uses a slower dashboard."""

_SERVER_EVENTS = ("Reloads", "Configuration", "Down and up")
EVENTS = {
    "fleet": _SERVER_EVENTS,
    "server": (*_SERVER_EVENTS, "Workers ended", "Cheaper mode", "Verdicts", "Exporter"),
    "affinity": ("Reloads", "Workers ended"),
    "capacity": ("Configuration",),
}
"""Event marks, which tests/dashboards/test_annotations.py tests."""

NO_RIGHT = "not every user may see what threads wait for"
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
    "server: Response time: percentiles A": "its requests are too short for percentiles",
    "server: Workers by state B": "every worker has its application",
    "server: Load: requests in the system, by what they do A": NO_RIGHT,
    "server: Load: requests in the system, by what they do B": "it is there only without that right",
    "server: Served B": "its sockets are UNIX sockets, which count nothing",
    "server: Wait before: in the listen queue B": "no request may have been seen waiting",
    "server: Budget left of 30 days B": "no request may have been too slow",
    **{f"fleet: Servers by verdict {letter}": "no server may have that verdict" for letter in "ABCD"},
    "server: Time per request by state A": NO_RIGHT,
    "server: Interpreter lock: waiting threads by worker A": NO_RIGHT,
    **{f"{name}: mark {mark}": "nothing happened to the server" for name, marks in EVENTS.items() for mark in marks},
}
"""Queries that have no result here, with the reason."""


@dataclass(frozen=True)
class GrafanaQueries:
    """A Prometheus, and the values of the dashboards' variables. now: the end of the time range."""

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
        """The query of this dashboard, panel and letter."""
        (query,) = [query for query in self.queries(where.partition(":")[0]) if query.where == where]
        return query

    def series(self, query: Query) -> Mapping[Labels, object]:
        """The result of a query. Fails if Prometheus cannot parse the query, or takes too long."""
        if query.kind == "values":
            values = self.prometheus.values(query.label, query.expression)
            return {frozenset({(query.label, value)}): 1.0 for value in values}
        if query.kind == "instant":
            return self.prometheus.query(query.expression, self.now)
        if not query.where.startswith("capacity"):
            # Grafana would align the range to the step, where there may be too few samples.
            return self.prometheus.query_range(query.expression, self.now - 3600, self.now, query.step)
        end = self.now // query.step * query.step
        start = (self.now - recorded_months.DAYS * recorded_months.DAY) // query.step * query.step
        return self.prometheus.query_range(query.expression, start, end, query.step)


@pytest.fixture(scope="module")
def grafana() -> Iterator[GrafanaQueries]:
    """Uneven workers under load, in a Prometheus that also has ninety days of recorded series."""
    began = time.time()
    with alert_scenes.mapped(processes=4, threads=4) as server:
        arguments = ("--stats", f"shop={server.stats}", "--cpu-residency", "--slo", "1s:99%", "--routes")
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
    """Every query parses and returns data within a second, unless it is listed as possibly empty."""
    empty = [query.where for query in grafana.queries(name) if not grafana.series(query)]
    assert set(empty) <= set(MAY_BE_EMPTY)


def test_the_list_of_empty_ones_is_true(grafana: GrafanaQueries) -> None:
    """The list names only existing queries."""
    assert set(MAY_BE_EMPTY) <= {query.where for name in NAMES for query in grafana.queries(name)}


def test_the_hot_worker_is_seen(grafana: GrafanaQueries) -> None:
    """The worker with most requests comes first, and is above the fair line."""
    shares = grafana.series(grafana.query("server: Share, and the fair one A"))
    fair = grafana.series(grafana.query("server: Share, and the fair one B"))
    assert next(iter(shares)) == frozenset({("worker_id", "1")})
    assert fair == {frozenset(): 0.25}
    assert float(str(shares[frozenset({("worker_id", "1")})])) > 0.3


def test_another_label_may_be_the_service(grafana: GrafanaQueries) -> None:
    """Any label of Prometheus can define services; the name of the column stays the same."""
    query = grafana.query("fleet: Services, least headroom first A")
    by_instance = query.expression.replace('"$1", "server"', '"$1", "instance"')
    (labels,) = grafana.prometheus.query(by_instance, grafana.now)
    assert dict(labels)["service"] == grafana.instance


def test_ninety_days_are_read(grafana: GrafanaQueries) -> None:
    """The review shows the days, the peak and the growth of the generated history."""
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
    """The trend grows by the same amount from each day to the next."""
    for points in grafana.series(grafana.query("capacity: Trend of the day's p95 B")).values():
        assert isinstance(points, list)
        steps = [after - before for (_, before), (_, after) in pairwise(points)]
        assert len(steps) > 80
        assert max(steps) - min(steps) < 1e-9


def test_the_week_has_every_hour(grafana: GrafanaQueries) -> None:
    """The busiest hour is in the middle of a weekday, and no hour is missing."""
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


def test_the_waits_of_ninety_days_are_shared_out(grafana: GrafanaQueries) -> None:
    """The shares of each day add up to 1; states come in their order, without one that never occurs."""
    shares = grafana.series(grafana.query("capacity: Share of the time of requests by state A"))
    threads = grafana.series(grafana.query("capacity: Threads by state: the day's mean A"))
    seen = [state for state, part in recorded_months.WAITS.items() if part]
    assert [dict(labels)["state"] for labels in shares] == [dict(labels)["state"] for labels in threads] == seen
    days: dict[float, float] = {}
    for labels, points in shares.items():
        assert isinstance(points, list)
        for at, share in points:
            days[at] = days.get(at, 0.0) + share
            assert share == pytest.approx(recorded_months.WAITS[dict(labels)["state"]], abs=1e-3)
    assert len(days) > 80
    assert list(days.values()) == pytest.approx([1.0] * len(days))


def _one(series: Mapping[Labels, object]) -> float:
    (value,) = series.values()
    return float(str(value))
