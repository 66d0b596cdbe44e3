"""The web configuration file, compared with what the exporter toolkit does with the same files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.web.security.certificates import read_files, write_certificates, write_with_certificates
from tests.web.security.secure_server import HASH, TLS
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web.security.live_config import Active, LiveConfig
from uwsgi_headroom.web.security.web_config_file import load_web_config

HERE = Path(__file__).parent
RECORD = json.loads((HERE / "toolkit.json").read_text())["files"]
FILES = sorted(read_files())

ONLY_THE_TOOLKIT_ACCEPTS = {
    "auth_ca_is_no_certificate.yml": "no client could log in",
    "auth_require_any.yml": "Python's TLS cannot ask for a certificate without verifying it",
    "auth_require_old_name.yml": "Python's TLS cannot ask for a certificate without verifying it",
    "curves_several.yml": "Python's TLS can be limited to one curve only",
    "rate_limit_negative.yml": "it limits nothing",
    "rate_limit_no_burst.yml": "every request would be refused",
    "rate_limit_nanoseconds.yml": "a duration without a unit",
    "sans_without_type.yml": "the names protect nothing",
    "tls_empty_strings.yml": "nothing would be encrypted",
    "tls_only_versions.yml": "nothing would be encrypted",
    "two_documents.yml": "the second document would be ignored",
    "users_cost_31.yml": "one check would take more than a day",
    "users_hash_with_bad_characters.yml": "no password would match",
    "version_crossed.yml": "no version is left, so every handshake would fail",
    "version_max_11.yml": "OpenSSL refuses these versions",
}
ONLY_WE_ACCEPT = {
    "ciphers_tls13_only.yml": "the ciphers that HTTP/2 requires do not matter to HTTP/1.1",
    "ciphers_without_those_of_http2.yml": "the ciphers that HTTP/2 requires do not matter to HTTP/1.1",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    write_certificates(made)
    return made


def opened(name: str, directory: Path) -> Active | ConfigError:
    try:
        return LiveConfig(write_with_certificates(name, read_files()[name], directory)).active
    except ConfigError as error:
        return error


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_accepted_as_by_the_toolkit(name: str, directory: Path) -> None:
    """Each file is accepted or refused as the toolkit does, except those listed with a reason; and what both accept
    has TLS and a login with both or with none."""
    expected = RECORD[name]
    result = opened(name, directory)
    if name in ONLY_THE_TOOLKIT_ACCEPTS or name in ONLY_WE_ACCEPT:
        assert expected["accepts"] == isinstance(result, ConfigError) == (name in ONLY_THE_TOOLKIT_ACCEPTS)
        return
    if not expected["accepts"]:
        assert isinstance(result, ConfigError)
        assert str(result).startswith(str(directory))
        return
    assert isinstance(result, Active), result
    assert (result.context is not None) == (expected["scheme"] == "https")
    assert bool(result.config.users) == (expected.get("status") == 401)
    certificate_required = result.config.tls is not None and result.config.tls.client_auth == "required"
    assert certificate_required == (expected.get("request_error") == "certificate required")


def test_each_file_is_recorded(tmp_path: Path) -> None:
    """A file that would block the reader is refused."""
    assert set(FILES) == set(RECORD)
    assert {*ONLY_THE_TOOLKIT_ACCEPTS, *ONLY_WE_ACCEPT} <= set(FILES)
    os.mkfifo(tmp_path / "web.yml")
    with pytest.raises(ConfigError, match="not an ordinary file"):
        load_web_config(tmp_path / "web.yml")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f"{TLS}  cert_fil: x\n", 4, "unknown key 'cert_fil'; did you mean 'cert_file'?"),
        ("tls_server_confg:\n  cert_file: x\n", 1, "did you mean 'tls_server_config'?"),
        ("http_server_config:\n  http3: true\n", 2, "did you mean 'http2'?"),
        ("http_server_config:\n  headers:\n    Server: x\n", 3, "known keys: Strict-Transport-Security"),
        ("rate_limit:\n  brust: 3\n", 2, "did you mean 'burst'?"),
        (f"{TLS}  client_auth_type: RequireAnyClientCert\n", 4, "write RequireAndVerifyClientCert"),
        (f"{TLS}  curve_preferences: [X25519, CurveP256]\n", 4, "one curve only"),
        (f"{TLS}  max_version: TLS11\n", 4, "OpenSSL refuses TLS11"),
        (f'basic_auth_users:\n  "\\ud800": {HASH}\n', 2, "half of a surrogate pair"),
        ("basic_auth_users:\n  a: secret\n", 2, "uwsgi-headroom hash-password"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "web.yml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_web_config(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert words in str(error.value)
    assert "secret" not in str(error.value)


def test_what_a_file_means(tmp_path: Path) -> None:
    """Paths are relative to the file; Go's names become OpenSSL's; a header of two lines becomes one."""
    path = tmp_path / "web.yml"
    path.write_text(
        f"{TLS}  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]\n"
        "  curve_preferences: [CurveP384]\n  min_version: TLS10\n"
        "http_server_config:\n  headers:\n    Content-Security-Policy: |\n      a;\n      b\n"
        f"basic_auth_users: {{Zoë: {HASH}}}\nrate_limit: {{interval: 1m30s, burst: 7}}\n"
    )
    config = load_web_config(path)
    assert (config.tls.cert, config.tls.key) == (tmp_path / "server.pem", tmp_path / "server.key")
    assert config.tls.ciphers == ("ECDHE-RSA-AES128-GCM-SHA256",)
    assert (config.tls.curve, config.tls.least_version) == ("secp384r1", "TLS12")
    assert config.headers == ((b"content-security-policy", b"a; b"),)
    assert config.users == {"Zoë".encode(): HASH.encode()}
    assert (config.rate_limit.interval, config.rate_limit.burst) == (90.0, 7)
    assert HASH not in repr(config)
