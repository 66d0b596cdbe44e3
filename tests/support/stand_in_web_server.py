"""A web server that answers as a test says: like a Prometheus, like what was taken for one, or a webhook's receiver."""

import contextlib
import json
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs

from msgspec import Struct, field

JSON = {"Content-Type": "application/json"}


class Request(Struct, frozen=True):
    """A request. headers: by name in small letters."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> Mapping[str, str]:
        """The first value of each field."""
        return {name: found[0] for name, found in parse_qs(self.body.decode()).items()}


class Reply(Struct, frozen=True):
    """An answer. length: of the body according to the header; longer than the body, the connection ends early."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    length: int | None = None


class StandIn(Struct):
    """A running stand-in. requests: those so far."""

    port: int
    scheme: str
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


def values(*series: tuple[Mapping[str, str], Sequence[tuple[float, float]]], **more: object) -> Reply:
    """The answer to a query of a range."""
    result = [{"metric": labels, "values": [(at, str(value)) for at, value in pairs]} for labels, pairs in series]
    data = {"resultType": "matrix", "result": result}
    return Reply(json.dumps({"status": "success", "data": data, **more}).encode())


def failure(status: int, error: str, kind: str = "execution") -> Reply:
    """An answer with an error, as Prometheus writes it."""
    return Reply(json.dumps({"status": "error", "errorType": kind, "error": error}).encode(), status)


@contextlib.contextmanager
def stand_in(answer: Callable[[Request], Reply], certificate: Path | None = None) -> Iterator[StandIn]:
    """Answers requests on a port of 127.0.0.1 until the block ends; with a certificate, over TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            running.requests.append(request)
            reply = answer(request)
            with contextlib.suppress(OSError):  # the client has gone
                # `send_response` adds the present date.
                (self.send_response_only if "Date" in reply.headers else self.send_response)(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
                self.end_headers()
                self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client that does not trust the certificate

    with Server(("127.0.0.1", 0), Handler) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        running = StandIn(server.server_address[1], "https" if certificate else "http")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
