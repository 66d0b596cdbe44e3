"""Runs an ASGI application behind a web configuration, on a free loopback port, in a thread."""

import base64
import contextlib
import datetime
import http.client
import json
import ssl
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.support.web_server import LimitedServer, limited_server
from uwsgi_headroom.web.connection_slots import ConnectionSlots
from uwsgi_headroom.web.security.gate import protect
from uwsgi_headroom.web.security.live_config import LiveConfig

TLS = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
MUTUAL = f"{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
PASSWORD = "correct horse"
HASH = "$2b$04$8ANKGgtO2iIBF4euQhgJa.3cK9tXazbk4ehSBlpEmhUWxMXtwST1u"
USERS = f"basic_auth_users:\n  prometheus: {HASH}\n"


class SecureServer(Struct, frozen=True):
    """A running server. directory: of its configuration, `web.yml`, and of the certificates."""

    port: int
    directory: Path
    live: LiveConfig
    server: LimitedServer
    slots: ConnectionSlots

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def get(self, path: str = "/", login: str = "", client: str = "", tls: bool = True) -> tuple[int, str]:
        """Make a request; returns status and body. login: `name:password`; client: the name of a certificate."""
        connection = self.connect(client) if tls else http.client.HTTPConnection(*self.address, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=basic(login) if login else {})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def ask(self, **headers: str | bytes) -> tuple[int, http.client.HTTPMessage]:
        """Make a request over TLS with these headers; returns status and headers."""
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", "/", headers=headers)
            response = connection.getresponse()
            return response.status, response.headers

    def connect(self, client: str = "") -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(*self.address, timeout=60, context=self.trust(client))

    def trust(self, client: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        if client:
            context.load_cert_chain(self.directory / f"{client}.pem", self.directory / f"{client}.key")
        return context

    def serial(self) -> str:
        with contextlib.closing(self.connect()) as client:
            client.connect()
            return str(client.sock.getpeercert()["serialNumber"])


def basic(login: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


async def _answer(request: Request) -> Response:
    return PlainTextResponse("ok" * int(request.query_params.get("size", "1")))


APP = Starlette(routes=[Route("/{path:path}", _answer)])


@contextlib.contextmanager
def secure_server(directory: Path, config: str, connections: int = 16, app: ASGIApp = APP) -> Iterator[SecureServer]:
    """Serve with this web configuration until the block ends. `directory` gets certificates."""
    write_certificates(directory)
    (directory / "web.yml").write_text(config)
    live = LiveConfig(directory / "web.yml")
    application, make_tls = protect(app, live)
    with limited_server(application, connections, make_tls) as server:
        yield SecureServer(server.port, directory, live, server, server.http.slots)


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
