"""The health check of the image distinguishes an exporter that answers from everything else."""

import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager

import pytest

from tests.deploy.files import DEPLOY, load_script
from tests.support.other_namespaces import over_ipv6
from uwsgi_headroom.web.listeners import open_listener

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
