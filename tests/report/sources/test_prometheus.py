"""Loading from a Prometheus: which servers it finds, and what happens if it fails halfway."""

import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate

import numpy as np
import pytest

from tests.support.stand_in_web_server import JSON, Reply, Request, failure, stand_in, values
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.columns import ReviewData
from uwsgi_headroom.report.sources.prometheus import load_prometheus
from uwsgi_headroom.report.sources.prometheus_api import HttpPost, PrometheusApi, PrometheusError, make_endpoint
from uwsgi_headroom.report.sources.prometheus_queries import ServerSeries, choose_window, find_servers
from uwsgi_headroom.report.sources.selection import TimeRange

DAY = 86400.0
SPAN = TimeRange(0.0, 14 * DAY, "UTC")
SHOP = {"server": "shop", "instance": "web1:9238", "job": "uwsgi"}
GROWTH = {
    "uwsgi_exporter_observed_seconds_total": 960.0,
    "uwsgi_exporter_sample_gap_seconds_total": 0.0,
    "uwsgi_worker_requests_total": 9600.0,
    "uwsgi_worker_busy_thread_seconds_total": 1920.0,
}
"""Growth of the counters of a server with one worker, which is scraped once a minute, in 16 minutes."""


def answer(request: Request) -> Reply:
    """A Prometheus that knows one server, with a steady load."""
    query, step = request.form["query"], float(request.form["step"])
    times = np.arange(float(request.form["start"]), float(request.form["end"]) + 1, step)
    if query.startswith("count_over_time"):
        return values((SHOP, [(at, 15.0) for at in times]))
    for name, growth in GROWTH.items():
        if query.startswith(f"increase({name}{{"):
            part = {"worker_id": "1"} if "worker" in name else {}
            return values(({**SHOP, **part}, [(at, growth) for at in times]))
    return values()


def load(answer: Callable[[Request], Reply], span: TimeRange = SPAN) -> ReviewData:
    """The data of a stand-in."""
    with stand_in(answer) as server:
        api = PrometheusApi(HttpPost(make_endpoint(server.url), 5.0), pause=lambda _seconds: None)
        return load_prometheus(api, lambda _now: span)


def test_figures_are_growth_divided_by_the_exporters_own_clock():
    """Not by the length of the window, which `increase` extrapolates to."""
    (server,) = load(answer).servers
    assert set(server.requests) == {10.0}
    assert set(server.busy) == {2.0}
    assert set(server.covered) == {1.0}
    assert len(server.time) == 14 * 96
    assert (server.time[0], server.time[-1]) == (900.0, 14 * DAY)


def test_what_prometheus_does_not_know_is_unknown():
    """Not 0."""
    (server,) = load(answer).servers
    assert np.isnan(server.cpu_idle).all()
    assert np.isnan(server.queue).all()
    assert (server.waits, server.percentiles, server.objective, server.bounds) == ({}, (), None, ())


@pytest.mark.parametrize(
    ("own", "known"),
    [
        (None, None),
        (0.0, None),
        (1.0, None),
        (2.0, {"the socket of worker 1": (1,), "the socket of worker 2": (2,)}),
    ],
)
def test_workers_with_sockets_of_their_own(own, known):
    """With `map-socket`, each worker has a limit of its own where all that accept have their own sockets; where only
    some do, it is not known which. Worker 3 is in cheaper mode's reserve."""

    def mapped(request: Request) -> Reply:
        query, step = request.form["query"], float(request.form["step"])
        times = np.arange(float(request.form["start"]), float(request.form["end"]) + 1, step)
        if query.startswith("uwsgi_workers_with_own_sockets") and own is not None:
            return values((SHOP, [(at, own) for at in times]))
        if query.startswith("increase(uwsgi_worker_requests_total"):
            return values(*(({**SHOP, "worker_id": each}, [(at, 960.0) for at in times]) for each in "123"))
        if query.startswith("avg_over_time(uwsgi_worker_accepting"):
            return values(
                *(({**SHOP, "worker_id": each}, [(at, float(each != "3")) for at in times]) for each in "123")
            )
        return answer(request)

    (server,) = load(mapped, TimeRange(0.0, DAY, "UTC")).servers
    assert server.socket_holders == known


def fail_before(end: float, reply: Reply) -> Callable[[Request], Reply]:
    """Answers queries of busy threads before a time with an error."""

    def answer_or_fail(request: Request) -> Reply:
        early = "busy_thread" in request.form["query"] and float(request.form["end"]) <= end
        return reply if early else answer(request)

    return answer_or_fail


def test_a_failure_halfway_leaves_the_latest_days():
    """Complete, and the data says that it is partial and why."""
    data = load(fail_before(7 * DAY, failure(503, "query timed out in expression evaluation", "timeout")))
    (server,) = data.servers
    assert data.partial
    assert data.problems[0].startswith("Only the last 7 days are here, the rest is missing: http://127.0.0.1:")
    assert np.isnan(server.requests[: 7 * 96]).all()
    assert set(server.requests[7 * 96 :]) == {10.0}


def test_a_failure_at_the_start_leaves_nothing():
    """It is an error, not an empty report."""
    with pytest.raises(PrometheusError, match=r"cannot answer \(HTTP 500\)"):
        load(fail_before(14 * DAY, Reply(b"", 500)))


