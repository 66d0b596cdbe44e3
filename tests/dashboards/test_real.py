"""Runs every query of every dashboard on a real Prometheus that scrapes the real exporter of a real uWSGI."""

import math
import random
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from msgspec import Struct

from app.monitoring import JOB
from tests.dashboards.dashboard_queries import NAMES, queries
from tests.support import alert_scenes, monitoring
from tests.support.exporter import exporter
from tests.support.monitoring import Prometheus, write_blocks

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
"""Event marks, which tests/dashboards/test_panels.py tests."""

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


class GrafanaQueries(Struct, frozen=True):
    """A Prometheus, and the values of the dashboards' variables. now: the end of the time range."""

    prometheus: Prometheus
    now: float
    instance: str

    def queries(self, name):
        """Every query of a dashboard, over an hour or all days."""
        one = {"job": JOB, "instance": self.instance, "server": "shop"}
        many = dict.fromkeys(one, ".*")
        seconds = DAYS * DAY if name == "capacity" else 3600
        values = {
            "service_label": "server",
            "service": ".*",
            "window": "5m",
            "utc_offset": "0",
            "__from": str(round((self.now - seconds) * 1000)),
            **(many if name in ("fleet", "capacity") else one),
        }
        return list(queries(name, values, seconds))

    def query(self, where):
        (query,) = [query for query in self.queries(where.partition(":")[0]) if query.where == where]
        return query

    def series(self, query):
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
        start = (self.now - DAYS * DAY) // query.step * query.step
        return self.prometheus.query_range(query.expression, start, end, query.step)


@pytest.fixture(scope="module")
def grafana():
    """Uneven workers under load, in a Prometheus that also has weeks of recorded series."""
    began = time.time()
    with alert_scenes.mapped(processes=4, threads=4) as server:
        arguments = ("--stats", f"shop={server.stats}", "--cpu-residency", "--slo", "1s:99%", "--routes")
        with (
            exporter(*arguments) as running,
            monitoring.prometheus(
                [running.port], history=lambda folder: write_blocks(folder, _openmetrics(began))
            ) as prometheus,
            alert_scenes.loaded(server.hot, clients=6, io_ms=20, cpu_ms=4),
            alert_scenes.loaded(server.calm, clients=3, io_ms=20, cpu_ms=4),
        ):
            enough_samples = 'count_over_time(uwsgi_unevenness_cost_ratio{window="5m"}[1m]) > 15'
            prometheus.wait_for(enough_samples, seconds=120)
            yield GrafanaQueries(replace(prometheus, limit=LIMIT), time.time(), f"127.0.0.1:{running.port}")


@pytest.mark.parametrize("name", NAMES)
def test_every_query_has_an_answer(grafana, name):
    """Every query parses and returns data within a second, unless it is listed as possibly empty."""
    empty = [query.where for query in grafana.queries(name) if not grafana.series(query)]
    assert set(empty) <= set(MAY_BE_EMPTY)


def test_the_hot_worker_is_seen(grafana):
    """It comes first, above the fair line. Any label may be the service."""
    shares = grafana.series(grafana.query("server: Share, and the fair one A"))
    fair = grafana.series(grafana.query("server: Share, and the fair one B"))
    assert next(iter(shares)) == frozenset({("worker_id", "1")})
    assert fair == {frozenset(): 0.25}
    assert float(str(shares[frozenset({("worker_id", "1")})])) > 0.3
    query = grafana.query("fleet: Services, least headroom first A")
    by_instance = query.expression.replace('"$1", "server"', '"$1", "instance"')
    (labels,) = grafana.prometheus.query(by_instance, grafana.now)
    assert dict(labels)["service"] == grafana.instance
    assert set(MAY_BE_EMPTY) <= {query.where for name in NAMES for query in grafana.queries(name)}


def test_recorded_days_are_read(grafana):
    """The review shows the days, the peak and the growth of the generated history."""
    days = grafana.series(grafana.query("capacity: Days recorded A"))
    peak = grafana.series(grafana.query("capacity: Peak of threads busy A"))
    rows = grafana.series(grafana.query("capacity: For the minutes A"))
    growth = grafana.series(grafana.query("capacity: Growth in 30 days A"))
    assert DAYS - 1 <= _one(days) <= DAYS + 1
    assert 0.86 < _one(peak) < 1.1
    assert {dict(labels)["instance"] for labels in rows} == {server.instance for server in SERVERS}
    busiest = SERVERS[0]
    assert 0.6 < _one(growth) / (busiest.busiest * busiest.growth * 30 / DAYS) < 1.1


def test_the_trend_the_week_and_the_days(grafana):
    """A straight line, every hour with the busiest on a weekday, and each day in one band."""
    for points in grafana.series(grafana.query("capacity: Trend of the day's p95 B")).values():
        assert isinstance(points, list)
        steps = [after - before for (_, before), (_, after) in pairwise(points)]
        assert len(steps) > DAYS - 10
        assert max(steps) - min(steps) < 1e-9
    week = grafana.series(grafana.query("capacity: When it is busy: weekday and hour A"))
    assert len(week) == 7 * 24
    labels = dict(max(week, key=lambda hour: float(str(week[hour]))))
    assert int(labels["weekday"]) < 5
    assert labels["hour"] in ("13", "14")
    bands = [query for query in grafana.queries("capacity") if query.where.startswith("capacity: Headroom, day by day")]
    assert abs(sum(_one(grafana.series(band)) for band in bands) - len(SERVERS) * DAYS) <= len(SERVERS)


