"""The mailbox for the tests of Alertmanager keeps complete mails, and no others."""

from __future__ import annotations

import smtplib
import socket

from tests.alerts.receivers import mailbox


def test_a_mail_is_kept() -> None:
    """A mail is kept as it was sent, including lines that begin with a dot."""
    with mailbox() as box:
        with smtplib.SMTP("127.0.0.1", box.port) as client:
            client.sendmail("a@example.org", "b@example.org", "Subject: hello\r\n\r\n.dot\r\n")
        (mail,) = box.mails
    assert (mail["Subject"], mail.get_content().splitlines()) == ("hello", [".dot"])


def test_a_sender_that_goes_in_the_middle_of_a_mail() -> None:
    """The mailbox ends the conversation: nothing is kept, and nothing waits for the rest."""
    with mailbox() as box:
        with socket.create_connection(("127.0.0.1", box.port)) as client:
            client.sendall(b"DATA\r\nSubject: half")
        mails = box.mails
    assert mails == []
