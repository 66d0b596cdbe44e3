"""The HTTP server with TLS, and the checks of its certificates."""

import asyncio
import contextlib
import logging
import socket
import ssl
import time

import pytest

from tests.support.real_uwsgi import wait_until
from tests.web.security.secure_server import (
    CLIENT_NAME,
    HASH,
    MUTUAL,
    PASSWORD,
    TLS,
    USERS,
    SecureServer,
    authority,
    basic,
    secure_server,
    write_pair,
)
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.security import live_config

LOGIN = f"prometheus:{PASSWORD}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    headers = "http_server_config:\n  headers: {X-Frame-Options: deny, Strict-Transport-Security: max-age=9}\n"
    with secure_server(tmp_path_factory.mktemp("server"), TLS + USERS + headers) as running:
        yield running


def exchange(server: SecureServer, sent: bytes, seconds: float = 10) -> bytes:
    """Send bytes without TLS; returns what is received until the end."""
    with socket.create_connection(server.address, timeout=seconds) as client:
        client.sendall(sent)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(65536):
                received += part
        return received


def client_hello(server: SecureServer) -> bytes:
    """The first bytes that a client sends."""
    outgoing = ssl.MemoryBIO()
    client = server.trust().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_only_the_right_login_passes(server):
    """All others have the same answer. A huge one is refused by the limits of a head, over TLS too."""
    refused = [server.get(login=login) for login in ("", "prometheus:wrong", f"nobody:{PASSWORD}")]
    assert [status for status, _ in refused] == [401, 401, 401]
    assert len({body for _, body in refused}) == 1
    assert server.get(login=LOGIN) == (200, "ok")
    assert server.ask(Authorization="Basic " + "A" * 20_000)[0] == 431


def test_each_answer_has_the_configured_headers(server):
    """Refusals too; and a refusal asks for a login."""
    for login, expected in ((basic(LOGIN), 200), ({}, 401)):
        status, headers = server.ask(**login)
        assert status == expected
        assert headers["x-frame-options"] == "deny"
        assert headers["strict-transport-security"] == "max-age=9"
        assert (headers["www-authenticate"] or "").startswith("Basic realm=") == (status == 401)


@pytest.mark.parametrize(
    "value", ["Basic !!!", "Basic", "Bearer x", "Basic " + "QUFB" * 1500, "\xff\xfe", "Basic Og=="]
)
def test_rubbish_instead_of_a_login(server, value):
    assert server.ask(Authorization=value.encode("latin-1"))[0] in (401, 429)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"G", b"POST /x HTTP/1.0\r\n\r\n", b"OPTIONS"])
def test_plain_http_is_answered_in_plain_text(server, sent):
    """As Go's servers do."""
    answer = exchange(server, sent)
    assert answer.startswith(b"HTTP/1.0 400 Bad Request\r\n")
    assert answer.endswith(b"\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")


