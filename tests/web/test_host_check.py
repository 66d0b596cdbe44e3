"""Who may ask: names of hosts, pages of other sites (DNS rebinding), and listeners that other machines can reach."""

import contextlib
import signal
import socket

import pytest

from tests.support.web_server import limited_server
from tests.web.security.secure_server import MUTUAL, TLS, USERS, write_certificates
from uwsgi_headroom import cli
from uwsgi_headroom.config.yaml_file import load_file
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.service import serve
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import listeners
from uwsgi_headroom.web.app import create_application
from uwsgi_headroom.web.host_check import HostPolicy, make_policy
from uwsgi_headroom.web.listeners import describe_exposure, find_places
from uwsgi_headroom.web.security.live_config import LiveConfig

LOOPBACK = HostPolicy(frozenset({"shop", "headroom.example.com"}))
CHECKED = ("/", "/api/v2/servers", "/api/v2/events", "/runbooks/", "/servers/x", "/static/1/page.css", "/nowhere")
UNCHECKED = ("/metrics", "/-/healthy", "/-/ready")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:9238", True),
        ("localhost", True),
        ("localhost:8080", True),  # an ssh tunnel
        ("LOCALHOST.", True),
        ("a.localhost:1", True),
        ("[::1]:9238", True),
        ("[fe80::1%eth0]", True),
        ("192.0.2.7", True),
        ("shop:9238", True),
        ("headroom.example.com", True),  # nginx: proxy_set_header Host $host
        ("", True),
        ("evil.example.com", False),
        ("evil.example.com:9238", False),
        ("localhost.evil.example.com", False),
        ("127.0.0.1.evil.example.com", False),
        ("evillocalhost", False),
        ("shop.evil.example.com", False),
        ("evil@127.0.0.1", False),
        (":evil", False),
    ],
)
def test_names(host, allowed):
    assert LOOPBACK.allows(host) == allowed


@pytest.mark.parametrize(
    ("arrived_at", "checked"),
    [
        (("127.0.0.1", 1), True),
        (("127.0.1.1", 1), True),
        (("::1", 1), True),
        (("::ffff:127.0.0.1", 1), True),
        (("192.0.2.7", 1), False),
        (("::ffff:192.0.2.7", 1), False),
        (("fe80::1%eth0", 1), False),
        (("/run/headroom.sock", None), False),
        (None, False),
    ],
)
def test_connections(arrived_at, checked):
    """Connections that arrive at a loopback address are checked, whatever the listener's address is."""
    assert make_policy([]).checks(arrived_at) == checked
    assert make_policy(["a.example.com"]).checks(arrived_at)


def test_own_names(tmp_path):
    """Allowed names, and those of this machine for itself, are accepted without a resolver."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.1.1\tShop.example.com shop # own\n192.0.2.1 other.example.com\nx y\n")
    policy = make_policy(["a.example.com"], hosts)
    for name in ("a.example.com:80", "shop.example.com", "shop:9238", socket.gethostname()):
        assert policy.allows(name), name
    for name in ("other.example.com", "y", "evil.example.com"):
        assert not policy.allows(name), name
    assert not make_policy([], tmp_path / "missing").allows("shop.example.com")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_listener_at_all_addresses(host):
    """A foreign site's name is refused at 127.0.0.1, also where a listener accepts connections from elsewhere."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family, dualstack_ipv6=":" in host)
    with limited_server(create_application(Fleet([]), hosts=make_policy([])), listener=listener) as server:
        for name, status in (("evil.test", b"421"), ("localhost", b"200"), (socket.gethostname(), b"200")):
            assert answer(server.port, "/", f"Host: {name}").startswith(b"HTTP/1.1 " + status), name


@pytest.fixture(scope="module")
def port():
    """The port of an exporter without servers on a checked listener."""
    with limited_server(create_application(Fleet([]), hosts=LOOPBACK)) as server:
        yield server.port


def answer(port: int, path: str, *headers: str) -> bytes:
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), 10)) as client:
        client.sendall("\r\n".join([f"HEAD {path} HTTP/1.1", "Connection: close", *headers, "", ""]).encode())
        parts = []
        while part := client.recv(65536):
            parts.append(part)
        return b"".join(parts)


@pytest.mark.parametrize("path", CHECKED)
def test_what_is_checked(port, path):
    """The page, the API, runbooks and static files are checked."""
    assert answer(port, path, "Host: evil.example.com").startswith(b"HTTP/1.1 421 ")
    assert not answer(port, path, "Host: localhost").startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("path", UNCHECKED)
