"""The web configuration file: what it means, and what a change of it does."""

import datetime
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from tests.web.security.secure_server import (
    CLIENT_NAME,
    HASH,
    MUTUAL,
    TLS,
    USERS,
    authority,
    read_files,
    write_certificates,
    write_pair,
    write_with_certificates,
)
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web.security import live_config
from uwsgi_headroom.web.security.live_config import Active, LiveConfig, describe_dates
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
def directory(tmp_path_factory):
    made = tmp_path_factory.mktemp("certificates")
    write_certificates(made)
    return made


def opened(name: str, directory: Path) -> Active | ConfigError:
    try:
        return LiveConfig(write_with_certificates(name, read_files()[name], directory)).active
    except ConfigError as error:
        return error


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_accepted_as_by_the_toolkit(name, directory):
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


def test_each_file_is_recorded(tmp_path):
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
        (f"{TLS}  max_version: TLS11\n", 4, "OpenSSL refuses it"),
        (f'basic_auth_users:\n  "\\ud800": {HASH}\n', 2, "half of a surrogate pair"),
        ("basic_auth_users:\n  a: secret\n", 2, "uwsgi-headroom hash-password"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path, text, line, words):
    path = tmp_path / "web.yml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_web_config(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert words in str(error.value)
    assert "secret" not in str(error.value)


def test_what_a_file_means(tmp_path):
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


NAMES = f"  client_allowed_sans: [{CLIENT_NAME}]\n"
WHOLE = f"{MUTUAL}{NAMES}  min_version: TLS13\n{USERS}rate_limit: {{interval: 1s, burst: 5}}\n"


@pytest.fixture
def live(tmp_path):
    write_certificates(tmp_path)
    (tmp_path / "web.yml").write_text(WHOLE)
    return LiveConfig(tmp_path / "web.yml")


def look(live: LiveConfig) -> None:
    """Two looks, after which a change counts."""
    live.look()
    live.look()


def test_a_renewed_certificate_is_taken_over(live, monkeypatch, tmp_path):
    """Nothing is read again without a change."""
    before = live.active.context
    write_pair(tmp_path, "server", authority().issue_cert("127.0.0.1"))
    live.look()
    assert live.active.context is before
    live.look()
    assert live.active.context is not before
    monkeypatch.setattr(live_config, "load_web_config", None)
    active = live.active
    look(live)
    assert live.active is active


def test_a_half_renewed_certificate_is_not(live, tmp_path, caplog):
    """A certificate without its key is logged once and changes nothing; the key makes it good."""
    before = live.active.context
    renewed = authority().issue_cert("127.0.0.1")
    key = (tmp_path / "server.key").read_bytes()
    write_pair(tmp_path, "server", renewed)
    new_key = (tmp_path / "server.key").read_bytes()
    (tmp_path / "server.key").write_bytes(key)
    for _ in range(4):
        live.look()
    assert live.active.context is before
    assert [record.fields["error"] for record in caplog.records] == [
        f"{tmp_path}/web.yml:2: {tmp_path}/server.pem and {tmp_path}/server.key: "
        "the key does not belong to the certificate"
    ]
    (tmp_path / "server.key").write_bytes(new_key)
    look(live)
    assert live.active.context is not before


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "not YAML": (lambda path: path.write_text("tls_server_config: ["), "not valid YAML"),
    "empty": (lambda path: path.write_text(""), "basic_auth_users and rate_limit and tls_server_config"),
    "deleted": (lambda path: path.unlink(), "No such file"),
    "a directory": (_directory, "not an ordinary file"),
    "a loop of links": (lambda path: (path.unlink(), path.symlink_to(path)), "symbolic links"),
    "no users": (lambda path: path.write_text(WHOLE.replace(USERS, "")), "without basic_auth_users"),
    "no client certificate": (lambda path: path.write_text(f"{TLS}  min_version: TLS13\n{USERS}"), "client_auth_type"),
    "no TLS": (lambda path: path.write_text(USERS), "tls_server_config"),
    "any version": (lambda path: path.write_text(WHOLE.replace("  min_version: TLS13\n", "")), "min_version"),
    "any name": (lambda path: path.write_text(WHOLE.replace(NAMES, "")), "sans"),
    "another key": (lambda path: path.write_text(f"{WHOLE}x: 1\n"), "unknown key 'x'"),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_the_last_good_configuration_stays(live, tmp_path, caplog, kind):
    """A file that is broken, gone or weaker than before changes nothing and is logged once; then a good one counts."""
    active = live.active
    change, words = BREAKS[kind]
    change(tmp_path / "web.yml")
    for _ in range(4):
        live.look()
    assert live.active is active
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert words in record.fields["error"]
    (tmp_path / "good.yml").write_text(WHOLE.replace("prometheus:", "other:"))
    if (tmp_path / "web.yml").is_dir():
        (tmp_path / "web.yml").rmdir()
    (tmp_path / "good.yml").replace(tmp_path / "web.yml")
    look(live)
    assert live.config.users == {b"other": HASH.encode()}