@pytest.mark.parametrize("sent", [b"\0" * 100, b"\x16\x03\x01\x00\x05hello", b"\x16" * 40_000, b"\x16\x03\x01\xff\xff"])
def test_rubbish_ends_the_connection(server, caplog, sent):
    with socket.create_connection(server.address, timeout=60) as client, contextlib.suppress(ConnectionError):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        while part := client.recv(1000):
            assert part[0] == 0x15
    assert server.get(login=LOGIN)[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_handshake_in_small_pieces_is_complete(server):
    """Its first byte alone decides that it is TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = server.trust().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(server.address, timeout=60) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                hello = outgoing.read()
                for start in (0, 1, 5):
                    client.sendall(hello[start : {0: 1, 1: 5, 5: len(hello)}[start]])
                    time.sleep(0.01)
                incoming.write(client.recv(65536))
        assert tls.version() == "TLSv1.3"


def test_old_versions_and_renegotiation(server):
    """TLS 1.2 is accepted, nothing older; OpenSSL refuses renegotiation."""
    for version, accepted in ((ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_1, False)):
        context = server.trust()
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1") if not accepted else contextlib.nullcontext():
            context.minimum_version = context.maximum_version = version
        with socket.create_connection(server.address, timeout=60) as raw:
            if accepted:
                with context.wrap_socket(raw, server_hostname="127.0.0.1") as client:
                    assert client.version() == "TLSv1.2"
            else:
                with pytest.raises(ssl.SSLError):
                    context.wrap_socket(raw, server_hostname="127.0.0.1")
    assert server.live.active.context.options & ssl.OP_NO_RENEGOTIATION


def test_wrong_passwords_do_not_hold_up_a_remembered_login(server):
    """Many guesses in parallel are answered, most without a check; a scrape passes meanwhile and afterwards."""
    assert server.get(login=LOGIN)[0] == 200

    async def guess(number):
        return (await asyncio.to_thread(server.get, "/", f"prometheus:{number}"))[0]

    async def attack():
        guesses = [asyncio.create_task(guess(number)) for number in range(12)]
        scrapes = [(await asyncio.to_thread(server.get, "/metrics", LOGIN))[0] for _ in range(5)]
        return await asyncio.gather(*guesses), scrapes

    guesses, scrapes = asyncio.run(attack())
    assert scrapes == [200] * 5
    assert set(guesses) <= {401, 429}
    assert 429 in guesses


def test_half_handshakes_take_no_place_for_long(tmp_path, monkeypatch):
    """Clients that send nothing, or half a ClientHello, are closed for a new one when all places are taken, and after
    a time in any case. They count from the first moment."""
    with secure_server(tmp_path, TLS, connections=8) as server, contextlib.ExitStack() as stack:
        monkeypatch.setattr(bounds, "HANDSHAKE_SECONDS", 600.0)
        half = client_hello(server)[:100]
        clients = []
        for number in range(40):
            clients.append(stack.enter_context(socket.create_connection(server.address, timeout=60)))
            clients[-1].sendall(half if number % 2 else b"")
        assert server.get() == (200, "ok")
        wait_until(lambda: len(server.slots) <= 8, what="the bound")
        monkeypatch.setattr(bounds, "HANDSHAKE_SECONDS", 0.2)
        late = stack.enter_context(socket.create_connection(server.address, timeout=60))
        late.sendall(half)
        silent = stack.enter_context(socket.create_connection(server.address, timeout=60))
        assert late.recv(10) == b""
        assert silent.recv(10) == b""
        for client in clients:
            client.close()
        wait_until(lambda: not len(server.slots), what="the end of all connections")
        assert not server.server.connections


def test_a_client_that_receives_nothing_is_closed(tmp_path, monkeypatch):
    """The limit on stalled responses holds over TLS; who is slow for twice as long gets everything."""
    with secure_server(tmp_path, TLS) as server:
        for pause, limit, complete in ((None, 0.5, False), (0.02, 2.0, True)):
            monkeypatch.setattr(bounds, "STALLED_SECONDS", limit)
            with socket.socket() as raw:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                raw.settimeout(60)
                raw.connect(server.address)
                client = server.trust().wrap_socket(raw, server_hostname="127.0.0.1")
                client.sendall(b"GET /?size=2000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                received, began = 0, time.monotonic()
                if pause is None:
                    wait_until(lambda: len(server.slots), what="the request")
                    wait_until(lambda: not len(server.slots), what="the end")
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    while part := client.recv(65536):
                        received += len(part)
                        time.sleep(pause if pause and time.monotonic() < began + 2 * limit else 0)
                client.close()
            assert (received > 4_000_000) == complete


def test_limits_and_ends(tmp_path):
    """A burst passes; a client without a certificate learns why; an end waits for nobody."""
    with secure_server(tmp_path, "rate_limit: {interval: 1h, burst: 2}\n" + USERS) as server:
        assert [server.get(login=LOGIN, tls=False)[0] for _ in range(3)] == [200, 200, 429]
    with secure_server(tmp_path, MUTUAL) as server, pytest.raises(ssl.SSLError, match="certificate required"):
        server.get()
    with secure_server(tmp_path, TLS) as server, socket.create_connection(server.address, timeout=60) as client:
        client.sendall(client_hello(server)[:50])
        wait_until(lambda: server.server.connections, what="the connection")
        server.server.end()
        assert client.recv(10) == b""


def test_a_login_without_tls(tmp_path):
    """TLS at a plain port ends; a login works without TLS; a user added later can log in without a restart."""
    with secure_server(tmp_path, USERS) as server:
        assert server.get(tls=False)[0] == 401
        assert server.get(login=LOGIN, tls=False)[0] == 200
        with pytest.raises(ssl.SSLError):
            server.get(login=LOGIN)
        (tmp_path / "web.yml").write_text(f"{USERS}  late: {HASH}\n")
        server.live.look()
        server.live.look()
        assert server.get(login=f"late:{PASSWORD}", tls=False)[0] == 200


@pytest.mark.parametrize(
    ("config", "client", "status"),
    [
        (MUTUAL, "client", 200),
        (MUTUAL, "stranger", 0),
        (MUTUAL, "", 0),
        (f"{MUTUAL}  client_allowed_sans: [{CLIENT_NAME}]\n", "client", 200),
        (f"{MUTUAL}  client_allowed_sans: [other.example.com]\n", "client", 0),
        (f"{MUTUAL}  client_allowed_sans: []\n", "client", 0),
        (f"{MUTUAL}  client_allowed_sans: [127.0.0.1]\n", "other", 200),
        (MUTUAL.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"), "", 200),
        (MUTUAL.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"), "stranger", 0),
        (MUTUAL + USERS, "client", 401),
        (MUTUAL.replace("RequireAndVerifyClientCert", "RequestClientCert"), "stranger", 200),
    ],
)
def test_client_certificates(tmp_path, config, client, status):
    with secure_server(tmp_path, config) as server:
        try:
            seen = server.get(client=client)[0]
        except OSError:
            seen = 0
        assert seen == status


def test_a_certificate_changes_during_traffic(tmp_path, monkeypatch):
    """A renewed certificate is served without a restart; an open connection goes on; a broken one changes nothing."""
    monkeypatch.setattr(live_config, "LOOK_SECONDS", 0.05)
    with secure_server(tmp_path, TLS) as server, contextlib.closing(server.connect()) as client:
        client.request("GET", "/")
        assert client.getresponse().read() == b"ok"
        first = server.serial()
        write_pair(tmp_path, "server", authority().issue_cert("127.0.0.1"))
        wait_until(lambda: server.serial() != first, what="the new certificate")
        second = server.serial()
        (tmp_path / "server.pem").write_text("broken")
        wait_until(lambda: server.live._loaded[1] == live_config._look_at(tmp_path / "server.pem"), what="the look")
        assert server.serial() == second
        client.request("GET", "/")
        assert client.getresponse().read() == b"ok"
