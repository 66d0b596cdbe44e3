"""Parses the web configuration file, in the format of the Prometheus exporter toolkit, and reports mistakes by line.

tls_server_config:
  cert_file: server.pem           # relative to this file; or `cert`, the PEM text itself
  key_file: server.key            # or `key`
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem          # or `client_ca`
  client_allowed_sans: [prometheus.example.com]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: true
  curve_preferences: [X25519]
http_server_config:
  http2: true                     # accepted; HTTP/1.1 is served
  headers: {X-Frame-Options: deny}
basic_auth_users:
  prometheus: $2b$12$...          # from `uwsgi-headroom hash-password`
rate_limit: {interval: 1s, burst: 20}
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from uwsgi_headroom.config.defaults import PASSWORD_COST_RANGE
from uwsgi_headroom.config.yaml_nodes import YamlNodes, compose, read_file
from uwsgi_headroom.web.security import go_names
from uwsgi_headroom.web.security.model import RateLimit, WebConfig
from uwsgi_headroom.web.security.tls_section import TlsSection

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
    return _WebConfigFile(path).config(root) if root else WebConfig()


class _WebConfigFile(YamlNodes):
    """Walks the YAML nodes of one file."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._directory = path.parent

    def config(self, root: yaml.Node) -> WebConfig:
        top = self._mapping(root, ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"))
        http = self._mapping(top.get("http_server_config"), ("http2", "headers"))
        self._flag(http.get("http2"), default=True)
        return WebConfig(
            tls=TlsSection(self._path, self._directory).parse(top.get("tls_server_config")),
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
        keys = self._mapping(node, ("interval", "burst"))
        interval, burst = keys.get("interval"), keys.get("burst")
        seconds = 0.0
        if interval is not None and not self._is_null(interval):
            try:
                seconds = go_names.parse_duration(self._string(interval))
            except ValueError:
                self._fail(interval, "expected a duration with its unit, such as 1s or 200ms")
        count = 0
        if burst is not None and not self._is_null(burst):
            text = self._string(burst)
            if not (text.isascii() and text.isdigit()) or burst.tag != "tag:yaml.org,2002:int":
                self._fail(burst, "expected a number of requests")
            count = min(int(text[:9]), _LARGEST_BURST)
        if not seconds:
            return None
        if not count:
            self._fail(node or burst, "a limit needs `burst`, of 1 at least: without it no request would be answered")  # type: ignore[arg-type]
        return RateLimit(seconds, count)