def test_the_waits_of_all_days_are_shared_out(grafana):
    """The shares of each day add up to 1; states come in their order, without one that never occurs."""
    shares = grafana.series(grafana.query("capacity: Share of the time of requests by state A"))
    threads = grafana.series(grafana.query("capacity: Threads by state: the day's mean A"))
    seen = [state for state, part in WAITS.items() if part]
    assert [dict(labels)["state"] for labels in shares] == [dict(labels)["state"] for labels in threads] == seen
    days = {}
    for labels, points in shares.items():
        assert isinstance(points, list)
        for at, share in points:
            days[at] = days.get(at, 0.0) + share
            assert share == pytest.approx(WAITS[dict(labels)["state"]], abs=1e-3)
    assert len(days) > DAYS - 10
    assert list(days.values()) == pytest.approx([1.0] * len(days))


def _one(series):
    (value,) = series.values()
    return float(str(value))


DAYS, DAY = 90, 86400
STEP, DAILY_STEP = 900, 3600
"""Seconds between samples: longer than in practice, as writing all of them would take minutes, but with a sample
at every time that a query uses (midnights and quarters of an hour)."""
LIMITS = ("hottest_interpreter", "interpreters", "threads", "cpu")
OBJECTIVE = 0.99
"""Of each server."""
THREADS = 32
"""Of each server."""
WAITS = {"cpu": 0.2, "interpreter_lock": 0.1, "backend": 0.5, "sleep": 0.15, "unknown": 0.05, "disk": 0.0}
"""Parts of the time of requests, by state."""


class Server(Struct, frozen=True):
    """A server. busiest: threads busy in the busiest hour of the last weekday; growth: its relative growth over all
    days."""

    name: str
    instance: str
    busiest: float
    growth: float

    def labels(self):
        return {"job": "uwsgi", "instance": self.instance, "server": self.name}

    def busy(self, at, end):
        """Threads busy at a time: few at night and at weekends."""
        clock = time.gmtime(at)
        hour = clock.tm_hour + clock.tm_min / 60
        daylight = math.exp(-(((hour - 14) / 4.5) ** 2))
        weekday = 0.45 if clock.tm_wday >= 5 else 1.0
        grown = 1 - self.growth * (end - at) / (DAYS * DAY)
        return self.busiest * grown * (0.12 + 0.88 * daylight * weekday)


SERVERS = (
    Server("checkout", "10.0.0.1:9238", 0.86, 0.35),
    Server("checkout", "10.0.0.2:9238", 0.62, 0.30),
    Server("search", "10.0.0.3:9238", 0.34, 0.0),
)


def _openmetrics(end):
    """Yields lines grouped by family, as the format requires."""
    first = int(end - DAYS * DAY) // STEP * STEP
    times = range(first, int(end), STEP)
    day, lines = DAY // STEP, dict[str, list[str]]()
    for server in SERVERS:
        dice = random.Random(server.instance)
        busy = [max(0.0, server.busy(at, end) * dice.gauss(1, 0.05)) for at in times]
        for index, at in enumerate(times):
            _sample(lines, "server:uwsgi_utilization:ratio_rate5m", server, busy[index], at)
            if at % DAILY_STEP:
                continue
            today = sorted(busy[max(0, index - day) : index + 1])
            most, p95 = today[-1], today[int(0.95 * (len(today) - 1))]
            _sample(lines, "server:uwsgi_utilization:max1d", server, most, at)
            _sample(lines, "server:uwsgi_utilization:p95_1d", server, p95, at)
            _sample(lines, "server:uwsgi_slo_requests:rate1d", server, 100 * sum(today) / len(today), at)
            _sample(lines, "server:uwsgi_slo_bad_requests:ratio_rate1d", server, 0.012 * most**2, at)
            _sample(lines, "uwsgi_slo_objective_ratio", server, OBJECTIVE, at)
            _sample(lines, "server:uwsgi_queue_wait_seconds:p95_1d", server, 0.2 * most**4, at)
            _sample(lines, "server:uwsgi_requests:max1d", server, 300 * most, at)
            for place, limit in enumerate(LIMITS):
                _sample(lines, "server:uwsgi_headroom:min1d", server, (0.9 + 0.2 * place) / most, at, limit=limit)
            mean = THREADS * sum(today) / len(today)
            for state, part in WAITS.items():
                _sample(lines, "server:uwsgi_wait_threads:avg1d", server, mean * part, at, state=state)
    for name, samples in lines.items():
        yield f"# TYPE {name} gauge\n"
        yield from samples
    yield "# EOF\n"


def _sample(lines, name, server, value, at, **part):
    labels = {**server.labels(), **part}
    text = ",".join(f'{key}="{label}"' for key, label in labels.items())
    lines.setdefault(name, []).append(f"{name}{{{text}}} {value:.4f} {at}\n")
