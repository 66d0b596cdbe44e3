"""Parses the web configuration file, in the format of the Prometheus exporter toolkit, and reports mistakes by line.

docs/security.md lists the keys. Names of TLS versions, suites and curves, and durations, are those of Go, as the
toolkit writes them. The files that the configuration names are not read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import yaml
from msgspec import Struct

from uwsgi_headroom.config.defaults import PASSWORD_COST_RANGE
from uwsgi_headroom.config.yaml_file import YamlNodes, compose, read_file

_V = TypeVar("_V")

ClientAuth = Literal["none", "if_given", "required"]
"""Whether a client certificate is verified: never, if the client has one, or always; then a client without is refused.
"""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The key `tls_server_config`. cert, key, client_ca: a file, or PEM text.

    ciphers: OpenSSL's names for TLS 1.2, empty for OpenSSL's default. curve: OpenSSL's name, or "" for its default.
    allowed_sans: None if every name in a verified client certificate will do. where: the line, for messages.
    """

    cert: Path | str
    key: Path | str = field(repr=False)
    client_ca: Path | str | None = None
    client_auth: ClientAuth = "none"
    allowed_sans: frozenset[str] | None = None
    least_version: Literal["TLS12", "TLS13"] = "TLS12"
    most_version: Literal["TLS12", "TLS13"] = "TLS13"
    ciphers: tuple[str, ...] = ()
    server_chooses_cipher: bool = True
    curve: str = ""
    where: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(part for part in (self.cert, self.key, self.client_ca) if isinstance(part, Path))


class RateLimit(Struct, frozen=True):
    """The key `rate_limit`. interval: seconds between two requests in the long run; burst: requests at once."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The whole file. headers: added to each response. users: the bcrypt hash of each password, by user name."""

    tls: TlsConfig | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    users: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    rate_limit: RateLimit | None = None

    @property
    def needs_identity(self) -> bool:
        return bool(self.users) or (self.tls is not None and self.tls.client_auth == "required")


CIPHERS = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
"""What Go's crypto/tls.CipherSuites returns. Suites of TLS 1.3, which neither Go nor Python can choose, have no name
of OpenSSL's here."""

CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}

MOST_VERSIONS: dict[str, Literal["TLS12", "TLS13"]] = {"TLS12": "TLS12", "TLS13": "TLS13"}

LEAST_VERSIONS: dict[str, Literal["TLS12", "TLS13"]] = {"TLS10": "TLS12", "TLS11": "TLS12", **MOST_VERSIONS}
"""The lowest version that is really accepted: OpenSSL's security level refuses the versions before TLS 1.2."""

