"""Certificates for tests, made by trustme at run time: no key is kept in the repository."""

import datetime
import json
from functools import cache
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

CLIENT_NAME = "prometheus.example.com"


@cache
def authority(name: str = "tests") -> trustme.CA:
    """A certificate authority, one of each name in a process."""
    return trustme.CA(organization_name=name)


def write_certificates(directory: Path) -> None:
    """Write what the files in files.json name: the certificates of a server, a client and their authority, and wrong
    ones."""
    ca = authority()
    ca.cert_pem.write_to_path(str(directory / "ca.pem"))
    yesterday = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    certificates = {
        "server": ca.issue_cert("127.0.0.1", "localhost"),
        "other": ca.issue_cert("127.0.0.1"),
        "expired": ca.issue_cert("127.0.0.1", not_before=yesterday - datetime.timedelta(days=1), not_after=yesterday),
        "client": ca.issue_cert(CLIENT_NAME),
        "stranger": authority("strangers").issue_cert(CLIENT_NAME),
    }
    for name, certificate in certificates.items():
        write_pair(directory, name, certificate)
    key = serialization.load_pem_private_key((directory / "server.key").read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    (directory / "encrypted.key").write_bytes(key.private_bytes(*form))
    (directory / "text.txt").write_text("this is no certificate\n")


def write_pair(directory: Path, name: str, certificate: trustme.LeafCert) -> None:
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    (directory / f"{name}.pem").write_bytes(chain)
    certificate.private_key_pem.write_to_path(str(directory / f"{name}.key"))


def read_files() -> dict[str, str]:
    """Web configuration files by name, of which the exporter toolkit's judgement is recorded."""
    files: dict[str, str] = json.loads(Path(__file__).with_name("files.json").read_text())
    return files


def write_with_certificates(name: str, text: str, directory: Path) -> Path:
    """Write a web configuration file into a directory with certificates; `@NAME@` becomes the text of that file."""
    path = directory / name
    for part in ("server.pem", "server.key", "ca.pem"):
        if f"@{part}@" in text:
            text = text.replace(f"@{part}@", json.dumps((directory / part).read_text()))
    path.write_text(text)
    return path
