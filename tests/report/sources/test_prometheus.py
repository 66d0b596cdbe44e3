"""Loading from a Prometheus: which servers it finds, and what happens if it fails halfway."""

import socket
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.support.stand_in_web_server import JSON, Reply, Request, failure, stand_in, values
from uwsgi_headroom.analysis.percentiles import compute_percentiles, find_percentile
from uwsgi_headroom.config.http_client_file import load_http_access
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.report.quarters import ReviewData, count_requests, mean_busy
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.sources import prometheus_api
from uwsgi_headroom.report.sources.prometheus import ServerSeries, find_servers, load_prometheus
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi, PrometheusError, Series, make_endpoint
from uwsgi_headroom.report.sources.selection import TimeRange
from uwsgi_headroom.source import HttpAccess
from uwsgi_headroom.store.record import merge_records

DAY = 86400.0
SPAN = TimeRange(0.0, 14 * DAY, "UTC")
SHOP = {"server": "shop", "instance": "web1:9238", "job": "uwsgi"}
GROWTH = {
    "uwsgi_exporter_observed_seconds_total": 960.0,
    "uwsgi_exporter_sample_gap_seconds_total": 0.0,
    "uwsgi_exporter_samples_total": 4800.0,
    "uwsgi_worker_requests_total": 9600.0,
    "uwsgi_worker_busy_thread_seconds_total": 1920.0,
}
"""Growth of the counters of a server with one worker, which is scraped once a minute, in 16 minutes."""


def times_of(request: Request) -> list[float]:
    """The times that are asked for."""
    first, last, step = (float(request.form[name]) for name in ("start", "end", "step"))
    return [first + step * place for place in range(round((last - first) / step) + 1)]


def answer(request: Request) -> Reply:
    """A Prometheus that knows one server, with a steady load."""
    query, times = request.form["query"], times_of(request)
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
        api = PrometheusApi(make_endpoint(server.url), 5.0, pause=lambda _seconds: None)
        return load_prometheus(api, lambda _now: span)


def test_figures_are_growth_divided_by_the_exporters_own_clock():
    """Not by the length of the window, which `increase` extrapolates to."""
    (server,) = load(answer).servers
    assert {count_requests(record) for record in server.records} == {9000}
    assert {mean_busy(record) for record in server.records} == {2.0}
    assert server.sampled == 14 * DAY
    assert len(server.quarters) == 14 * 96
    assert (min(server.quarters), max(server.quarters)) == (900.0, 14 * DAY)


def test_no_percentile_is_shorter_than_samples_can_show():
    """Five samples a second show none of requests that all take less than 25 ms."""

    def fast(request: Request) -> Reply:
        if "uwsgi_response_time_seconds_bucket" not in request.form["query"]:
            return answer(request)
        return values(*(({**SHOP, "le": le}, [(at, 9600.0) for at in times_of(request)]) for le in ("0.025", "+Inf")))

    times = load(fast).servers[0].records[0].response_times
    assert times.interval == 0.2
    found = compute_percentiles(times).percentiles
    assert [(each.seconds, each.under) for each in found] == [(None, pytest.approx(0.16))] * 4


def test_what_prometheus_does_not_know_is_unknown():
    """Not 0."""
    (server,) = load(answer).servers
    record = server.records[0]
    assert (record.window.cpu, record.window.waits, record.window.queue_seconds) == (None, None, {})
    assert (record.response_times, record.routes, record.levels.slo, record.window.judged) == (None, None, None, None)


@pytest.mark.parametrize(
    ("own", "known"),
    [(None, None), (0.0, None), (1.0, None), (2.0, {"the socket of worker 1": (1,), "the socket of worker 2": (2,)})],
)
def test_workers_with_sockets_of_their_own(own, known):
    """With `map-socket`, each worker has a limit of its own where all that accept have their own sockets; where only
    some do, it is not known which. Worker 3 is in cheaper mode's reserve."""

    def mapped(request: Request) -> Reply:
        query, times = request.form["query"], times_of(request)
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
    assert server.records[-1].levels.socket_holders == known


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
    assert list(server.quarters) == [7 * DAY + 900 * place for place in range(1, 7 * 96 + 1)]
    assert {count_requests(record) for record in server.records} == {9000}


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
        data = load_prometheus(PrometheusApi(make_endpoint(server.url)), find_range)
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
    """The message says where to read how to migrate."""
    names = ("uwsgi_worker_core_busy", "uwsgi_worker_busy", "uwsgi_worker_requests_total", "uwsgi_up")
    with pytest.raises(HeadroomError, match="but of another exporter") as caught:
        load(only_names(*names))
    assert any("alerts/MIGRATION.md" in line for line in caught.value.details)


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
        start = float(request.form["start"])
        return values(*[(each, [(start + 900.0 * at, count) for at, count in enumerate(counts)]) for each in labels])

    with stand_in(reply) as server:
        return find_servers(PrometheusApi(make_endpoint(server.url)), TimeRange(0.0, 900.0 * len(counts), "UTC"))


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


