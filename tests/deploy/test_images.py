"""Container images, compose, and a machine without either."""

import configparser
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager

import pytest

from app import load
from tests.deploy.files import (
    APP_CONTAINERFILE,
    COMPOSE,
    CONTAINERFILE,
    DEPLOY,
    ROOT,
    instructions,
    last_stage,
    load_script,
)
from tests.deploy.files import load as load_yaml
from tests.support.other_namespaces import over_ipv6
from uwsgi_headroom.service.systemd import take_sockets, watchdog_seconds
from uwsgi_headroom.web.listeners import open_listener

images = pytest.mark.parametrize("path", [CONTAINERFILE, APP_CONTAINERFILE], ids=["exporter", "app"])


@images
def test_an_image_is_small_and_not_root(path):
    """The base has a complete name; pip runs in the first stage; the last user is a number; no shell is needed."""
    found = instructions(path)
    assert ("ARG", "BASE=docker.io/library/python:3.13-slim-trixie") in found
    assert {argument.partition(" ")[0] for name, argument in found if name == "FROM"} == {"${BASE}"}
    stage = last_stage(path)
    assert not [argument for name, argument in stage if name == "RUN" and re.search(r"\b(pip3?|apt-get) ", argument)]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", [argument for name, argument in stage if name == "USER"][-1])
    stage = dict(last_stage(path))
    assert " CMD [" in stage["HEALTHCHECK"]
    assert stage["ENTRYPOINT"].startswith("[")


@images
def test_links_lead_to_files_that_are_copied_too(path):
    """COPY copies a link as a link. The exporter's runbooks are one: without its target, their pages are errors."""
    copied = [
        ROOT / source
        for name, argument in instructions(path)
        if name == "COPY" and not argument.startswith("--from")
        for source in argument.split()[:-1]
    ]
    links = [inner for source in copied if source.is_dir() for inner in source.rglob("*") if inner.is_symlink()]
    lost = [link for link in links if not any(link.resolve().is_relative_to(source) for source in copied)]
    assert not lost


def test_what_services_run_and_share():
    assert any("'.[top,login]'" in argument for name, argument in instructions(CONTAINERFILE) if name == "RUN")
    ((requests, address),) = load.from_json(SERVICES["load"]["command"][0])
    assert address == ("app", 8000)
    assert requests.rate > 0
    for name, service in SERVICES.items():
        if service["image"] in ("uwsgi-headroom", "uwsgi-headroom-demo-app"):
            assert ("entrypoint" in service) == (service.get("healthcheck") == {"disable": True}), name
    app, exporter = SERVICES["app"], SERVICES["exporter"]
    assert exporter["pid"] == f"container:{app['container_name']}"
    assert exporter["network_mode"] == "service:app"
    assert "run:/run/uwsgi" in app["volumes"]
    assert "run:/run/uwsgi" in exporter["volumes"]


DOCUMENT = load_yaml(COMPOSE)
SERVICES = DOCUMENT["services"]

services = pytest.mark.parametrize("name", SERVICES)


@services
def test_mounts_exist(name):
    for mount in SERVICES[name].get("volumes", ()):
        source, _, mode = mount.split(":", 2) if mount.count(":") > 1 else (*mount.split(":"), "rw")
        if source.startswith("."):
            assert (COMPOSE.parent / source).exists(), mount
            assert mode == "ro", mount
        else:
            assert source in DOCUMENT["volumes"], mount


@services
def test_services_are_locked_down(name):
    """Ports on loopback, read-only, no capabilities, and images that do not change without notice."""
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z]+_PORT:-\d+\}:\d+", port)
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    image = SERVICES[name]["image"]
    assert image in ("uwsgi-headroom", "uwsgi-headroom-demo-app") or re.fullmatch(r"docker\.io/\w+/\w+:v?[\d.]+", image)
    if build := SERVICES[name].get("build"):
        assert (COMPOSE.parent / build["context"] / build["dockerfile"]).is_file()


