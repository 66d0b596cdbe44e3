"""Parses the file of `--http.config.file`: the HTTP client configuration of Prometheus, which promtool reads too.

basic_auth:
  username: prometheus             # or username_file
  password_file: password          # relative to this file; or `password`
authorization:                     # instead of basic_auth; also bearer_token or bearer_token_file
  type: Bearer
  credentials_file: token          # or `credentials`
tls_config:
  ca_file: ca.pem                  # or `ca`, the PEM text; without it, the authorities of the system are trusted
  cert_file: client.pem            # for a server that asks for a client certificate; or `cert`
  key_file: client.key             # or `key`
  server_name: headroom.example.com
  insecure_skip_verify: false
  min_version: TLS12
  max_version: TLS13
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import yaml

from uwsgi_headroom.config.yaml_file import YamlNodes, compose, read_file
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source import HttpAccess, basic, bearer

TLS_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
"""By the names that Prometheus has for them in its configuration files."""

_PROBLEMS = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "KEY_TYPE_MISMATCH": "the key does not belong to the certificate",
    "EE_KEY_TOO_SMALL": "the key is too short: OpenSSL wants 2,048 bits for RSA",
    "CA_KEY_TOO_SMALL": "the key of an authority in the chain is too short",
    "CA_MD_TOO_WEAK": "the signature of the certificate is too weak (SHA-1 or MD5)",
}


def load_certificate(context: ssl.SSLContext, cert: Path | str, key: Path | str, where: str) -> None:
    """Load a certificate, with its chain, and its key. where: the line that names them. Raises ConfigError.

    Every file is read once, and given to OpenSSL through an anonymous file in memory, because Python's ssl takes
    certificates from files only: so PEM text never reaches a disk, and a device or a FIFO is never opened by OpenSSL.
    """
    with _in_memory(_content(cert, where)) as cert_path, _in_memory(_content(key, where)) as key_path:
        try:
            context.load_cert_chain(cert_path, key_path, password=_refuse_to_ask)
        except ssl.SSLError as error:
            problem = _PROBLEMS.get(error.reason or "", "not a certificate and its key in PEM format")
            raise ConfigError(f"{_names(cert, key, where)}: {problem}") from None
        except _EncryptedError:
            problem = "the key is encrypted; store it without a passphrase"
            raise ConfigError(f"{_names(key, '', where)}: {problem}") from None


def load_authorities(context: ssl.SSLContext, authorities: Path | str, where: str) -> None:
    """Load certificates to trust. where: the line that names them. Raises ConfigError."""
    # Lists of authorities have comments with names in UTF-8, and Python takes ASCII only.
    content = _content(authorities, where).decode("ascii", "backslashreplace")
    try:
        context.load_verify_locations(cadata=content)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{_names(authorities, '', where)}: no certificates in PEM format") from None


class _EncryptedError(Exception):
    """A passphrase is needed. Without this, OpenSSL asks for one on the terminal."""


def _refuse_to_ask() -> str:
    raise _EncryptedError


def _content(part: Path | str, where: str) -> bytes:
    return read_file(part, where) if isinstance(part, Path) else part.encode()


def _names(first: Path | str, second: Path | str, where: str) -> str:
    files = [str(part) for part in (first, second) if isinstance(part, Path)]
    return f"{where}: {' and '.join(files)}" if files else where


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """The path of an anonymous file with this content, until the block ends."""
    descriptor = os.memfd_create("web-config", os.MFD_CLOEXEC)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(content)
        yield f"/proc/self/fd/{descriptor}"


_LOGINS = ("basic_auth", "authorization", "bearer_token", "bearer_token_file")
_IGNORED = ("follow_redirects", "enable_http2")
"""Accepted without effect: an exporter redirects no API request, and HTTP/1.1 does for it."""

_TLS = ("ca", "ca_file", "cert", "cert_file", "key", "key_file")


def load_http_access(path: Path) -> HttpAccess:
    """Read an HTTP client configuration, and the files that it names. Raises ConfigError, which quotes no secret."""
    root = compose(read_file(path), path)
    if root is None:
        return HttpAccess()
    return _HttpClientFile(str(path), str(path.parent)).access(root)


class _HttpClientFile(YamlNodes):
    """Walks the YAML nodes of one file."""

    def access(self, root: yaml.Node) -> HttpAccess:
        top = self._mapping(root, (*_LOGINS, "tls_config", *_IGNORED))
        logins = [name for name in _LOGINS if name in top]
        if len(logins) > 1:
            self._fail(top[logins[1]], f"give one login: {logins[0]} or {logins[1]}")
        for name in _IGNORED:
            self._flag(top.get(name), default=True)
        tls = self._mapping(
            top.get("tls_config"), (*_TLS, "server_name", "insecure_skip_verify", "min_version", "max_version")
        )
        login = "".join(self._login(name, top[name]) for name in logins)
        return HttpAccess(login, self._context(tls), self._string(tls.get("server_name")))

    def _login(self, kind: str, node: yaml.Node) -> str:
        if kind == "basic_auth":
            keys = self._mapping(node, ("username", "username_file", "password", "password_file"))
            return basic(self._secret(keys, "username", node), self._secret(keys, "password", node))
        if kind == "authorization":
            keys = self._mapping(node, ("type", "credentials", "credentials_file"))
            scheme = self._string(keys.get("type"), "Bearer").strip()
            if scheme.lower() == "basic":
                self._fail(node, "write a user name and a password as basic_auth")
            return self._header(f"{scheme} {self._secret(keys, 'credentials', node)}", node)
        return self._header(bearer(self._secret({kind: node}, "bearer_token", node)), node)

    def _secret(self, keys: dict[str, yaml.Node], name: str, node: yaml.Node) -> str:
        file = self._file(keys, name)
        if file is None:
            return self._string(keys.get(name))
        try:
            return read_file(*file).decode().strip()
        except UnicodeDecodeError:
            self._fail(node, f"{name}_file is not a text file")

    def _file(self, keys: dict[str, yaml.Node], name: str) -> tuple[Path, str] | None:
        file = keys.get(f"{name}_file")
        if file is None:
            return None
        if name in keys:
            self._fail(file, f"give one of {name} and {name}_file")
        return Path(self._directory, self._text(file)), self._where(file)

    def _header(self, value: str, node: yaml.Node) -> str:
        if not (value.isascii() and value.isprintable()):
            self._fail(node, "a header cannot carry this text: it must be one line of ASCII")
        return value

    def _context(self, tls: dict[str, yaml.Node]) -> ssl.SSLContext | None:
        if not tls:
            return None
        authorities, cert, key = (self._file_or_text(tls, name) for name in ("ca", "cert", "key"))
        if authorities is None:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            load_authorities(context, authorities[0], authorities[1])
        if (cert is None) != (key is None):
            self._fail(
                next(iter(tls.values())), "a client certificate needs both cert_file and key_file (or cert and key)"
            )
        if cert and key:
            load_certificate(context, cert[0], key[0], cert[1])
        if self._flag(tls.get("insecure_skip_verify"), default=False):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.minimum_version = self._version(tls.get("min_version"), "TLS12")
        context.maximum_version = self._version(tls.get("max_version"), "TLS13")
        if context.minimum_version > context.maximum_version:
            self._fail(tls["min_version"], "min_version is above max_version")
        return context

    def _file_or_text(self, tls: dict[str, yaml.Node], name: str) -> tuple[Path | str, str] | None:
        if name in tls and f"{name}_file" not in tls:
            return self._text_and_place(tls[name])
        return self._file(tls, name)

    def _version(self, node: yaml.Node | None, default: str) -> ssl.TLSVersion:
        text = self._string(node, default)
        if text not in TLS_VERSIONS:
            assert node is not None
            self._fail(node, f"{text!r} is not one of {', '.join(TLS_VERSIONS)}")
        return TLS_VERSIONS[text]


def load_optional(path: str | None) -> HttpAccess | None:
    """The access of an option that may be missing. Raises ConfigError."""
    try:
        return load_http_access(Path(path)) if path else None
    except ConfigError as error:
        raise ConfigError(f"--http.config.file: {error}") from None