BUCKETS = {"0.1": 0.0, "0.2": 480.0, "0.5": 912.0, "60.0": 950.4, "+Inf": 960.0}
"""Growth of a histogram's buckets in 16 minutes."""


def test_response_times_are_those_of_the_buckets():
    """Requests of a bucket are spread evenly over it; bounds that an upgrade added are used from then on."""

    def timed(request: Request) -> Reply:
        if not request.form["query"].startswith("increase(uwsgi_response_time_seconds_bucket"):
            return answer(request)
        return values(
            *(
                ({**SHOP, "le": le}, [(at, growth) for at in times_of(request) if le != "0.5" or at > DAY / 2])
                for le, growth in BUCKETS.items()
            )
        )

    (server,) = load(timed, TimeRange(0.0, DAY, "UTC")).servers
    before, after = (compute_percentiles(server.quarters[end].response_times) for end in (900.0, DAY))
    assert (before.requests, after.requests) == (900, 900)
    assert [find_percentile(each, 0.5).seconds for each in (before, after)] == pytest.approx([0.2, 0.2])
    assert find_percentile(after, 0.9).seconds == pytest.approx(0.2 + 0.3 * 384 / 432, rel=1e-3)
    assert find_percentile(before, 0.9).seconds > 40
    assert compute_percentiles(merge_records(server.records).response_times).requests == 96 * 900


def test_labels_and_levels_that_no_exporter_has():
    """What cannot be read is left out, and nothing crashes."""

    def odd_answer(request: Request) -> Reply:
        query, times = request.form["query"], times_of(request)
        for part, metric in (("le", "increase(uwsgi_response_time"), ("worker_id", "avg_over_time(uwsgi_worker_acc")):
            if query.startswith(metric):
                odd = ("x", "-1", "0.0", "1.2.3", "+Inf", "1")
                return values(*(({**SHOP, part: text}, [(at, 9.0) for at in times]) for text in odd))
        if query.startswith(("uwsgi_slo_", "uwsgi_workers_with_own_sockets", "uwsgi_cpus_usable")):
            return values((SHOP, [(at, -1.0) for at in times]))
        if query.startswith("increase(uwsgi_worker_requests_total"):
            return values(*(({**SHOP, "worker_id": text}, [(at, 960.0) for at in times]) for text in ("x", "1", "٣")))
        return answer(request)

    data = load(odd_answer, TimeRange(0.0, DAY, "UTC"))
    (server,) = data.servers
    assert {worker.worker_id for record in server.records for worker in record.window.workers} == {1}
    assert server.records[0].levels.slo is None
    assert build_review(data).services[0].verdict.sentence


CERTIFICATE = Path(__file__).with_name("self_signed.pem")

HTML = Reply(b"<!DOCTYPE html><title>Login</title>", headers={"Content-Type": "text/html"})


def api(url: str, seconds: float = 5.0, access: HttpAccess | None = None) -> PrometheusApi:
    """An API that does not pause before it asks again."""
    return PrometheusApi(make_endpoint(url, access), seconds, pause=lambda _seconds: None)


def query(url: str, **options: object) -> list[Series]:
    """What it answers to a query of two steps."""
    return api(url, **options).query_range("up", 0.0, 900.0, 900.0)


def ask(url: str, **options: object) -> PrometheusError:
    """The error of a query."""
    with pytest.raises(PrometheusError) as caught:
        query(url, **options)
    return caught.value


@pytest.mark.parametrize(
    ("reply", "trouble", "words"),
    [
        (HTML, "not_prometheus", "a web page (HTTP 200)"),
        (Reply(b"<html>", 404, {"Content-Type": "text/html"}), "not_prometheus", "a web page (HTTP 404)"),
        (Reply(b"not found", 404, {"Content-Type": "text/plain"}), "not_prometheus", "something else (HTTP 404)"),
        (Reply(b"[]"), "not_prometheus", "something else (HTTP 200)"),
        (Reply(b""), "not_prometheus", "something else (HTTP 200)"),
        (Reply(b"\xff\xfe"), "not_prometheus", "something else (HTTP 200)"),
        (Reply(b'{"x":' + b"[" * 100_000), "not_prometheus", "something else (HTTP 200)"),
        (Reply(b"", 401), "login", "needs a login, or another one (HTTP 401)"),
        (Reply(b"", 403), "login", "needs a login, or another one (HTTP 403)"),
        (Reply(b"", 302, {"Location": "http://login.example/"}), "not_prometheus", "redirects to another page"),
        (Reply(b"", 502, {"Content-Type": "text/html"}), "busy", "cannot answer (HTTP 502)"),
        (failure(503, "query timed out in expression evaluation", "timeout"), "timeout", "took too long"),
        (failure(422, "query processing would load too many samples into memory"), "too_much", "too much for it"),
        (failure(400, 'parse error: unexpected "{"', "bad_data"), "refused", "refuses the query (HTTP 400)"),
        (Reply(b'{"status":"succ', length=500), "unreachable", "closed before the answer was complete"),
    ],
)
def test_an_answer_without_values_is_explained(reply, trouble, words):
    """In a sentence that begins with the URL."""
    with stand_in(lambda _request: reply) as server:
        error = ask(server.url)
    assert error.trouble == trouble
    assert str(error).startswith(f"{server.url}: ")
    assert words in str(error)


