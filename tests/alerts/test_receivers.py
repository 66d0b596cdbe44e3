"""The mailbox for the tests of Alertmanager keeps complete mails, and no others."""

from __future__ import annotations

import smtplib
import socket

from tests.alerts.receivers import mailbox


def test_a_whole_mail_is_kept() -> None:
    """It is kept as it was sent, with lines that begin with a dot. Half a mail is dropped, and nothing waits for the
    rest."""
    with mailbox() as box:
        with smtplib.SMTP("127.0.0.1", box.port) as client:
            client.sendmail("a@example.org", "b@example.org", "Subject: hello\r\n\r\n.dot\r\n")
        (mail,) = box.mails
    assert (mail["Subject"], mail.get_content().splitlines()) == ("hello", [".dot"])
    with mailbox() as box:
        with socket.create_connection(("127.0.0.1", box.port)) as client:
            client.sendall(b"DATA\r\nSubject: half")
        mails = box.mails
    assert mails == []
