"""Roots come from the machine's own archives; where none can be made, a sentence says why."""

from __future__ import annotations

import os
import shutil

import pytest

from tools import commands, debian_root
from tools.commands import CommandError
from tools.debian_root import UnavailableError, archive, suite_of, unavailable

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
    """A machine that has everything, whatever this one has."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(commands, "run_command", lambda command, cwd=None: None)


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("os_release", [DEBIAN, MINT, "ID=ubuntu\n"])
def test_debian_ubuntu_and_what_is_like_them_can(os_release):
    """Nothing is in the way there."""
    assert unavailable(os_release) is None


@pytest.mark.usefixtures("able")
def test_other_systems_cannot():
    """Elsewhere there is no apt to ask."""
    assert unavailable(FEDORA) == "this machine is neither Debian nor Ubuntu"
    assert unavailable("") == "this machine is neither Debian nor Ubuntu"


@pytest.mark.usefixtures("able")
def test_an_ordinary_user_cannot(monkeypatch):
    """It takes root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in (unavailable(DEBIAN) or "")


@pytest.mark.usefixtures("able")
def test_missing_programs_are_named(monkeypatch):
    """All that are missing, at once."""
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("git", "nsenter") else name)
    assert unavailable(DEBIAN) == "this machine has no git, nsenter"


@pytest.mark.usefixtures("able")
def test_refused_namespaces_are_said(monkeypatch):
    """As in a container without the right to mount: what unshare said is the reason."""

    def refuse(command, cwd=None):
        raise CommandError(" ".join(command), "unshare: unshare failed: Operation not permitted\n")

    monkeypatch.setattr(commands, "run_command", refuse)
    assert unavailable(DEBIAN) == "namespaces are refused: unshare: unshare failed: Operation not permitted"


def test_the_suite_is_that_of_the_machine():
    """With quotes or without; a system that names none is asked for one."""
    assert (suite_of(DEBIAN), suite_of(MINT)) == ("bookworm", "wilma")
    with pytest.raises(UnavailableError, match="names no suite"):
        suite_of(FEDORA)


def test_the_archive_is_the_one_that_has_the_suite():
    """With the components that are in use of it; neither its updates, nor others' packages."""
    assert archive(TARGETS, "bookworm") == ("http://one.example.org/debian/", ["contrib", "main"])
    assert archive(TARGETS, "trixie") == ("http://two.example.org/debian/", ["main"])


def test_an_unused_suite_is_expected_where_the_machines_own_is():
    """An archive has all suites of a distribution."""
    assert archive(TARGETS, "forky")[0] == "http://one.example.org/debian/"


@pytest.mark.parametrize("targets", ["", "Other|nodistro|main|https://packages.example.org/\n", "E: what?\n"])
def test_without_an_archive_it_says_so(targets):
    """A machine that installs from elsewhere, or whose apt says nothing that can be read."""
    with pytest.raises(UnavailableError, match="apt knows no archive"):
        archive(targets, "bookworm")


@pytest.mark.usefixtures("able")
def test_a_root_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    """debootstrap's last line is the reason, and no part of a root is left to be taken for a whole one."""

    def run(command, cwd=None):
        if "debootstrap" in command:
            command[-2].mkdir()
            raise CommandError("debootstrap", "I: Retrieving\nE: Failed getting release file\n")

    monkeypatch.setattr(commands, "run_command", run)
    monkeypatch.setattr(debian_root, "_targets", lambda: TARGETS)
    with (
        pytest.raises(UnavailableError, match="no root of bookworm can be made: E: Failed getting release file"),
        debian_root.copied("bookworm", tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("able")
def test_a_copy_is_removed_whatever_happens(tmp_path, monkeypatch):
    """As is one that a killed run has left; that of a run still going on, and the root itself, stay."""
    (tmp_path / "bookworm").mkdir()
    ended, going = tmp_path / "copy-4194305", tmp_path / "copy-1"  # the first is more than any pid can be
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
    """pip's configuration and apt's proxy go with it, and no other setting of apt."""
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
