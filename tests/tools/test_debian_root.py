"""Roots come from the machine's own archives; if none can be made, a sentence says why."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.real_uwsgi import wait_until
from tools import commands, debian_root
from tools.commands import CommandError
from tools.debian_root import Machine, UnavailableError, archive, in_terminal, suite_of, unavailable

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'
MINT = 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME="wilma"\n'
FEDORA = "ID=fedora\nVERSION_ID=41\n"

TARGETS = """\
Other|nodistro|main|https://packages.example.org/
Debian|bookworm-security|main|http://one.example.org/debian-security/
Debian|bookworm-updates|main|http://one.example.org/debian/
Debian|bookworm|main|http://one.example.org/debian/
Debian|bookworm|contrib|http://one.example.org/debian/
Debian|trixie|main|http://two.example.org/debian/
"""


@pytest.fixture
def able(monkeypatch):
    """Simulates a machine that has everything needed."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(commands, "run_command", lambda command, cwd=None: None)


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("os_release", [DEBIAN, MINT, "ID=ubuntu\n"])
def test_debian_ubuntu_and_what_is_like_them_can(os_release):
    assert unavailable(os_release) is None


@pytest.mark.usefixtures("able")
def test_why_a_root_cannot_be_made(monkeypatch):
    assert unavailable(FEDORA) == "this machine is neither Debian nor Ubuntu"
    assert unavailable("") == "this machine is neither Debian nor Ubuntu"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in (unavailable(DEBIAN) or "")
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("git", "nsenter") else name)
    assert unavailable(DEBIAN) == "this machine has no git, nsenter"


@pytest.mark.usefixtures("able")
def test_refused_namespaces_are_said(monkeypatch):
    """In a container without the right to mount, unshare's error is the reason."""

    def refuse(command, cwd=None):
        raise CommandError(" ".join(command), "unshare: unshare failed: Operation not permitted\n")

    monkeypatch.setattr(commands, "run_command", refuse)
    assert unavailable(DEBIAN) == "namespaces are refused: unshare: unshare failed: Operation not permitted"


def test_the_suite_is_that_of_the_machine():
    """The name may be quoted; without a name, the error asks for one."""
    assert (suite_of(DEBIAN), suite_of(MINT)) == ("bookworm", "wilma")
    with pytest.raises(UnavailableError, match="names no suite"):
        suite_of(FEDORA)


def test_the_archive_is_the_one_that_has_the_suite():
    """The result has the components in use, without updates and other vendors' archives. An archive has all suites of a
    distribution."""
    assert archive(TARGETS, "bookworm") == ("http://one.example.org/debian/", ["contrib", "main"])
    assert archive(TARGETS, "trixie") == ("http://two.example.org/debian/", ["main"])
    assert archive(TARGETS, "forky")[0] == "http://one.example.org/debian/"


@pytest.mark.parametrize("targets", ["", "Other|nodistro|main|https://packages.example.org/\n", "E: what?\n"])
def test_without_an_archive_it_says_so(targets):
    """The error covers a machine with other archives only, and unreadable output of apt."""
    with pytest.raises(UnavailableError, match="apt knows no archive"):
        archive(targets, "bookworm")


@pytest.mark.usefixtures("able")
def test_a_root_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    """debootstrap's last line is the reason, and no incomplete root is left behind."""

    def run(command, cwd=None):
        if "debootstrap" in command:
            command[-2].mkdir()
            raise CommandError("debootstrap", "I: Retrieving\nE: Failed getting release file\n")

    monkeypatch.setattr(commands, "run_command", run)
    monkeypatch.setattr(debian_root, "targets", lambda: TARGETS)
    with (
        pytest.raises(UnavailableError, match="no root of bookworm can be made: E: Failed getting release file"),
        debian_root.copied("bookworm", tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("able")
def test_a_copy_is_removed_whatever_happens(tmp_path, monkeypatch):
    """A copy left by a killed run is removed, too; that of a running check, and the root itself, stay."""
    (tmp_path / "bookworm").mkdir()
    ended, going = tmp_path / "copy-4194305", tmp_path / "copy-1"  # the first is larger than any pid
    ended.mkdir()
    going.mkdir()
    monkeypatch.setattr(commands, "run_command", lambda command, cwd=None: command[-1].mkdir())
    monkeypatch.setattr(debian_root, "_connect", lambda copy: None)

    def interrupted():
        with debian_root.copied("bookworm", tmp_path) as copy:
            assert copy.is_dir()
            assert not ended.exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bookworm", "copy-1"]


def test_a_copy_gets_the_ways_into_the_network(tmp_path, monkeypatch):
    """A copy gets pip's configuration and apt's proxy, and no other setting of apt."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "own.pem"))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "own.pem").write_text("certificate\n")
    (tmp_path / "home/.config/pip").mkdir(parents=True)
    (tmp_path / "home/.config/pip/pip.conf").write_text("[global]\n")
    (tmp_path / "apt-config").write_text(
        "#!/bin/sh\necho 'APT::Sandbox \"x\";'\necho 'Acquire::http::Proxy \"http://proxy.example.org\";'\n"
        "echo 'Acquire::IndexTargets \"\";'\n"
    )
    (tmp_path / "apt-config").chmod(0o755)
    copy = tmp_path / "copy"
    (copy / "etc/apt/apt.conf.d").mkdir(parents=True)
    debian_root._connect(copy)
    assert (copy / "etc/xdg/pip/pip.conf").read_text() == "[global]\n"
    assert (copy / "etc/apt/apt.conf.d/99machine").read_text() == 'Acquire::http::Proxy "http://proxy.example.org";\n'
    assert (copy / str(tmp_path / "own.pem").lstrip("/")).read_text() == "certificate\n"


WAITS = """
import time
try:
    print("\\x1b[Kone\\rtwo\\nwaiting", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("stopped", flush=True)
    input()  # the kernel discards what was not received when a session's first process ends
"""


def test_ctrl_c_is_a_signal_and_lines_written_over_are_kept():
    """The kernel interrupts the command, and its output is kept as lines, without control sequences."""
    with in_terminal(["setsid", "--ctty", sys.executable, "-c", WAITS]) as terminal:
        wait_until(lambda: "waiting" in terminal.text())
        terminal.interrupt()
        assert terminal.process.wait(60) == 0
        wait_until(lambda: "stopped" in terminal.text())
        os.write(terminal.keyboard, b"\n")
    assert terminal.text().splitlines()[:2] == ["one", "two"]
    assert terminal.silence() > 0


def test_a_command_gets_a_clean_environment_and_the_ways_into_the_network(monkeypatch):
    """The command gets only proxies and pip's index from the caller's environment, and runs as the given user there."""
    monkeypatch.setenv("https_proxy", "http://proxy.example.org")
    monkeypatch.setenv("PIP_INDEX_URL", "http://index.example.org")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    bare = Machine(Path("/root-of-it"), SimpleNamespace(pid=7))
    words = bare.command(["make", "demo"], "visitor", "/home/visitor/x", terminal=True)
    assert words[-2:] == ["make", "demo"]
    assert {"https_proxy=http://proxy.example.org", "PIP_INDEX_URL=http://index.example.org"} <= set(words)
    assert {"--userspec=visitor:visitor", "/root-of-it", "--chdir=/home/visitor/x", "HOME=/home/visitor"} <= set(words)
    assert "--ctty" in words
    assert not any("PYTHONPATH" in word for word in words)