def test_grafana_finds_what_is_mounted():
    """The provider reads the directory that compose mounts; the data source takes the variable that compose sets."""
    provider = load_yaml(DEPLOY / "grafana" / "provisioning" / "dashboards" / "uwsgi-headroom.yaml")["providers"][0]
    mounts = dict(mount.split(":")[:2] for mount in SERVICES["grafana"]["volumes"])
    assert mounts["../../dashboards/out"] == provider["options"]["path"]
    assert json.dumps(SERVICES["grafana"]["environment"]).count("PROMETHEUS_URL") == 1
    source = load_yaml(DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml")["datasources"][0]
    assert source["url"] == "$PROMETHEUS_URL"


FOLDER = DEPLOY / "standalone"
LOADER, PROGRAM = 4711, 4712


launcher = load_script(FOLDER / "launcher.py")


def test_variables_of_systemd_for_the_loader_are_for_the_program():
    """systemd sets WATCHDOG_PID and LISTEN_PID to the process that it starts. Variables for another process stay."""
    environment = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(LOADER)}
    assert watchdog_seconds(environment, PROGRAM) is None
    launcher.take_over(environment, PROGRAM, LOADER)
    assert watchdog_seconds(environment, PROGRAM) == 30
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environment = {"LISTEN_FDS": "1", "LISTEN_PID": str(LOADER)}
        assert take_sockets(environment, PROGRAM, first=listener.fileno()) == []
        launcher.take_over(environment, PROGRAM, LOADER)
        (taken,) = take_sockets(environment, PROGRAM, first=listener.fileno())
        assert taken.detach() == listener.fileno()
    environment = {"WATCHDOG_PID": "1", "LISTEN_PID": "1"}
    launcher.take_over(environment, PROGRAM, LOADER)
    assert environment == {"WATCHDOG_PID": "1", "LISTEN_PID": "1"}


def test_the_drop_in_changes_the_program_alone():
    """The command is that of the unit, and messages of the child are accepted."""
    text = (FOLDER / "one-file.conf").read_text()
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(text)
    unit = (DEPLOY / "systemd/uwsgi-headroom.service").read_text()
    command = parser["Service"]["ExecStart"]
    assert "ExecStart=\n" in text  # a second command instead of another one is an error for Type=notify
    assert f"ExecStart={command.replace('/usr/local/bin', '/opt/uwsgi-headroom/bin')}\n" in unit
    assert parser["Service"]["NotifyAccess"] == "all"
    readme = (FOLDER / "README.md").read_text()
    assert "/usr/local/bin/uwsgi-headroom " in readme
    assert " deploy/standalone/one-file.conf /etc/systemd/system/uwsgi-headroom.service.d/" in readme


TLS_HANDSHAKE = b"\x16"
TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x28"  # handshake_failure (RFC 8446, 6)


healthcheck = load_script(DEPLOY / "container" / "healthcheck.py")


@contextmanager
def server(answer, context=None):
    """A server that gives every connection the same answer and closes it; with a context, TLS gets a 401 instead."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    if context and connection.recv(1, socket.MSG_PEEK) == TLS_HANDSHAKE:
                        with context.wrap_socket(connection, server_side=True) as secure:
                            secure.recv(4096)
                            secure.sendall(b"HTTP/1.1 401 Unauthorized\r\n\r\n")
                    else:
                        connection.recv(4096)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[:2]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("answer", "healthy"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", True),
        (b"HTTP/1.1 429 Too Many Requests\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (TLS_ALERT, True),
        (b"SSH-2.0-OpenSSH_9.2\r\n", False),
        (b"", False),
    ],
)
def test_what_counts_as_healthy(answer, healthy):
    """An answer of the exporter counts, also a refusal: no password, no certificate, too many requests."""
    with server(answer) as address:
        assert healthcheck.is_healthy(address) is healthy


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl, to make a certificate")
def test_an_exporter_with_tls_is_healthy(tmp_path):
    """It refuses plain HTTP with a 400, and the check, which has no password, with a 401."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=headroom", "-days", "1"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with server(b"HTTP/1.0 400 Bad Request\r\n\r\n", context) as address:
        assert healthcheck.is_healthy(address)
    with server(b"HTTP/1.0 400 Bad Request\r\n\r\n") as address:
        assert not healthcheck.is_healthy(address)


def test_nobody_listens():
    """A refused connection is unhealthy, not an error."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        assert not healthcheck.is_healthy(free.getsockname())


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("", ("127.0.0.1", 9238)),
        (":9300", ("127.0.0.1", 9300)),
        ("0.0.0.0:9300", ("127.0.0.1", 9300)),
        ("[::]:9300", ("::1", 9300)),
        ("[::1]:9300", ("::1", 9300)),
        ("10.0.0.5:80 127.0.0.1:81", ("10.0.0.5", 80)),
        ("nonsense", ("127.0.0.1", 9238)),
    ],
)
def test_the_address_is_that_of_the_variable(listen, address):
    """A wildcard is asked on loopback; of several addresses the first."""
    assert healthcheck.address(listen) == address


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "127.0.0.1", *(pytest.param(host, marks=over_ipv6) for host in ("::", "::1"))]
)
def test_an_exporter_that_listens_on_any_address_is_healthy(host):
    """The address that is asked is one that the exporter's own listener accepts: `[::]` is IPv6 alone."""
    with open_listener(host, 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(healthcheck.address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")):
            pass
