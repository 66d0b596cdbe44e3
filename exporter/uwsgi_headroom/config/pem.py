"""Loads certificates and keys into a TLS context, from files or from PEM text.

Every file is read once, and given to OpenSSL through an anonymous file in memory, because Python's ssl takes
certificates from files only: so PEM text never reaches a disk, and a device or a FIFO is never opened by OpenSSL.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

from uwsgi_headroom.config.yaml_file import read_file
from uwsgi_headroom.errors import ConfigError

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
    """Load a certificate, with its chain, and its key. where: the line that names them. Raises ConfigError."""
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
