"""Runs an ASGI application behind a web configuration, on a free loopback port, in a thread."""

import base64
import contextlib
import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.support.web_server import LimitedServer, limited_server
from tests.web.security.certificates import write_certificates
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
