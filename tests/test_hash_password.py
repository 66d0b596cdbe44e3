"""`hash-password`: from a pipe and from a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import sys

import bcrypt
import pytest

from tests.support.exporter import COMMAND, clean_environment
from uwsgi_headroom import cli


def hashed(monkeypatch: pytest.MonkeyPatch, given: bytes, *more: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    return cli.main(["hash-password", "--cost", "4", *more])


@pytest.mark.parametrize("password", [b"secret", b" spaces ", "pä:ß".encode(), b"\xff\xfe", b"x" * 72])
def test_one_line_of_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], password: bytes
) -> None:
    """The line without its end is the password, in any bytes."""
    for end in (b"\n", b"\r\n", b"", b"\nsecond line\n"):
        assert hashed(monkeypatch, password + end) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("$2b$04$")
        assert bcrypt.checkpw(password, line.encode())


@pytest.mark.parametrize(
    ("given", "words"), [(b"", "empty"), (b"\n", "empty"), (b"x" * 73, "73 bytes"), (b"a\0b", "NUL")]
)
def test_passwords_that_bcrypt_would_not_keep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: bytes, words: str
) -> None:
    """They are refused, in a sentence without the password."""
    assert hashed(monkeypatch, given) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err
    assert "xxx" not in output.err


@pytest.mark.parametrize("cost", ["3", "21", "x", "²"])
def test_costs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cost: str) -> None:
    """Only those that the web configuration accepts."""
    assert hashed(monkeypatch, b"x\n", "--cost", cost) == 2
    assert "4 to 20" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "status"), [((b"secret\n", b"secret\n"), 0), ((b"secret\n", b"other\n"), 2)])
def test_a_terminal(typed: tuple[bytes, bytes], status: int) -> None:
    """The password is asked for twice, and never shown."""
    pid, parent = pty.fork()
    if pid == 0:
        os.execve(COMMAND[0], [*COMMAND, "hash-password", "--cost", "4"], clean_environment())
    shown = b""
    for prompt, line in zip((b"Password: ", b"Again: "), typed, strict=True):
        while not shown.endswith(prompt):
            shown += os.read(parent, 1000)
        os.write(parent, line)
    output = b""
    with contextlib.suppress(OSError):  # EIO: the end
        while part := os.read(parent, 1000):
            output += part
    os.close(parent)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status
    assert b"secret" not in shown + output
    assert (b"$2b$04$" in output) == (status == 0)
