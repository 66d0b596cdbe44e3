"""The shipped rules and Alertmanager configuration with seconds instead of minutes, and their receivers: a mail server
and a web server on loopback that keep what Alertmanager sends."""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

import yaml

from tests.support.promtool import RULES
from tests.support.stand_in_web_server import Reply, StandIn, stand_in
from tools.environments import ROOT

FOLDER = ROOT / "alerts" / "alertmanager"
CONFIG = FOLDER / "alertmanager.yml"
SECRETS = "/etc/alertmanager/secrets"


def rules(directory: Path) -> list[Path]:
    """Writes the rule files into a directory, with seconds instead of minutes, for a Prometheus that scrapes and
    evaluates every second. Hours and days stay, and so does the time after which a server counts as not judged: the
    first judgement takes ten seconds."""
    paths = []
    for path in (RULES / "recording.yaml", RULES / "alerts.yaml"):
        alerts = re.split(r"(?=- alert: )", path.read_text())
        text = "".join(
            each if "UwsgiNotJudged" in each else re.sub(r"for: \d+m$", "for: 2s", each, flags=re.MULTILINE)
            for each in alerts
        )
        paths.append(directory / path.name)
        paths[-1].write_text(re.sub(r"\[(5|10)m\]", "[20s]", text))
    return paths


def alertmanager(received: Receiver, mails: Mailbox, secrets: Path) -> dict[str, Any]:
    """The configuration with the addresses of the receiver and the mailbox; writes their secrets into a directory."""
    (secrets / "slack-webhook-url").write_text(received.url("/slack"))
    (secrets / "smtp-password").write_text(PASSWORD)
    (secrets / "pagerduty-routing-key").write_text("the key of the file")
    text = CONFIG.read_text().replace(SECRETS, str(secrets))
    text = text.replace("http://127.0.0.1:9099/alerts", received.url("/webhook"))
    text = text.replace("mail.example.org:587", f"127.0.0.1:{mails.port}")
    configuration: dict[str, Any] = yaml.safe_load(text)
    # The test's mail server has no certificate, and the test replaces PagerDuty.
    configuration["global"] |= {"smtp_require_tls": False, "pagerduty_url": received.url("/pagerduty")}
    configuration["templates"] = [str(FOLDER / name) for name in configuration["templates"]]
    for route in [configuration["route"], *configuration["route"]["routes"]]:
        route |= {"group_wait": "1s", "group_interval": "1s"}
    return configuration


def alertmanager_for_tests(configuration: dict[str, Any], received: Receiver) -> dict[str, Any]:
    """Adds a webhook to each receiver, at a path of its name, so that tests see what a person gets, with its labels."""
    for entry in configuration["receivers"]:
        hook = {"url": received.url(f"/{entry['name']}"), "send_resolved": True}
        entry["webhook_configs"] = [*entry.get("webhook_configs", []), hook]
    return configuration


@dataclass(frozen=True)
class Receiver:
    """A receiver of webhooks, or of other notifications that post JSON, such as those of Slack."""

    server: StandIn

    @property
    def notifications(self) -> list[tuple[str, dict[str, Any]]]:
        return [(request.path, json.loads(request.body)) for request in list(self.server.requests)]

    def url(self, path: str) -> str:
        return self.server.url + path

    def alerts(self, name: str, status: str, path: str) -> list[dict[str, Any]]:
        """Alerts of this name in webhooks to `path`; status: firing or resolved."""
        received = [alert for to, body in self.notifications if to == path for alert in body["alerts"]]
        return [alert for alert in received if (alert["labels"]["alertname"], alert["status"]) == (name, status)]


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    with stand_in(
        lambda _: Reply(b"ok", headers={})
    ) as server:  # Slack's answer; newer Alertmanagers resend after any other
        yield Receiver(server)


PASSWORD = "let me in"
"""The only password that the server accepts."""


@dataclass(frozen=True)
class Mailbox:
    """A mail server. mails: the received mails, in order."""

    port: int
    mails: list[EmailMessage] = field(default_factory=list)


def part(mail: EmailMessage, kind: str) -> str:
    body = mail.get_body((kind,))
    assert body is not None, f"no {kind} part"
    return cast(str, body.get_content())


@contextlib.contextmanager
def mailbox() -> Iterator[Mailbox]:
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