_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Parse a duration of Go, such as `1s`, `250ms` or `1m30s`, or `0`, to seconds. Raises ValueError."""
    if text == "0":
        return 0.0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text or len(text) > 40:
        raise ValueError(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


_ENABLING = ("cert", "key", "client_ca", "cert_file", "key_file", "client_auth_type", "client_ca_file")
"""The keys of which one turns TLS on; with the others alone, the toolkit serves plain HTTP."""

_OTHERS = ("client_allowed_sans", "min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites")
_KEYS = (*_ENABLING, *_OTHERS, "curve_preferences")

_CLIENT_AUTH: dict[str, ClientAuth] = {
    "": "none",
    "NoClientCert": "none",
    "RequestClientCert": "none",  # a certificate that nobody verifies changes nothing, so none is asked for
    "VerifyClientCertIfGiven": "if_given",
    "RequireAndVerifyClientCert": "required",
}

_UNVERIFIED = (
    "would accept any certificate that a client makes for itself, and Python's TLS cannot do that; write "
    "RequireAndVerifyClientCert, with client_ca_file"
)
_BROKEN = "is broken, and OpenSSL refuses it: write TLS12 or TLS13"
_REFUSED = {"RequireAnyClientCert": _UNVERIFIED, "RequireClientCert": _UNVERIFIED, "TLS10": _BROKEN, "TLS11": _BROKEN}
"""Why a value that the toolkit accepts is refused."""

_MOST_COST = PASSWORD_COST_RANGE[1]

_HASH = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)

_HEADERS: dict[str, tuple[str, ...]] = {
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
    "Content-Security-Policy": (),
}
"""The headers that the toolkit allows, with their values if they are listed."""

_LARGEST_BURST = 1_000_000


def load_web_config(path: Path) -> WebConfig:
    """Read a web configuration file, but not the files that it names. Raises ConfigError."""
    root = compose(read_file(path), path)
    return _WebConfigFile(str(path), str(path.parent)).config(root) if root else WebConfig()


class _WebConfigFile(YamlNodes):
    def config(self, root: yaml.Node) -> WebConfig:
        top = self._mapping(root, ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"))
        http = self._mapping(top.get("http_server_config"), ("http2", "headers"))
        self._flag(http.get("http2"), default=True)
        return WebConfig(
            tls=self._tls(top.get("tls_server_config")),
            headers=self._headers(http.get("headers")),
            users=self._users(top.get("basic_auth_users")),
            rate_limit=self._rate_limit(top.get("rate_limit")),
        )

    def _headers(self, node: yaml.Node | None) -> tuple[tuple[bytes, bytes], ...]:
        headers = []
        for name, value in self._mapping(node, tuple(_HEADERS)).items():
            text = " ".join(self._string(value).split("\n")).strip()
            allowed = _HEADERS[name]
            if allowed and text not in allowed:
                self._fail(value, f"{name} must be {' or '.join(allowed)}")
            if not text.isprintable():
                self._fail(value, f"{name} has characters that a header cannot carry")
            headers += [(name.lower().encode(), text.encode())] if text else []
        return tuple(headers)

    def _users(self, node: yaml.Node | None) -> dict[bytes, bytes]:
        users: dict[bytes, bytes] = {}
        for key, value in self._pairs(node, "expected a user name and a bcrypt hash in each line"):
            name = self._string(key).encode()
            if name in users:
                self._fail(key, "duplicate user name")
            users[name] = self._hash(value)
        return users

    def _hash(self, node: yaml.Node) -> bytes:
        """A bcrypt hash. Messages never quote it: it could be a password."""
        text = self._string(node)
        match = _HASH.fullmatch(text)
        if not match or not 4 <= int(match[1]) <= 31:
            self._fail(node, "this is not a bcrypt hash: write what `uwsgi-headroom hash-password` prints")
        if int(match[1]) > _MOST_COST:
            self._fail(node, f"a bcrypt cost above {_MOST_COST} takes minutes to hours for each login")
        return text.encode()

    def _rate_limit(self, node: yaml.Node | None) -> RateLimit | None:
        keys = self._present(node, ("interval", "burst"))
        seconds, count = 0.0, 0
        if interval := keys.get("interval"):
            try:
                seconds = parse_duration(self._string(interval))
            except ValueError:
                self._fail(interval, "expected a duration with its unit, such as 1s or 200ms")
        if burst := keys.get("burst"):
            text = self._string(burst)
            if not (text.isascii() and text.isdigit()) or burst.tag != "tag:yaml.org,2002:int":
                self._fail(burst, "expected a number of requests")
            count = min(int(text[:9]), _LARGEST_BURST)
        if not seconds:
            return None
        if node and not count:
            self._fail(node, "a limit needs `burst`, of 1 at least: without it no request would be answered")
        return RateLimit(seconds, count)

    def _tls(self, node: yaml.Node | None) -> TlsConfig | None:
        """The section, None if it turns TLS off."""
        if node is None or not self._mapping(node, _KEYS):
            return None
        keys = self._present(node, _KEYS)
        least = self._pick(keys.get("min_version"), LEAST_VERSIONS, "TLS12")
        most = self._pick(keys.get("max_version"), MOST_VERSIONS, "TLS13")
        suites = self._pick_each(keys.get("cipher_suites"), CIPHERS)
        ciphers = tuple(dict.fromkeys(filter(None, suites)))
        if suites and not ciphers:
            least = "TLS13"
        curves = self._pick_each(keys.get("curve_preferences"), CURVES)
        if len(curves) > 1:
            self._fail(
                keys["curve_preferences"],
                "Python's TLS can be limited to one curve only: name one, or leave curve_preferences out for OpenSSL's",
            )
        given = {name: text for name in _ENABLING if name in keys and (text := self._string(keys[name]))}
        if not given:
            self._fail(node, "TLS needs cert_file and key_file (or cert and key); without both, nothing is encrypted")
        for name in ("cert", "key"):
            if name not in given and f"{name}_file" not in given:
                self._fail(node, f"one of {name} and {name}_file is missing")
        client_auth = self._client_auth(keys, given)
        sans = keys.get("client_allowed_sans")
        if sans and client_auth == "none":
            self._fail(
                sans,
                "client_allowed_sans protects nothing unless certificates are verified: write "
                "client_auth_type: RequireAndVerifyClientCert",
            )
        if most < least:
            self._fail(node, "no version of TLS is left between min_version, max_version and cipher_suites")
        return TlsConfig(
            cert=self._file_or_text(given, "cert"),
            key=self._file_or_text(given, "key"),
            client_ca=self._file_or_text(given, "client_ca") or None,
            client_auth=client_auth,
            allowed_sans=frozenset(map(self._string, self._list(sans))) if sans else None,
            least_version=least,
            most_version=most,
            ciphers=ciphers,
            server_chooses_cipher=self._flag(keys.get("prefer_server_cipher_suites"), default=True),
            curve="".join(curves),
            where=self._where(node),
        )

    def _file_or_text(self, given: dict[str, str], name: str) -> Path | str:
        """The path of a file, which counts if both are given, as in the toolkit; or the text."""
        file = given.get(f"{name}_file")
        return Path(self._directory, file) if file else given.get(name, "")

    def _client_auth(self, keys: dict[str, yaml.Node], given: dict[str, str]) -> ClientAuth:
        kind = self._pick(keys.get("client_auth_type"), _CLIENT_AUTH, "none")
        ca = next((keys[name] for name in ("client_ca_file", "client_ca") if name in given), None)
        if ca and given.get("client_auth_type", "NoClientCert") == "NoClientCert":
            self._fail(
                ca, "a client CA needs client_auth_type: RequireAndVerifyClientCert; without it, nothing is verified"
            )
        return kind

    def _present(self, node: yaml.Node | None, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        """The values by key, without null, which is none in Go."""
        return {name: value for name, value in self._mapping(node, known).items() if not self._is_null(value)}

    def _pick(self, node: yaml.Node | None, choices: Mapping[str, _V], default: _V) -> _V:
        if node is None:
            return default
        name = self._string(node)
        if name not in choices:
            reason = _REFUSED.get(name) or f"is not one of {', '.join(filter(None, choices))}"
            self._fail(node, f"{name!r} {reason}")
        return choices[name]

    def _pick_each(self, node: yaml.Node | None, choices: Mapping[str, str]) -> list[str]:
        return [self._pick(each, choices, "") for each in self._list(node)]