def test_nothing_listens():
    """A stopped Prometheus, and a misspelt name."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        error = ask(f"http://127.0.0.1:{free.getsockname()[1]}")
    assert (error.trouble, str(error).partition(": ")[2]) == ("unreachable", "nothing listens there")
    assert "the host's name is not known" in str(ask("http://prometheus.invalid:9090"))


def test_no_answer_in_time():
    """A Prometheus that hangs is asked twice, each time for no longer than the limit."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = ask(f"http://127.0.0.1:{silent.getsockname()[1]}", seconds=0.05)
    assert (error.trouble, str(error).partition(": ")[2]) == ("unreachable", "no answer within 0 s")


def test_what_listens_does_not_speak_http():
    """Such as an ssh server."""
    error = ask_raw(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    assert (error.trouble, "is not HTTP" in str(error)) == ("not_prometheus", True)


def ask_raw(answer: bytes) -> PrometheusError:
    """The error of a query to a server that sends these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _address = server.accept()
            with client:
                client.recv(65536)
                client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return ask(f"http://127.0.0.1:{server.getsockname()[1]}")


def test_a_certificate_of_ones_own_needs_its_authority(tmp_path):
    """The message names the option, and with the option it works."""
    (tmp_path / "client.yml").write_text(f"tls_config: {{ca_file: {CERTIFICATE}}}")
    with stand_in(lambda _request: values(), CERTIFICATE) as server:
        error = ask(server.url)
        assert error.trouble == "certificate"
        assert "self-signed certificate" in str(error)
        assert "--http.config.file" in str(error)
        assert query(server.url, access=load_http_access(tmp_path / "client.yml")) == []


def test_https_to_a_server_without_tls():
    """And the other way round."""
    with stand_in(lambda _request: values()) as server:
        assert "does it speak https?" in str(ask(server.url.replace("http:", "https:")))
    with stand_in(lambda _request: values(), CERTIFICATE) as server:
        assert ask(server.url.replace("https:", "http:")).trouble in ("unreachable", "not_prometheus")


def test_an_answer_that_is_too_large_is_not_kept(monkeypatch):
    """Its size is limited, whatever its header says."""
    monkeypatch.setattr(prometheus_api, "LARGEST_ANSWER", 100_000)
    with stand_in(lambda _request: Reply(b" " * 300_000)) as server:
        assert ask(server.url).trouble == "too_much"


def test_a_failure_that_may_pass_is_repeated_once():
    """A restart of Prometheus must not end a report."""
    replies = [Reply(b"", 503), values(({"a": "b"}, [(900.0, 7.0)]))]
    with stand_in(lambda _request: replies.pop(0)) as server:
        (series,) = query(server.url)
    assert series.values == {900.0: 7.0}


def test_a_wrong_login_is_not_repeated():
    """Several would lock the account."""
    with stand_in(lambda _request: Reply(b"", 401)) as server:
        ask(server.url)
    assert len(server.requests) == 1


def test_a_query_that_is_too_much_is_asked_in_halves():
    """Until Prometheus accepts it; the values are the same as those of one answer."""

    def answer(request: Request) -> Reply:
        first, last = float(request.form["start"]), float(request.form["end"])
        if last - first > 0.6 * DAY:
            return failure(422, "query processing would load too many samples into memory")
        return values(
            ({"server": "shop"}, [(900.0 * at, at) for at in range(round(first / 900), round(last / 900) + 1)])
        )

    with stand_in(answer) as server:
        found = dict(ChainMap(*(each.values for each in api(server.url).query_range("up", 900.0, 2 * DAY, 900.0))))
    assert found == {900.0 * place: place for place in range(1, 2 * 96 + 1)}
    assert len(server.requests) == 7


def test_values_that_are_no_numbers_are_unknown():
    """Prometheus writes NaN and Inf; a value beside the steps is ignored."""
    pairs = [(0.0, float("nan")), (900.0, float("inf")), (1800.0, 3.0), (9000.0, 4.0)]
    with stand_in(lambda _request: values(({}, pairs))) as server:
        (series,) = api(server.url).query_range("up", 0.0, 1800.0, 900.0)
    assert series.values == {1800.0: 3.0}


def test_warnings_are_kept():
    """Thanos warns that a store did not answer: then figures are too low."""
    with stand_in(lambda _request: values(warnings=["store east is down"])) as server:
        asked = api(server.url)
        asked.query_range("up", 0.0, 900.0, 900.0)
        asked.query_range("up", 0.0, 900.0, 900.0)
    assert asked.warnings == ["store east is down"]


def test_the_login_is_sent_and_never_shown():
    """Neither in the URL, nor in an error, nor in a text of the objects."""
    with stand_in(lambda _request: Reply(b"", 403)) as server:
        endpoint = make_endpoint(
            f"http://ann:s3cret@127.0.0.1:{server.port}/graph", headers=["X-Scope-OrgID: t0psecret"]
        )
        asked = PrometheusApi(endpoint)
        with pytest.raises(PrometheusError) as caught:
            asked.query_range("up", 0.0, 900.0, 900.0)
    (request,) = server.requests
    assert request.path == "/api/v1/query_range"
    assert request.headers["authorization"] == "Basic YW5uOnMzY3JldA=="
    assert request.headers["x-scope-orgid"] == "t0psecret"
    for text in (str(caught.value), repr(endpoint), asked.url):
        assert "s3cret" not in text
        assert "t0psecret" not in text
        assert "ann" not in text


def test_a_proxy_of_the_environment_is_for_other_hosts(monkeypatch):
    """A Prometheus on loopback is asked directly."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free.getsockname()[1]}")
    with stand_in(lambda _request: values()) as server:
        assert query(server.url) == []
    assert len(server.requests) == 1