def test_the_clock_of_prometheus_counts():
    """A range that ends now ends there by its clock; the data says that clocks differ."""
    ahead: list[float] = []

    def find_range(now: float) -> TimeRange:
        ahead.append(now - time.time())
        return SPAN

    headers = {**JSON, "Date": formatdate(time.time() + 600, usegmt=True)}
    with stand_in(lambda request: Reply(answer(request).body, headers=headers)) as server:
        data = load_prometheus(PrometheusApi(HttpPost(make_endpoint(server.url))), find_range)
    assert ahead == [pytest.approx(600, abs=5)]
    assert data.problems[0].startswith("The clock of Prometheus is 10 min ahead of this machine's.")


def only_names(*names: str) -> Callable[[Request], Reply]:
    """A Prometheus that has these metrics only."""

    def reply(request: Request) -> Reply:
        if "__name__" not in request.form["query"]:
            return values()
        return values(*[({"__name__": name}, [(SPAN.until, 1.0)]) for name in names])

    return reply


def test_another_exporters_metrics_are_recognized():
    """The message says how to migrate."""
    names = ("uwsgi_worker_core_busy", "uwsgi_worker_busy", "uwsgi_worker_requests_total", "uwsgi_up")
    with pytest.raises(HeadroomError, match=r"uwsgi_exporter, the common one in Go") as caught:
        load(only_names(*names))
    assert any("alerts/MIGRATION.md" in line for line in caught.value.details)
    assert any("alerts/rules/compat-uwsgi-exporter.yaml" in line for line in caught.value.details)


def test_no_metrics_at_all():
    """The message names the range."""
    with pytest.raises(HeadroomError, match="has no metrics of uwsgi-headroom from 1970-01-01 00:00 to"):
        load(only_names())


def test_minutes_are_too_short():
    """A quarter of an hour must be sampled for half of it."""

    def seconds(request: Request) -> Reply:
        short = request.form["query"].startswith("increase(uwsgi_exporter_observed")
        return answer(request) if not short else values((SHOP, [(SPAN.until, 400.0)]))

    with pytest.raises(HeadroomError, match="no quarter of an hour was sampled for at least half of it"):
        load(seconds)


def found(*labels: Mapping[str, str], counts: Sequence[float] = (15.0,)) -> list[ServerSeries]:
    """The servers of series with these labels, and so many scrapes in each quarter of an hour."""

    def reply(request: Request) -> Reply:
        times = float(request.form["start"]) + 900.0 * np.arange(len(counts))
        return values(*[(each, list(zip(times, counts, strict=True))) for each in labels])

    with stand_in(reply) as server:
        return find_servers(PrometheusApi(HttpPost(make_endpoint(server.url))), 0.0, 900.0 * len(counts))


def test_one_server_is_known_by_its_name():
    """Without labels that tell nothing apart."""
    (server,) = found(SHOP)
    assert (server.name, server.service, server.host) == ("shop", "shop", "web1:9238")


def test_machines_of_one_service_differ_in_their_instance():
    """Their names have it, their service has not."""
    servers = found(SHOP, {**SHOP, "instance": "web2:9238"}, {**SHOP, "server": "admin"})
    assert [server.name for server in servers] == ["admin", "shop web1:9238", "shop web2:9238"]
    assert [server.service for server in servers] == ["admin", "shop", "shop"]


def test_staging_is_a_service_of_its_own():
    """Any other label than those of machines separates services, as in the alerts."""
    labels = [{**SHOP, "env": env, "instance": instance} for env in ("prod", "stage") for instance in ("a", "b")]
    servers = found(*labels)
    assert [server.service for server in servers] == ["shop prod", "shop stage"] * 2
    assert len({server.name for server in servers}) == 4


def test_a_label_service_names_the_service():
    """Where people have given one to their targets."""
    servers = found({**SHOP, "service": "web"}, {**SHOP, "server": "api", "service": "web"})
    assert [(server.name, server.service) for server in servers] == [("api", "web"), ("shop", "web")]


@pytest.mark.parametrize(
    "counts", [(60.0,), (27.0, 60.0), (17.0, 60.0, 60.0, 60.0, 3.0), (60.0, 61.0, 60.0, 60.0, 60.0)]
)
def test_the_interval_between_scrapes_is_found(counts):
    """From complete quarters of an hour: the first and the last may have few scrapes."""
    (server,) = found(SHOP, counts=counts)
    assert server.interval == 15.0


def test_the_longest_useful_window_of_percentiles_is_chosen():
    """It must divide a quarter of an hour."""
    assert choose_window(["1m", "5m", "1h"]) == "5m"
    assert choose_window(["1m", "15m", "5m"]) == "15m"
    assert choose_window(["7m", "10s", "x", ""]) is None


@pytest.mark.parametrize("is_reviewed", [True, False])
def test_settings_are_those_of_the_latest_review(is_reviewed):
    """A rule that no longer speaks is not in it; without a review nothing is known."""

    def reviewed(request: Request) -> Reply:
        query, step = request.form["query"], float(request.form["step"])
        times = np.arange(float(request.form["start"]), float(request.form["end"]) + 1, step)
        if query.startswith("uwsgi_settings_reviewed") and is_reviewed:
            return values((SHOP, [(at, 1.0) for at in times]))
        if query.startswith("uwsgi_settings_advice") and is_reviewed:
            spoke = {"listen": (1.0, DAY), "stats_exposed": (2.0, DAY), "vacuum": (1.0, DAY / 2)}
            return values(
                *(
                    ({**SHOP, "rule": rule}, [(at, value) for at in times if at <= end])
                    for rule, (value, end) in spoke.items()
                )
            )
        return answer(request)

    (server,) = load(reviewed, TimeRange(0.0, DAY, "UTC")).servers
    assert server.settings == ({"listen": "info", "stats_exposed": "warning"} if is_reviewed else None)
