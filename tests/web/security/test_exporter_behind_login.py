"""The real exporter behind TLS and a login, with its own clients and a real Prometheus."""

import contextlib
import http.client
import json
import pwd
import re
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from app import monitoring
from app.programs import running
from tests.support import captured_documents
from tests.support.browser import browser, tab
from tests.support.exporter import COMMAND, Exporter, exporter, run
from tests.support.monitoring import Prometheus, find
from tests.support.other_namespaces import NOBODY, as_nobody, as_root
from tests.support.real_uwsgi import free_port
from tests.web.security.secure_server import HASH, MUTUAL, PASSWORD, TLS, USERS, basic, write_certificates
from tools.environments import ROOT
from uwsgi_headroom import cli
from uwsgi_headroom.web.security.live_config import LiveConfig

pytestmark = pytest.mark.integration

STATS = f"shop=file://{captured_documents.path('2.0.31_threads')}"
SERVE = ("--stats", STATS, "--web.listen-address", "127.0.0.1:0", "--web.config.file")
PATHS = (
    "/",
    "/servers/shop",
    "/metrics",
    "/metrics/",
    "/api/v2/servers",
    "/api/v2/servers/shop",
    "/api/v2/servers/shop/events",
    "/api/v2/openapi.json",
    "/runbooks/",
    "/static/x/page.css",
    "/-/healthy",
    "/-/ready",
    "/nothing/here",
    "//",
    "/%2e%2e/metrics",
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    made = tmp_path_factory.mktemp("behind-login")
    write_certificates(made)
    (made / "web.yml").write_text(TLS + USERS)
    (made / "password").write_text(f"{PASSWORD}\n")
    (made / "client.yml").write_text(
        "basic_auth: {username: prometheus, password_file: password}\ntls_config: {ca_file: ca.pem}\n"
    )
    (made / "wrong.yml").write_text("basic_auth: {username: nobody, password: wrong}\ntls_config: {ca_file: ca.pem}\n")
    return made


@pytest.fixture(scope="module")
def behind(directory):
    with exporter("--stats", STATS, "--web.config.file", str(directory / "web.yml")) as started:
        yield started


def request(behind: Exporter, directory: Path, path: str, login: str = "", method: str = "GET") -> int:
    trust = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", behind.port, timeout=60, context=trust)) as client:
        client.request(method, path, headers=basic(login) if login else {})
        return client.getresponse().status


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run a command of the exporter in this process; returns its status and its output in one line."""
    status = cli.main(arguments)
    return status, " ".join("".join(capsys.readouterr()).split())


def test_every_path_is_behind_the_login(behind, directory, capsys):
    """`check` and `top` read with the client configuration."""
    url, config = f"https://127.0.0.1:{behind.port}", ("--http.config.file", str(directory / "client.yml"))
    for arguments in (("check", f"{url}/servers/shop", "--format", "json"), ("top", f"{url}/", "--json")):
        shown = json.loads(command(capsys, *arguments, *config)[1])
        assert (shown["name"], shown["state"]) == ("shop", "up")
    for path in PATHS:
        assert request(behind, directory, path) == 401, path
        assert request(behind, directory, path, f"prometheus:{PASSWORD}") != 401, path
    assert {request(behind, directory, "/metrics", method=method) for method in ("HEAD", "POST", "OPTIONS")} == {401}
    assert behind.lines("msg=listening", f"url=https://127.0.0.1:{behind.port}/")


@pytest.mark.parametrize(
    ("scheme", "config", "words"),
    [
        ("https", "wrong.yml", "asks for a login, or for another one (HTTP status 401)"),
        ("https", "", "certificate is not trusted"),
        ("http", "", "speaks TLS here: write https://"),
        ("http", "client.yml", "speaks TLS here: write https://"),
    ],
)
def test_a_client_that_does_not_get_in_says_why(behind, directory, capsys, scheme, config, words):
    """One sentence, with what to do, at each page; the status is unknown, and nothing is watched for half a minute."""
    more = ("--http.config.file", str(directory / config)) if config else ()
    for page in ("", "servers/shop"):
        url = f"{scheme}://127.0.0.1:{behind.port}/{page}"
        status, shown = command(capsys, "check", url, "--format", "nagios", *more)
        assert status == 3
        assert words in shown, url
        assert ("--http.config.file" in shown) == (words == "certificate is not trusted")


def test_a_real_prometheus(behind, directory, tmp_path):
    """It scrapes with the configuration in docs/security.md, over one kept connection."""
    text = (ROOT / "docs" / "security.md").read_text()
    block = next(part for part in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "scrape_configs" in part)
    paths = {"/etc/prometheus/headroom-password": "password", "/etc/prometheus/headroom-ca.pem": "ca.pem"}
    for shown, name in paths.items():
        assert shown in block
        block = block.replace(shown, str(directory / name))
    block = block.replace("headroom.example.com:9238", f"127.0.0.1:{behind.port}")
    port = free_port()
    program = monitoring.prometheus(find("prometheus"), port, tmp_path, targets=[])
    scraping = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    (tmp_path / "prometheus.yml").write_text(json.dumps({"global": scraping, **yaml.safe_load(block)}))
    with contextlib.redirect_stdout(sys.stderr), running([program], tmp_path, cwd=tmp_path):
        Prometheus(port).wait_for('up{job="uwsgi"}', lambda values: list(values.values()) == [1.0])
        assert Prometheus(port).wait_for('uwsgi_up{server="shop"}')


def test_client_certificates_of_check(directory, tmp_path, capsys):
    """With one the exporter answers; without one the message says what is missing."""
    (directory / "mutual.yml").write_text(MUTUAL)
    tls = {"ca_file": str(directory / "ca.pem")}
    (tmp_path / "without.yml").write_text(json.dumps({"tls_config": tls}))
    tls |= {"cert_file": str(directory / "client.pem"), "key_file": str(directory / "client.key")}
    (tmp_path / "with.yml").write_text(json.dumps({"tls_config": tls}))
    with exporter("--stats", STATS, "--web.config.file", str(directory / "mutual.yml")) as started:
        url = f"https://127.0.0.1:{started.port}/"
        for name, words in (("with", "shop"), ("without", "asks for a client certificate")):
            assert words in command(capsys, "check", url, "--http.config.file", str(tmp_path / f"{name}.yml"))[1]
        started.process.terminate()
        assert started.process.wait(60) == -15, started.log.read_text()


def test_a_wrong_file_ends_the_start(tmp_path, capsys):
    """Without the flag, nothing is loaded."""
    (tmp_path / "web.yml").write_text("basic_auth_user: {}\n")
    status, shown = command(capsys, *SERVE, str(tmp_path / "web.yml"))
    assert status == 2
    assert f"{tmp_path}/web.yml:1: unknown key 'basic_auth_user'; did you mean 'basic_auth_users'?" in shown
    code = (
        "import sys; from uwsgi_headroom.service import serve; "
        "print([name for name in sys.modules if name == 'bcrypt' or 'web.security' in name])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_missing_bcrypt_is_named(tmp_path, monkeypatch, capsys):
    """A sentence says what to install; TLS alone needs no bcrypt."""
    monkeypatch.setitem(sys.modules, "bcrypt", None)
    write_certificates(tmp_path)
    (tmp_path / "users.yml").write_text(f"basic_auth_users: {{a: {HASH}}}\n")
    (tmp_path / "tls.yml").write_text(TLS)
    assert LiveConfig(tmp_path / "tls.yml").active.context
    for arguments, expected in ((("hash-password",), 1), ((*SERVE, str(tmp_path / "users.yml")), 2)):
        status, shown = command(capsys, *arguments)
        assert status == expected
        assert "needs bcrypt: " in shown


@pytest.mark.slow
def test_the_page_in_a_browser(behind, directory):
    """A browser that has the login shows figures: scripts, styles, the API and the event stream need no more."""
    login = {"username": "prometheus", "password": PASSWORD}
    with browser() as chromium, tab(chromium, behind.port, http_credentials=login, ignore_https_errors=True) as shown:
        shown.page.goto(f"https://127.0.0.1:{behind.port}/servers/shop")
        shown.page.wait_for_selector("main[data-time]")
        shown.until("heard")
        assert not shown.problems


ALONE = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child", *COMMAND]
"""The exporter finds no server of another test."""

READ_PATHS = ("/metrics", "/", "/servers", "/api/v2/servers", "/runbooks/", "/-/healthy")


def statuses(port: int, host: str = "127.0.0.1") -> list[int]:
    """Of each path, over one connection."""
    connection = http.client.HTTPConnection(host, port, timeout=30)
    found = []
    for path in READ_PATHS:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        found.append(answer.status)
    connection.close()
    return found


@as_root
@pytest.mark.parametrize(
    ("arguments", "of_nobody"),
    [
        ((), [403] * 5 + [200]),
        (("--no-discover",), [200] * 6),
        (("--web.readers", pwd.getpwuid(NOBODY).pw_name), [200] * 6),
    ],
    ids=["another user", "off", "a reader"],
)
def test_another_user_gets_nothing(arguments, of_nobody):
    """Root and readers get all, from any address of loopback."""
    with exporter("--stats", "file:///nowhere", "--discover", *arguments, command=ALONE) as running:
        assert statuses(running.port) == [200] * 6
        assert as_nobody(lambda: statuses(running.port)) == of_nobody


@as_root
def test_who_has_left_gets_nothing():
    """The kernel has forgotten the user of a socket that is closed, and says 0."""
    with exporter("--stats", "file:///nowhere", "--discover", command=ALONE) as running:

        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                client.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: client.recv(1 << 16), b""))

        assert b"uwsgi_" not in as_nobody(ask)


def test_other_machines_take_a_login():
    """It refuses to start where they could read it."""
    ended = run("--stats", "file:///nowhere", "--discover", "--web.listen-address", f"0.0.0.0:{free_port()}")
    assert ended.returncode
    assert "--discover: other machines can reach" in ended.stderr
