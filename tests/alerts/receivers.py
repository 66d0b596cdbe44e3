"""What notifications arrive at: an HTTP server that stands for Slack, PagerDuty and a webhook, and an SMTP server."""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tests.real import wait_until

PASSWORD = "the password of the file"


@dataclass
class Inbox:
    """What has arrived. posts: URL path and JSON; mails: as parsed. http, smtp: ports on 127.0.0.1."""

    http: int = 0
    smtp: int = 0
    posts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)

    def at(self, path: str, word: str) -> list[dict[str, Any]]:
        """What came to this path and has the word somewhere in it."""
        return [body for to, body in self.posts if to == path and word in json.dumps(body, ensure_ascii=False)]

    def about(self, word: str) -> list[EmailMessage]:
        """Mails with the word in their subject or text."""
        return [mail for mail in self.mails if word in f"{mail['Subject']} {part(mail, 'plain')}"]

    def wait(self, found: Callable[[], list[Any]], count: int = 1, what: str = "a notification") -> list[Any]:
        """What `found` finds once that is so many."""
        wait_until(lambda: len(found()) >= count, what=what)
        return found()


def part(mail: EmailMessage, kind: str) -> str:
    """The plain or html part of a mail."""
    body = mail.get_body((kind,))
    assert body is not None, f"no {kind} part"
    return cast(str, body.get_content())


@contextlib.contextmanager
def receiving() -> Iterator[Inbox]:
    """Receive until the block ends."""
    inbox = Inbox()

    class Http(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            inbox.posts.append((self.path, json.loads(body)))
            self.send_response(202 if self.path == "/pagerduty" else 200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(b"ok")  # Slack's word, without which newer Alertmanagers send it again

        def log_message(self, *_: object) -> None:
            pass

    class Smtp(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 ready")
            for line in iter(self.rfile.readline, b""):
                match line.split()[0].upper():
                    case b"EHLO":
                        self._say("250-hello\r\n250 AUTH PLAIN")
                    case b"AUTH":
                        given = base64.b64decode(line.split()[2]).decode().split("\0")[2]
                        self._say("235 welcome" if given == PASSWORD else "535 who?")
                    case b"DATA":
                        self._say("354 go on")
                        text = b"".join(iter(self.rfile.readline, b".\r\n")).replace(b"\r\n..", b"\r\n.")
                        mail = email.message_from_bytes(text, policy=email.policy.default)
                        inbox.mails.append(cast(EmailMessage, mail))
                        self._say("250 taken")
                    case b"QUIT":
                        self._say("221 bye")
                        return
                    case _:
                        self._say("250 fine")

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Http), socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp)]
    inbox.http, inbox.smtp = (server.server_address[1] for server in servers)
    for server in servers:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    try:
        yield inbox
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
