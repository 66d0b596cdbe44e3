"""What to type for a missing package fits the way in which the program was installed."""

import configparser
import contextlib
import io
import os
import pty
import sys
from pathlib import Path

import bcrypt
import pytest

from tests.support.exporter import COMMAND, clean_environment
from tools.environments import ROOT
from uwsgi_headroom import cli, extras


def test_requirements_are_those_of_the_extras():
    """Each package with its range, and none is forgotten."""
    setup = configparser.RawConfigParser()
    setup.read(ROOT / "setup.cfg")
    ranges = {
        line.replace(" ", "")
        for extra in ("login", "top")
        for line in setup["options.extras_require"][extra].splitlines()
        if line
    }
    assert set(extras.REQUIREMENTS.values()) == ranges


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An environment of its own, whose name holds a space."""
    environment = tmp_path / "my tools"
    environment.mkdir()
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setattr(sys, "executable", f"{environment}/bin/python")
    return environment


def test_in_an_environment_of_pip_or_pipx(prefix):
    """The pip of the Python that runs, with every package that is missing."""
    said = extras.describe_missing(["bcrypt", "rich"])
    assert said == f"bcrypt, rich: '{prefix}/bin/python' -m pip install 'bcrypt>=3.2,<6' 'rich>=13.7,<16'"
    (prefix / "pipx_metadata.json").write_text("{}")
    assert extras.describe_missing(["rich"]) == "rich: pipx inject 'my tools' 'rich>=13.7,<16'"


def test_in_a_package_an_image_and_one_file(prefix, monkeypatch):
    """Debian's modules run in an environment beside it; an image takes none."""
    launcher = (ROOT / "deploy/debian/debian/launcher").read_text()
    assert f'"{extras.DEBIAN}"' in launcher
    assert f" {extras.CONTAINER}\n" in (ROOT / "deploy/container/Containerfile").read_text()
    home = Path(extras.__file__).parents[1]
    monkeypatch.setattr(extras, "DEBIAN", home)
    said = extras.describe_missing(["rich"])
    assert "python3 -m venv ~/headroom && ~/headroom/bin/pip install 'rich>=13.7,<16'" in said
    assert f"PYTHONPATH={home} ~/headroom/bin/python -m uwsgi_headroom" in said
    monkeypatch.setattr(extras, "CONTAINER", prefix / "healthcheck.py")
    assert "this image" not in extras.describe_missing(["rich"])
    (prefix / "healthcheck.py").touch()
    assert "cannot be added to this image" in extras.describe_missing(["rich"])
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert "cannot be added to this one-file program" in extras.describe_missing(["rich"])


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
