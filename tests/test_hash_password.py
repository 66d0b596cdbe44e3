"""`hash-password`: from a pipe and from a terminal."""

import contextlib
import io
import os
import pty
import sys

import bcrypt
import pytest

from tests.support.exporter import COMMAND, clean_environment
from uwsgi_headroom import cli


def hashed(monkeypatch, given, *more):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    return cli.main(["hash-password", "--cost", "4", *more])


@pytest.mark.parametrize("password", [b"secret", b" spaces ", "pä:ß".encode(), b"\xff\xfe", b"x" * 72])
def test_one_line_of_a_pipe(monkeypatch, capsys, password):
    """The line without its end is the password, in any bytes."""
    for end in (b"\n", b"\r\n", b"", b"\nsecond line\n"):
        assert hashed(monkeypatch, password + end) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("$2b$04$")
        assert bcrypt.checkpw(password, line.encode())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"x" * 73, "has 73 bytes"),
        (b"x" * 9000, "has more than 4,000 bytes"),
        (b"a\0b", "NUL"),
    ],
)
def test_passwords_that_bcrypt_would_not_keep(monkeypatch, capsys, given, words):
    """They are refused, in a sentence without the password."""
    assert hashed(monkeypatch, given) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err
    assert "xxx" not in output.err


@pytest.mark.parametrize("cost", ["3", "21", "x", "²"])
def test_costs(monkeypatch, capsys, cost):
    assert hashed(monkeypatch, b"x\n", "--cost", cost) == 2
    assert "4 to 20" in capsys.readouterr().err


def test_a_closed_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["hash-password"]) == 2
    assert "the password is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "status", "words"),
    [
        ((b"secret\n", b"secret\n"), 0, b"$2b$04$"),
        ((b"secret\n", b"other\n"), 2, b""),
        ((b"\x04",), 2, b"no password: the input ended"),
        ((b"secret\n", b"\x04"), 2, b"no password: the input ended"),
        ((b"p\xe4\n",), 2, b"bytes that are not UTF-8"),
    ],
)
def test_a_terminal(typed, status, words):
    """The password is asked for twice, and never shown. Ctrl-D, and bytes of another encoding, end the command with a
    sentence."""
    shown, ended_with = type_passwords(typed)
    assert ended_with == status
    assert words in shown
    assert not any(text in shown for text in (b"secret", b"Traceback"))
    assert (b"$2b$04$" in shown) == (status == 0)


def type_passwords(typed):
    """Run the command in a terminal of UTF-8 and type these lines; returns what it shows, and its exit status."""
    pid, parent = pty.fork()
    if pid == 0:
        environment = {**clean_environment(), "LC_ALL": "C.UTF-8"}
        os.execve(COMMAND[0], [*COMMAND, "hash-password", "--cost", "4"], environment)
    shown = b""
    for prompt, line in zip((b"Password: ", b"Again: "), typed, strict=False):
        while not shown.endswith(prompt):
            shown += os.read(parent, 1000)
        os.write(parent, line)
    with contextlib.suppress(OSError):  # EIO: the end
        while part := os.read(parent, 1000):
            shown += part
    os.close(parent)
    return shown, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
