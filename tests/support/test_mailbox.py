"""The mailbox of the tests of Alertmanager takes whole mails, and no other."""

from __future__ import annotations

import smtplib
import socket

from tests.support.mailbox import mailbox


def test_a_mail_is_kept() -> None:
    """A mail is kept as it was sent, lines that begin with a dot included."""
    with mailbox() as box:
        with smtplib.SMTP("127.0.0.1", box.port) as client:
            client.sendmail("a@example.org", "b@example.org", "Subject: hello\r\n\r\n.dot\r\n")
        (mail,) = box.mails
    assert (mail["Subject"], mail.get_content().splitlines()) == ("hello", [".dot"])


def test_a_sender_that_goes_in_the_middle_of_a_mail() -> None:
    """It ends the conversation: nothing is kept, and nothing waits for the rest."""
    with mailbox() as box:
        with socket.create_connection(("127.0.0.1", box.port)) as client:
            client.sendall(b"DATA\r\nSubject: half")
        mails = box.mails
    assert mails == []
