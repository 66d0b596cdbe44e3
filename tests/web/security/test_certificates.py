"""Certificates over real TLS: those of clients, and the server's own when it is renewed."""

from __future__ import annotations

import contextlib
import http.client
import ssl
from pathlib import Path

import pytest

from tests.support.real_uwsgi import wait_until
from tests.web.security.certificates import CLIENT_NAME, authority, write_pair
from tests.web.security.secure_server import MUTUAL, TLS, USERS, secure_server
from uwsgi_headroom.web.security import live_config


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
def test_client_certificates(tmp_path: Path, config: str, client: str, status: int) -> None:
    """A certificate counts if the authority issued it and it has an allowed name. status: 0 for no answer."""
    with secure_server(tmp_path, config) as server:
        try:
            seen = server.get(client=client)[0]
        except OSError:
            seen = 0
        assert seen == status


def test_a_client_without_a_certificate_learns_why(tmp_path: Path) -> None:
    """The alert of TLS reaches it."""
    with secure_server(tmp_path, MUTUAL) as server, pytest.raises(ssl.SSLError, match="certificate required"):
        server.get()


def test_a_certificate_changes_during_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewed certificate is served without a restart; an open connection goes on; a broken one changes nothing."""
    monkeypatch.setattr(live_config, "LOOK_SECONDS", 0.05)
    with secure_server(tmp_path, TLS) as server:
        client = http.client.HTTPSConnection(*server.address, timeout=60, context=server.trust())
        with contextlib.closing(client):
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
