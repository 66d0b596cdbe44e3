"""An HTTP server on loopback that keeps every notification of Alertmanager in tests."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Notification:
    """One POST: its path and its JSON."""

    path: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Receiver:
    """A receiver. notifications: those received, in order."""

    port: int
    notifications: list[Notification] = field(default_factory=list)

    def url(self, path: str = "/") -> str:
        """The address for a webhook, or for other receivers that post JSON, such as Slack."""
        return f"http://127.0.0.1:{self.port}{path}"

    def alerts(self, name: str, status: str, path: str = "/") -> list[dict[str, Any]]:
        """Alerts of this name in webhooks to `path`; status: firing or resolved."""
        received = [
            alert
            for notification in self.notifications
            if notification.path == path
            for alert in notification.body["alerts"]
        ]
        return [alert for alert in received if (alert["labels"]["alertname"], alert["status"]) == (name, status)]


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """Receives notifications until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            running.notifications.append(Notification(self.path, body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")  # Slack's answer; newer Alertmanagers resend after any other

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running = Receiver(server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
