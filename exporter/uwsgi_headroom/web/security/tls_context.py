"""Makes the server's TLS context from the configuration.

Every file is read once, and given to OpenSSL through an anonymous file in memory, because Python's ssl takes
certificates from files only: so inline certificates never reach a disk, and what was checked is what is loaded.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web.security.model import TlsConfig
from uwsgi_headroom.web.security.read_file import read_file

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "if_given": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

_PROBLEMS = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "KEY_TYPE_MISMATCH": "the key does not belong to the certificate",
    "EE_KEY_TOO_SMALL": "the key is too short: OpenSSL wants 2,048 bits for RSA",
    "CA_KEY_TOO_SMALL": "the key of an authority in the chain is too short",
    "CA_MD_TOO_WEAK": "the signature of the certificate is too weak (SHA-1 or MD5)",
}


def make_context(tls: TlsConfig) -> ssl.SSLContext:
    """Make the context. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS["TLS13" if tls.ciphers == () else tls.least_version]
    context.maximum_version = _VERSIONS[tls.most_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if not tls.server_chooses_cipher:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    try:
        if tls.ciphers:
            context.set_ciphers(":".join(tls.ciphers))
        if tls.curve:
            context.set_ecdh_curve(tls.curve)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{tls.where}: this machine's OpenSSL has none of these cipher suites or curves") from None
    _load_certificate(context, tls)
    context.verify_mode = _VERIFY[tls.client_auth]
    if tls.client_auth != "none":
        _load_client_ca(context, tls)
    return context


def _load_certificate(context: ssl.SSLContext, tls: TlsConfig) -> None:
    with _in_memory(_content(tls.cert, tls.where)) as cert, _in_memory(_content(tls.key, tls.where)) as key:
        try:
            context.load_cert_chain(cert, key, password=_refuse_to_ask)
        except ssl.SSLError as error:
            problem = _PROBLEMS.get(error.reason or "", "not a certificate and its key in PEM format")
            raise ConfigError(f"{_names(tls.cert, tls.key, tls.where)}: {problem}") from None
        except _EncryptedError:
            raise ConfigError(
                f"{_names(tls.key, '', tls.where)}: the key is encrypted; store it without a passphrase"
            ) from None


def _load_client_ca(context: ssl.SSLContext, tls: TlsConfig) -> None:
    if tls.client_ca is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)  # as the toolkit does
        return
    try:
        context.load_verify_locations(cadata=_content(tls.client_ca, tls.where).decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{_names(tls.client_ca, '', tls.where)}: no certificates in PEM format") from None


class _EncryptedError(Exception):
    """A passphrase is needed. Without this, OpenSSL asks for one on the terminal."""


def _refuse_to_ask() -> str:
    raise _EncryptedError


def _content(part: Path | str, where: str) -> bytes:
    return read_file(part, where) if isinstance(part, Path) else part.encode()


def _names(first: Path | str, second: Path | str, where: str) -> str:
    """The line, and the files that it names."""
    files = [str(part) for part in (first, second) if isinstance(part, Path)]
    return f"{where}: {' and '.join(files)}" if files else where


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """The path of an anonymous file with this content, until the block ends."""
    descriptor = os.memfd_create("web-config", os.MFD_CLOEXEC)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(content)
        yield f"/proc/self/fd/{descriptor}"