def test_what_is_not_checked(port, path):
    assert answer(port, path, "Host: evil.example.com").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/runbooks/", (), b"200"),
        ("/runbooks/", ("Host:",), b"200"),
        ("/runbooks/", ("Host: localhost", "Host: evil.example.com"), b"400"),
        ("/runbooks/", ("Host: evil.example.com", "Host: localhost"), b"400"),
        ("/metrics", ("Host: localhost", "Host: localhost"), b"400"),
        ("http://evil.example.com/runbooks/", ("Host: localhost",), b"421"),
        ("http://localhost:1/runbooks/", ("Host: evil.example.com",), b"200"),
        ("http://[::1]:1/runbooks/", ("Host: evil.example.com",), b"200"),
    ],
)
def test_forms_of_a_request(port, target, headers, status):
    """A request without a Host header is accepted, and one with several is not; the target overrides the header."""
    assert answer(port, target, *headers).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("path", "location"), [("/runbooks", b"/runbooks/"), ("/metrics/", b"/metrics")])
def test_redirects_name_no_host(port, path, location):
    assert b"location: " + location + b"\r\n" in answer(port, path, "Host: localhost:1")
    assert b"location" not in answer(port, "/api/v2/servers/", "Host: localhost:1")


def test_pages_of_other_sites_have_nothing_built(port):
    for path in ("/", "/metrics", "/api/v2/servers", "/servers/x", "/runbooks/", "/probe?target=x", "/nowhere"):
        for site in ("cross-site", "same-site", "?"):
            for mode, dest in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("navigate", "object")):
                headers = f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}", f"Sec-Fetch-Dest: {dest}"
                assert answer(port, path, *headers).startswith(b"HTTP/1.1 403 "), (path, headers)
    assert answer(port, "/-/healthy", "Sec-Fetch-Site: cross-site").startswith(b"HTTP/1.1 200 ")
    for site in ("none", "same-origin"):
        assert answer(port, "/", f"Sec-Fetch-Site: {site}").startswith(b"HTTP/1.1 200 ")
    headers = "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"
    for path in ("/", "/metrics", "/runbooks/UwsgiDown", "/api/v2/servers"):
        assert answer(port, path, *headers).startswith(b"HTTP/1.1 200 "), path
    assert answer(port, "/probe?target=x", *headers).startswith(b"HTTP/1.1 403 ")
    assert answer(port, "/", *headers, "Sec-Purpose: prefetch;prerender").startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no login and no TLS"),
        ("rate_limit: {interval: 1s, burst: 1}\n", "no login and no TLS"),
        (TLS, "there is no login; add"),
        (TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n", "there is no login; add"),
        (USERS, "travel over the network in clear"),
        (TLS + USERS, ""),
        (MUTUAL, ""),
    ],
)
def test_each_configuration(tmp_path, text, words):
    """The warning says what is missing; with TLS and a login, or required client certificates, there is none."""
    write_certificates(tmp_path)
    (tmp_path / "web.yml").write_text(text)
    warning = describe_exposure(LiveConfig(tmp_path / "web.yml").config)
    assert words in warning if words and warning else warning is None
    assert describe_exposure(None) == listeners._NEITHER


@pytest.fixture
def exposed(monkeypatch):
    """Every listener counts as one that other machines can reach, and nothing is served."""
    monkeypatch.setattr(serve, "serve_until_signal", lambda *_: None)
    for module in (listeners, listeners):
        monkeypatch.setattr(module, "is_exposed", lambda _host: True)
    interrupt = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, interrupt)


@pytest.mark.usefixtures("exposed")
@pytest.mark.parametrize(("text", "status"), [("", 2), (TLS, 2), (USERS, 0), (MUTUAL, 0)])
@pytest.mark.parametrize("flag", ["--routes", "--code"])
def test_what_is_opt_in_needs_a_login(tmp_path, capfd, text, status, flag):
    """Beyond loopback, routes and lines of code are served to those who log in, or if that is allowed."""
    write_certificates(tmp_path)
    (tmp_path / "web.yml").write_text(text)
    arguments = ["--stats", "/a", flag, "--web.listen-address", "127.0.0.1:0"]
    assert cli.main([*arguments, "--web.config.file", str(tmp_path / "web.yml")]) == status
    assert (f"{flag}: other machines can reach" in capfd.readouterr().err) == (status == 2)
    assert cli.main([*arguments, f"{flag}-beyond-loopback"]) == 0


@pytest.mark.usefixtures("exposed")
def test_code_of_one_server_needs_a_login(tmp_path):
    """A reload reads the same settings, and is refused as a start is."""
    file = tmp_path / "headroom.yml"
    file.write_text("servers:\n  - {name: shop, stats: /a, code: true}\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(ConfigError, match="--code: other machines can reach"):
            serve.refuse_exposure(find_places([listener]), None, load_file(file))
        file.write_text(f"{file.read_text()}code: {{enabled: false, beyond_loopback: true}}\n")
        config = load_file(file)
        assert serve.refuse_exposure(find_places([listener]), None, config) is config
        assert not config.settings.code