def test_a_redirect_does_not_get_the_login():
    """It may lead to another host."""
    with stand_in(lambda _request: values()) as other:
        away = Reply(b"", 307, {"Location": f"{other.url}/api/v1/query_range"})
        with stand_in(lambda _request: away) as server:
            ask(server.url.replace("//", "//ann:s3cret@"))
    assert other.requests == []


SECRET = "s3cret"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://127.0.0.1:9090", "http://127.0.0.1:9090"),
        ("http://127.0.0.1:9090/", "http://127.0.0.1:9090"),
        ("127.0.0.1:9090", "http://127.0.0.1:9090"),
        ("http://127.0.0.1:9090/graph?g0.expr=up", "http://127.0.0.1:9090"),
        ("https://prometheus.example/query", "https://prometheus.example"),
        ("https://mimir.example/prometheus", "https://mimir.example/prometheus"),
        ("https://mimir.example/prometheus/api/v1/query", "https://mimir.example/prometheus"),
        (
            "https://grafana.example/api/datasources/proxy/uid/a1",
            "https://grafana.example/api/datasources/proxy/uid/a1",
        ),
        ("http://[::1]:9090/", "http://[::1]:9090"),
    ],
)
def test_a_page_of_prometheus_is_as_good_as_its_url(given, used):
    """People copy it from their browser."""
    assert make_endpoint(given).url == used


@pytest.mark.parametrize("url", ["", "ftp://a", "http://", "http://a b", "http://a:b", "http://[::1"])
def test_a_wrong_url_is_an_error(url):
    """With an example."""
    with pytest.raises(ConfigError, match=r"--prometheus: .*http://127\.0\.0\.1:9090"):
        make_endpoint(url)


def test_an_error_does_not_repeat_a_url_with_a_password():
    """It would be in a log."""
    with pytest.raises(ConfigError) as caught:
        make_endpoint(f"http://ann:{SECRET}@host:port")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "access", "sent"),
    [
        ("http://ann:p%40ss@a", None, "Basic YW5uOnBAc3M="),  # escaped in the URL as RFC 3986 has it
        ("http://a", HttpAccess("Bearer token"), "Bearer token"),
    ],
)
def test_a_login(url, access, sent):
    """Of the URL, or of the file."""
    assert make_endpoint(url, access).headers == (("Authorization", sent),)


@pytest.mark.parametrize(
    ("url", "access", "headers", "reason"),
    [
        ("http://a", None, ["X-Scope-OrgID"], 'expected "NAME: VALUE"'),
        ("http://a", None, ["X-Scope-OrgID: a\r\nHost: b"], 'expected "NAME: VALUE"'),
        ("http://a", HttpAccess(server_name="b"), [], "not another server_name"),
        ("http://ann:pw@a", HttpAccess(SECRET), [], "one login"),
        ("http://a", HttpAccess(SECRET), [f"authorization: Bearer {SECRET}"], "one login"),
    ],
)
def test_wrong_options(url, access, headers, reason):
    """Each is an error that names the option, rather than one of two that is ignored."""
    with pytest.raises(ConfigError, match=reason) as caught:
        make_endpoint(url, access, headers)
    assert SECRET not in str(caught.value)
