"""Warnings about listeners that other machines can reach."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.security.certificates import write_certificates
from tests.web.security.secure_server import MUTUAL, TLS, USERS
from uwsgi_headroom import cli, serve
from uwsgi_headroom.config.yaml_file import load_file
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web import listeners
from uwsgi_headroom.web.listeners import describe_exposure, find_places
from uwsgi_headroom.web.security.live_config import LiveConfig


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
def test_each_configuration(tmp_path: Path, text: str, words: str) -> None:
    """The warning says what is missing; with TLS and a login, or required client certificates, there is none."""
    write_certificates(tmp_path)
    (tmp_path / "web.yml").write_text(text)
    warning = describe_exposure(LiveConfig(tmp_path / "web.yml").config)
    assert words in warning if words and warning else warning is None
    assert describe_exposure(None) == listeners._NEITHER


@pytest.fixture
def exposed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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
def test_what_is_opt_in_needs_a_login(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, status: int, flag: str
) -> None:
    """Beyond loopback, routes and lines of code are served to those who log in, or if that is allowed."""
    write_certificates(tmp_path)
    (tmp_path / "web.yml").write_text(text)
    arguments = ["--stats", "/a", flag, "--web.listen-address", "127.0.0.1:0"]
    assert cli.main([*arguments, "--web.config.file", str(tmp_path / "web.yml")]) == status
    assert (f"{flag}: other machines can reach" in capfd.readouterr().err) == (status == 2)
    assert cli.main([*arguments, f"{flag}-beyond-loopback"]) == 0


@pytest.mark.usefixtures("exposed")
def test_code_of_one_server_needs_a_login(tmp_path: Path) -> None:
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
