"""An SMTP server on loopback that keeps every mail that Alertmanager sends in tests."""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import cast

PASSWORD = "let me in"
"""The only password that the server accepts."""


@dataclass(frozen=True)
class Mailbox:
    """A mail server. mails: the received mails, in order."""

    port: int
    mails: list[EmailMessage] = field(default_factory=list)


def part(mail: EmailMessage, kind: str) -> str:
    """The plain or html part of a mail."""
    body = mail.get_body((kind,))
    assert body is not None, f"no {kind} part"
    return cast(str, body.get_content())


@contextlib.contextmanager
def mailbox() -> Iterator[Mailbox]:
    """Receives mail until the block ends."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 ready")
            for line in iter(self.rfile.readline, b""):
                match line.split()[0].upper():
                    case b"EHLO":
                        self._say("250-hello\r\n250 AUTH PLAIN")
                    case b"AUTH":
                        given = base64.b64decode(line.split()[2]).decode().split("\0")[2]
                        self._say("235 welcome" if given == PASSWORD else "535 wrong password")
                    case b"DATA":
                        self._say("354 go on")
                        lines = self._lines_of_mail()
                        if lines is None:
                            return
                        text = b"".join(lines).replace(b"\r\n..", b"\r\n.")
                        mail = email.message_from_bytes(text, policy=email.policy.default)
                        running.mails.append(cast(EmailMessage, mail))
                        self._say("250 taken")
                    case b"QUIT":
                        self._say("221 bye")
                        return
                    case _:
                        self._say("250 fine")

        def _lines_of_mail(self) -> list[bytes] | None:
            """The lines up to the dot that ends a mail; None if the sender disconnected before it."""
            lines = []
            for line in iter(self.rfile.readline, b".\r\n"):
                if not line:
                    return None
                lines.append(line)
            return lines

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        running = Mailbox(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
