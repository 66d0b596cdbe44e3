"""Parses `tls_server_config` of the web configuration file; reads none of the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml

from uwsgi_headroom.config.yaml_nodes import YamlNodes
from uwsgi_headroom.web.security import go_names
from uwsgi_headroom.web.security.model import ClientAuth, TlsConfig

_KEYS = (
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_auth_type",
    "client_ca_file",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
    "curve_preferences",
)

_ENABLING = ("cert", "key", "client_ca", "cert_file", "key_file", "client_auth_type", "client_ca_file")
"""The keys of which one turns TLS on; with the others alone, the toolkit serves plain HTTP."""

_CLIENT_AUTH: dict[str, ClientAuth] = {
    "": "none",
    "NoClientCert": "none",
    "RequestClientCert": "none",  # a certificate that nobody verifies changes nothing, so none is asked for
    "VerifyClientCertIfGiven": "if_given",
    "RequireAndVerifyClientCert": "required",
}

_UNVERIFIED = ("RequireAnyClientCert", "RequireClientCert")


class TlsSection(YamlNodes):
    """Walks the nodes of the section. directory: that of the file, to which paths are relative."""

    def __init__(self, path: str, directory: Path) -> None:
        super().__init__(path)
        self._directory = directory

    def parse(self, node: yaml.Node | None) -> TlsConfig | None:
        """Return the section, None if it turns TLS off. Raises ConfigError."""
        keys = self._mapping(node, _KEYS)
        least = self._version(keys.get("min_version"), "TLS12")
        most = self._version(keys.get("max_version"), "TLS13")
        ciphers = self._ciphers(keys.get("cipher_suites"))
        curve = self._curve(keys.get("curve_preferences"))
        server_chooses = self._flag(keys.get("prefer_server_cipher_suites"), default=True)
        sans = self._sans(keys.get("client_allowed_sans"))
        given = {name: text for name in _ENABLING if name in keys and (text := self._string(keys[name]))}
        if node is None or not keys:
            return None
        if not given:
            self._fail(node, "TLS needs cert_file and key_file (or cert and key); without both, nothing is encrypted")
        for name in ("cert", "key"):
            if name not in given and f"{name}_file" not in given:
                self._fail(node, f"one of {name} and {name}_file is missing")
        client_auth = self._client_auth(keys, given)
        if sans is not None and client_auth == "none":
            self._fail(
                keys["client_allowed_sans"],
                "client_allowed_sans protects nothing unless certificates are verified: write "
                "client_auth_type: RequireAndVerifyClientCert",
            )
        if most == "TLS12" and (least == "TLS13" or ciphers == ()):
            self._fail(node, "no version of TLS is left between min_version, max_version and cipher_suites")
        return TlsConfig(
            cert=self._file_or_text(given, "cert"),
            key=self._file_or_text(given, "key"),
            client_ca=self._file_or_text(given, "client_ca") or None,
            client_auth=client_auth,
            allowed_sans=sans,
            least_version=least,
            most_version=most,
            ciphers=ciphers,
            server_chooses_cipher=server_chooses,
            curve=curve,
            where=self._where(node),
        )

    def _file_or_text(self, given: dict[str, str], name: str) -> Path | str:
        """The path of a file, which counts if both are given, as in the toolkit; or the text."""
        file = given.get(f"{name}_file")
        return self._directory / file if file else given.get(name, "")

    def _client_auth(self, keys: dict[str, yaml.Node], given: dict[str, str]) -> ClientAuth:
        text = given.get("client_auth_type", "")
        if text in _UNVERIFIED:
            self._fail(
                keys["client_auth_type"],
                f"{text} would accept any certificate that a client makes for itself, and Python's TLS cannot do that; "
                "write RequireAndVerifyClientCert, with client_ca_file",
            )
        if text not in _CLIENT_AUTH:
            known = ", ".join(name for name in _CLIENT_AUTH if name)
            self._fail(keys["client_auth_type"], f"{text!r} is not one of {known}")
        has_ca = "client_ca" in given or "client_ca_file" in given
        if has_ca and text in ("", "NoClientCert"):
            self._fail(
                keys.get("client_ca_file") or keys["client_ca"],
                "a client CA needs client_auth_type: RequireAndVerifyClientCert; without it, nothing is verified",
            )
        return _CLIENT_AUTH[text]

    def _sans(self, node: yaml.Node | None) -> frozenset[str] | None:
        if node is None or self._is_null(node):
            return None
        return frozenset(self._string(each) for each in self._list(node))

    def _version(self, node: yaml.Node | None, default: Literal["TLS12", "TLS13"]) -> Literal["TLS12", "TLS13"]:
        if node is None or self._is_null(node):
            return default
        text = self._string(node)
        if text not in go_names.LEAST_VERSIONS:
            self._fail(node, f"{text!r} is not one of {', '.join(go_names.LEAST_VERSIONS)}")
        if default == "TLS13" and text in ("TLS10", "TLS11"):
            self._fail(node, f"OpenSSL refuses {text}, which is broken: write TLS12 or TLS13")
        return go_names.LEAST_VERSIONS[text]

    def _ciphers(self, node: yaml.Node | None) -> tuple[str, ...] | None:
        names = self._list(node)
        for name in names:
            if self._string(name) not in go_names.CIPHERS:
                self._fail(name, f"{self._string(name)!r} is not one of {', '.join(go_names.CIPHERS)}")
        ciphers = (go_names.CIPHERS[self._string(name)] for name in names)
        return tuple(dict.fromkeys(filter(None, ciphers))) if names else None

    def _curve(self, node: yaml.Node | None) -> str:
        names = self._list(node)
        for name in names:
            if self._string(name) not in go_names.CURVES:
                self._fail(name, f"{self._string(name)!r} is not one of {', '.join(go_names.CURVES)}")
        if len(names) > 1:
            self._fail(
                names[1],
                "Python's TLS can be limited to one curve only: name one, or leave curve_preferences out for OpenSSL's",
            )
        return go_names.CURVES[self._string(names[0])] if names else ""
