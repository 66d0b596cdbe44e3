"""The HTTP client configuration of `top` and `check`."""

import base64
import json
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.support.monitoring import find
from tests.web.security.secure_server import write_certificates
from uwsgi_headroom.config.http_client_file import load_http_access, load_optional
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source import HttpAccess

FILES = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    made = tmp_path_factory.mktemp("client")
    write_certificates(made)
    (made / "secret").write_text("from a file\n")
    (made / "binary").write_bytes(b"\xff\xfe")
    return made


def load(directory: Path, text: str) -> HttpAccess:
    (directory / "client.yml").write_text(text)
    return load_http_access(directory / "client.yml")


def encoded(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("", ""),
        ("# nothing\n", ""),
        ("basic_auth: {username: a, password: 'b:c'}", encoded("a:b:c")),
        ("basic_auth: {username: Zoë, password_file: secret}", encoded("Zoë:from a file")),
        ("basic_auth: {username_file: secret, password: 5}", encoded("from a file:5")),
        ("basic_auth: {username: a}", encoded("a:")),
        ("authorization: {credentials: token}", "Bearer token"),
        ("authorization: {type: Token, credentials_file: secret}", "Token from a file"),
        ("bearer_token: token", "Bearer token"),
        ("bearer_token_file: secret", "Bearer from a file"),
        ("follow_redirects: true\nenable_http2: false", ""),
    ],
)
def test_logins(directory, text, header):
    access = load(directory, text)
    assert access.authorization == header
    assert access.context is None
    assert "from a file" not in repr(access)


def test_tls(directory):
    """A given authority is the only one; verification ends only where it is asked for."""
    access = load(directory, "tls_config: {ca_file: ca.pem, server_name: x, min_version: TLS13}")
    assert access.server_name == "x"
    assert (access.context.verify_mode, access.context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert access.context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert len(access.context.get_ca_certs()) == 1
    text = json.dumps({"ca": (directory / "ca.pem").read_text(), "insecure_skip_verify": True})
    lax = load(directory, f"tls_config: {text}").context
    assert lax.verify_mode == ssl.CERT_NONE
    assert load(directory, "tls_config: {cert_file: client.pem, key_file: client.key}").context is not None
    assert load_optional(None) is None  # nothing is sent, and the system's authorities are trusted


def test_comments_of_any_bytes_beside_authorities_are_skipped(directory):
    comment = "# Issuer: Főtanúsítvány\n".encode()
    (directory / "list.pem").write_bytes(comment + (directory / "ca.pem").read_bytes() + comment + b"\xff\n")
    context = load(directory, "tls_config: {ca_file: list.pem}").context
    assert len(context.get_ca_certs()) == 1
    (directory / "list.pem").write_bytes(comment)
    with pytest.raises(ConfigError, match="no certificates in PEM format"):
        load(directory, "tls_config: {ca_file: list.pem}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("basic_auth: {user: a}", "client.yml:1: unknown key 'user'; did you mean 'username'?"),
        ("oauth2: {}", "unknown key 'oauth2'"),
        ("basic_auth: {}\nbearer_token: x", "client.yml:2: give one login"),
        ("basic_auth: {username: a, password: b, password_file: secret}", "give one of password and password_file"),
        ("basic_auth: {username: a, password_file: missing}", "missing: No such file"),
        ("basic_auth: {username: a, password_file: binary}", "not a text file"),
        ("basic_auth: {username: a, password_file: .}", "not an ordinary file"),
        ("authorization: {type: basic, credentials: x}", "as basic_auth"),
        ('basic_auth: {username: "\\ud800"}', "client.yml:1: the text has a NUL"),
        ('bearer_token: "a\\r\\nX: y"', "one line of ASCII"),
        ("tls_config: {ca_file: secret}", "no certificates"),
        ("tls_config: {cert_file: client.pem}", "needs both"),
        ("tls_config: {cert_file: client.pem, key_file: server.key}", "does not belong"),
        ("tls_config: {cert_file: client.pem, key_file: encrypted.key}", "the key is encrypted"),
        ("tls_config: {insecure_skip_verify: 'no'}", "expected true or false"),
        ("tls_config: {min_version: TLS11}", "is not one of TLS12, TLS13"),
        ("tls_config: {min_version: TLS13, max_version: TLS12}", "above"),
        ("[1]", "expected keys"),
        ("{", "not valid YAML"),
    ],
)
def test_mistakes(directory, text, words):
    with pytest.raises(ConfigError) as error:
        load(directory, text)
    assert words in str(error.value)
    assert "from a file" not in str(error.value)
    with pytest.raises(ConfigError, match=r"--http\.config\.file: "):
        load_optional(str(directory / "client.yml"))


def test_prometheus_takes_the_same_keys(directory):
    """All keys that are documented are keys of a scrape configuration, which the real promtool checks."""
    keys = {
        "basic_auth": {"username": "prometheus", "password_file": "secret"},
        "follow_redirects": False,
        "enable_http2": False,
        "tls_config": {
            **{f"{name}_file": f"{directory}/{file}" for name, file in FILES.items()},
            "server_name": "x",
            "insecure_skip_verify": False,
            "min_version": "TLS12",
        },
    }
    assert load(directory, json.dumps(keys)).context is not None
    config = directory / "prometheus.yml"
    config.write_text(json.dumps({"scrape_configs": [{"job_name": "x", **keys}]}))
    result = subprocess.run([find("promtool"), "check", "config", config], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
