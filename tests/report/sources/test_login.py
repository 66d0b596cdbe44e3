"""How the options of a Prometheus become a URL and headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.report.sources.prometheus_api import make_endpoint

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
def test_a_page_of_prometheus_is_as_good_as_its_url(given: str, used: str) -> None:
    """People copy it from their browser."""
    assert make_endpoint(given).url == used


@pytest.mark.parametrize("url", ["", "ftp://a", "http://", "http://a b", "http://a:b", "http://[::1"])
def test_a_wrong_url_is_an_error(url: str) -> None:
    """With an example."""
    with pytest.raises(ConfigError, match=r"--prometheus: .*http://127\.0\.0\.1:9090"):
        make_endpoint(url)


def test_an_error_does_not_repeat_a_url_with_a_password() -> None:
    """It would be in a log."""
    with pytest.raises(ConfigError) as caught:
        make_endpoint(f"http://ann:{SECRET}@host:port")
    assert SECRET not in str(caught.value)


def test_a_login_from_files(tmp_path: Path) -> None:
    """A file ends with a line break; a token may be given instead of a user."""
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    basic = make_endpoint("http://a", user="ann", password_file=str(file))
    assert basic.access.authorization == make_endpoint(f"http://ann:{SECRET}@a").access.authorization
    assert make_endpoint("http://a", token_file=str(file)).access.authorization == f"Bearer {SECRET}"


def test_a_password_with_special_characters() -> None:
    """Escaped in the URL as RFC 3986 has it."""
    assert make_endpoint("http://ann:p%40ss@a").access.authorization == "Basic YW5uOnBAc3M="


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"user": "ann"}, "belong together"),
        ({"password_file": "/dev/null"}, "belong together"),
        ({"token_file": "/nowhere/token"}, "cannot read /nowhere/token: No such file"),
        ({"token_file": "/dev/null"}, "must contain one line"),
        ({"headers": ["X-Scope-OrgID"]}, 'expected "NAME: VALUE"'),
        ({"headers": ["X-Scope-OrgID: a\r\nHost: b"]}, 'expected "NAME: VALUE"'),
        ({"ca_file": "/nowhere/ca.pem"}, "--ca-file: /nowhere/ca.pem is not a file"),
        ({"ca_file": __file__}, r"--ca-file: .*test_login\.py: no certificates in PEM format"),
    ],
)
def test_wrong_options(options: dict[str, str], reason: str) -> None:
    """Each is an error that names the option."""
    with pytest.raises(ConfigError, match=reason):
        make_endpoint("http://a", **options)  # type: ignore[arg-type]


def test_two_logins_are_an_error(tmp_path: Path) -> None:
    """Rather than one of them being ignored."""
    file = tmp_path / "secret"
    file.write_text(SECRET)
    with pytest.raises(ConfigError, match="one login"):
        make_endpoint("http://ann:pw@a", token_file=str(file))
    with pytest.raises(ConfigError, match="one login"):
        make_endpoint("http://a", token_file=str(file), headers=[f"Authorization: Bearer {SECRET}"])