def test_an_error_of_ours_does_not_end_the_thread(live, monkeypatch):
    """Whatever happens at a look, the next one follows, and the configuration stays."""
    active = live.active

    def fail(_path):
        raise MemoryError

    monkeypatch.setattr(live_config, "load_web_config", fail)
    (live._path.parent / "server.pem").touch()
    look(live)
    assert live.active is active


def test_tls_does_not_begin_while_running(tmp_path, caplog):
    """The listeners keep their scheme until a restart."""
    write_certificates(tmp_path)
    (tmp_path / "web.yml").write_text(USERS)
    live = LiveConfig(tmp_path / "web.yml")
    (tmp_path / "web.yml").write_text(f"{TLS}{USERS}")
    look(live)
    assert live.active.context is None
    assert "restart" in caplog.records[0].fields["error"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_an_expired_certificate_is_logged(tmp_path, caplog, monkeypatch):
    write_certificates(tmp_path)
    write_pair(tmp_path, "server", issue(-2, -1))
    (tmp_path / "web.yml").write_text(TLS)
    live = LiveConfig(tmp_path / "web.yml")
    look(live)
    (first,) = warnings(caplog)
    assert first.startswith("the certificate has expired on ")
    monkeypatch.setattr(live_config, "WARN_AGAIN_SECONDS", 0.0)
    live.look()
    assert warnings(caplog) == [first] * 2
    monkeypatch.undo()
    write_pair(tmp_path, "server", issue(-1, 10))
    look(live)
    assert warnings(caplog)[2:] == []
    write_pair(tmp_path, "server", issue(-80, 10))
    look(live)
    (third,) = warnings(caplog)[2:]
    assert third.startswith("the certificate expires on ")


def issue(begins: float, ends: float) -> trustme.LeafCert:
    """A certificate that is valid from so many days from now until so many days from now."""
    now = datetime.datetime.now(datetime.timezone.utc)
    begin, end = (now + datetime.timedelta(days=days) for days in (begins, ends))
    return authority().issue_cert("127.0.0.1", not_before=begin, not_after=end)


@pytest.mark.parametrize(
    ("begins", "ends", "said"),
    [
        (-80, 30, None),
        (-80, 15, None),
        (-80, 13, "expires on"),
        (-3, 3, None),
        (-5, 1, "expires on"),
        (-80, -0.01, "has expired on"),
        (1, 90, "is not valid before"),
        (-10, 365 * 90, None),  # a date after 2049 has another form
    ],
)
def test_dates(begins, ends, said):
    """They are those of the certificate in the file whose time ends first, which is the server's own here."""
    text = b"".join(blob.bytes() for blob in issue(begins, ends).cert_chain_pems).decode()
    problem = describe_dates(text)
    assert problem is None if said is None else problem and said in problem


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"])
def test_dates_that_cannot_be_read(text):
    assert describe_dates(text) is None
