"""How a Prometheus is asked, and what it may answer instead of values: no secret is in any sentence."""

import socket
import threading
from collections import ChainMap
from pathlib import Path

import pytest

from tests.support.stand_in_web_server import Reply, Request, failure, stand_in, values
from uwsgi_headroom.config.http_client_file import load_http_access
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.report.sources import prometheus_api
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi, PrometheusError, Series, make_endpoint
from uwsgi_headroom.source import HttpAccess

CERTIFICATE = Path(__file__).with_name("self_signed.pem")
DAY = 86400.0
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
